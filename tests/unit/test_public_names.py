"""What `import attentif` promises: changing these lists is changing the interface."""

import os
import subprocess
import sys
from types import FunctionType

import pytest
import torch

import attentif
from attentif.runtime import configure_process

NAMES = [
    "AttentifError",
    "Comparison",
    "ConfigError",
    "DataError",
    "Maps",
    "Profile",
    "Run",
    "RunError",
    "UsageError",
    "__version__",
    "compare",
    "load",
    "profile",
    "record",
    "train",
    "tune",
]
RUN = {
    "align", "capabilities", "config", "embed", "embed_file", "evaluate", "explain", "fill", "folder", "generate", "kind", "maps", "match",
    "model", "neighbours", "note", "network", "paint", "path", "predict", "predict_file", "questions", "require", "results", "senses",
    "stream", "task", "token_name", "tokenizer", "tokenizers", "translate", "vectors",
}  # fmt: skip


def test_the_package_exports_these_names_and_no_others() -> None:
    assert sorted(attentif.__all__) == NAMES
    assert set(NAMES) <= set(dir(attentif))
    for name in NAMES:
        assert getattr(attentif, name) is not None


def test_a_run_offers_these_methods() -> None:
    public = {name for name in dir(attentif.Run) if not name.startswith("_")}
    assert public == RUN - {"config", "folder", "model", "task", "tokenizers"}  # these are set when it is opened


def test_train_stays_a_function_whatever_is_imported() -> None:
    import attentif.training.schedule

    assert isinstance(attentif.train, FunctionType)
    assert attentif.training.schedule.SCHEDULES


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import sys, attentif; assert not {'torch', 'numpy', 'pydantic', 'rich', 'typer'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_and_checking_leave_the_process_as_it_was() -> None:
    code = """
import os, sys
before = dict(os.environ)
import attentif, attentif.api, torch
from attentif import runtime
from attentif.config import Layer
from attentif.training.load import load_run_config
from attentif.training.run import check_config
runtime.keep_buffers = lambda: sys.exit("checking a configuration changed the allocator")
threads = torch.get_num_threads()
check_config(load_run_config("reviews", [Layer({"train": {"threads": threads + 1, "deterministic": True}}, "test")]))
assert dict(os.environ) == before
assert torch.get_num_threads() == threads
assert not torch.are_deterministic_algorithms_enabled()
assert type(attentif).__name__ == "module"
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_settings_of_a_run_are_undone_when_it_ends() -> None:
    before = torch.get_num_threads()
    with configure_process(threads=before + 1, deterministic=True):
        assert torch.get_num_threads() == before + 1
        assert torch.are_deterministic_algorithms_enabled()
    assert torch.get_num_threads() == before
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize(("given", "expected"), [({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, "None")])
def test_the_command_leaves_the_cores_to_the_kernels_unless_told_otherwise(given: dict[str, str], expected: str) -> None:
    outside = {key: value for key, value in os.environ.items() if key not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    code = "import os; from attentif.runtime import limit_openmp_spinning; limit_openmp_spinning(); print(os.environ.get('GOMP_SPINCOUNT'))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=outside | given)
    assert done.stdout.strip() == expected


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(attentif, "nothing_of_the_kind")
