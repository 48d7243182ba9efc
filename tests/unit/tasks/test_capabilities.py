"""Callers ask for capabilities and know no task."""

import ast
from pathlib import Path

import pytest
from pydantic import ValidationError

import attentif
from attentif.errors import UsageError
from attentif.tasks import TASKS, Task, TaskConfig
from attentif.tasks.capabilities import CAPABILITIES
from attentif.tasks.fitted import FITTED_TASKS
from attentif.tasks.requests import PredictRequest
from attentif.training.progress import Silent

SOURCE = Path(attentif.__file__).parent
SHARED = {  # modules of `tasks` that hold no task
    "attentif.tasks", "attentif.tasks.capabilities", "attentif.tasks.batches", "attentif.tasks.fitted", "attentif.tasks.base",
    "attentif.tasks.explain", "attentif.tasks.requests", "attentif.tasks.responses", "attentif.tasks.predictors", "attentif.tasks.ragged",
    "attentif.tasks.pretraining.fill", "attentif.tasks.embeddings.senses", "attentif.tasks.embeddings.sentences",
    "attentif.tasks.embeddings.pictures",
    "attentif.tasks.vision.paint_report", "attentif.tasks.seeds", "attentif.tasks.states", "attentif.tasks.tokenizers",
    "attentif.tasks.details", "attentif.tasks.answers",
}  # fmt: skip


def test_every_task_names_capabilities_that_exist() -> None:
    offered = {name: TASKS[name]().build().offers for name in TASKS if name not in ("recall", "replaced", "denoise")}
    assert all(offered.values()), offered
    for cls in FITTED_TASKS.values():
        assert cls.offers
    for names in [*offered.values(), *(cls.offers for cls in FITTED_TASKS.values())]:
        assert set(names) <= set(CAPABILITIES)


@pytest.mark.parametrize("capability", CAPABILITIES.values(), ids=lambda one: one.name)
def test_a_capability_is_a_method_of_a_run_with_a_typed_request_and_response(capability) -> None:
    assert callable(getattr(attentif.Run, capability.method))
    assert capability.request.model_json_schema()["type"] == "object"
    assert capability.response.model_json_schema()["type"] == "object"


def test_callers_import_no_concrete_task() -> None:
    outside = [file for file in SOURCE.rglob("*.py") if file.relative_to(SOURCE).parts[0] not in ("tasks", "lab")]
    assert {"run.py", "app.py", "loop.py"} <= {file.name for file in outside}
    for file in outside:
        imported = {node.module for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ImportFrom) and node.module}
        concrete = {name for name in imported if name.startswith("attentif.tasks")} - SHARED
        assert not concrete, f"{file.name} imports {concrete}"


def test_no_module_outside_tasks_imports_a_class_of_a_concrete_task() -> None:
    concrete = {cls.__name__ for cls in subclasses(Task) | subclasses(TaskConfig) if cls.__module__ != "attentif.tasks.base"}
    for file in SOURCE.rglob("*.py"):
        if "tasks" in file.relative_to(SOURCE).parts:
            continue
        nodes = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ImportFrom)]
        imported = {alias.name for node in nodes if (node.module or "").startswith("attentif.tasks") for alias in node.names}
        assert not imported & concrete, f"{file.relative_to(SOURCE)} imports {imported & concrete}"


def subclasses(cls: type) -> set[type]:
    return {*cls.__subclasses__(), *(deeper for own in cls.__subclasses__() for deeper in subclasses(own))}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> attentif.Run:
    data = tmp_path_factory.mktemp("data") / "avis.csv"
    rows = [f"film {n} vraiment {word},{label}" for n in range(20) for word, label in (("superbe", "oui"), ("creux", "non"))]
    data.write_text("text,label\n" + "\n".join(rows) + "\n")
    config = {"task": {"kind": "classify"}, "tokenizer": {"kind": "word"}, "train": {"steps": 2, "threads": 1}}
    config |= {"model": {"base": "encoder-tiny", "width": 16, "layers": 1}}
    return attentif.train(config, data, out=tmp_path_factory.mktemp("runs") / "one", watch=Silent())


def test_a_run_lists_what_it_can_do_and_does_it(run: attentif.Run) -> None:
    assert list(run.capabilities) == ["classify", "embed", "inspect", "neighbours"]
    answers = run.capabilities["classify"].call(run, PredictRequest(inputs=["film superbe"]))
    assert answers.answers[0].label == run.predict(["film superbe"])[0].output


def test_what_a_run_cannot_do_is_one_line_that_names_what_it_can(run: attentif.Run) -> None:
    for ask in (lambda: run.generate("film"), lambda: run.fill("un ___"), lambda: run.paint("un sept"), lambda: run.align("a", "b")):
        with pytest.raises(UsageError, match=r"cannot .*classify, embed"):
            ask()


def test_an_unknown_field_of_a_request_is_refused() -> None:
    with pytest.raises(ValidationError, match="texts"):
        PredictRequest(inputs=["a"], texts=["b"])
