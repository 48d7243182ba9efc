"""Callers ask for capabilities and know no task."""

import ast
from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

import attentif
from attentif.errors import UsageError
from attentif.tasks import TASKS
from attentif.tasks.capabilities import CAPABILITIES, PredictRequest
from attentif.tasks.fitting import FITTINGS
from attentif.training.progress import Silent

SOURCE = Path(attentif.__file__).parent
CALLERS = ["api.py", "cli"]  # and, while it is rebuilt, not yet training/export.py and training/imported.py
SHARED = {  # modules of `tasks` that hold no task
    "attentif.tasks", "attentif.tasks.capabilities", "attentif.tasks.feed", "attentif.tasks.fitting", "attentif.tasks.task",
    "attentif.tasks.pretraining.fill", "attentif.tasks.vectors.senses", "attentif.tasks.vectors.sentences",
    "attentif.tasks.pictures.paint_report",
}  # fmt: skip


def test_every_task_names_capabilities_that_exist() -> None:
    offered = {name: TASKS[name]().build().offers for name in TASKS if name not in ("recall", "replaced", "denoise")}
    assert all(offered.values()), offered
    for cls in FITTINGS.values():
        assert cls.offers
    for names in [*offered.values(), *(cls.offers for cls in FITTINGS.values())]:
        assert set(names) <= set(CAPABILITIES)


@pytest.mark.parametrize("capability", CAPABILITIES.values(), ids=lambda one: one.name)
def test_a_capability_is_a_method_of_a_run_with_a_typed_request_and_response(capability) -> None:
    assert callable(getattr(attentif.Run, capability.method))
    assert capability.request.model_json_schema()["type"] == "object"
    TypeAdapter(capability.response)


def test_callers_import_no_concrete_task() -> None:
    files = [path for name in CALLERS for path in ([SOURCE / name] if name.endswith(".py") else (SOURCE / name).rglob("*.py"))]
    for file in files:
        imported = {node.module for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ImportFrom) and node.module}
        concrete = {name for name in imported if name.startswith("attentif.tasks")} - SHARED
        assert not concrete, f"{file.name} imports {concrete}"


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
    assert answers[0]["output"] == run.predict(["film superbe"])[0].output


def test_what_a_run_cannot_do_is_one_line_that_names_what_it_can(run: attentif.Run) -> None:
    for ask in (lambda: run.generate("film"), lambda: run.fill("un ___"), lambda: run.paint("un sept"), lambda: run.align("a", "b")):
        with pytest.raises(UsageError, match=r"cannot .*classify, embed"):
            ask()


def test_an_unknown_field_of_a_request_is_refused() -> None:
    with pytest.raises(ValidationError, match="texts"):
        PredictRequest(inputs=["a"], texts=["b"])
