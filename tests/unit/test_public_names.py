"""What `import attentif` promises: changing these lists is changing the interface."""

import os
import subprocess
import sys
from types import ModuleType

import pytest

import attentif

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
]
RUN = {
    "config", "embed", "evaluate", "fill", "folder", "generate", "maps", "model", "note", "paint", "path", "predict", "read", "results",
    "senses", "stream", "task", "token_name", "tokenizer", "tokenizers", "translate", "vectors",
}  # fmt: skip


def test_the_package_exports_these_names_and_no_others() -> None:
    assert sorted(attentif.__all__) == NAMES
    assert set(NAMES) <= set(dir(attentif))
    for name in NAMES:
        assert getattr(attentif, name) is not None


def test_a_run_offers_these_methods() -> None:
    public = {name for name in dir(attentif.Run) if not name.startswith("_")}
    assert public == RUN - {"config", "folder", "model", "task", "tokenizers"}  # these are set when it is opened


def test_train_is_a_function_and_a_package() -> None:
    import attentif.train.schedule  # sets the package as an attribute of `attentif`

    assert isinstance(attentif.train, ModuleType)
    assert callable(attentif.train)
    assert attentif.train.schedule.SCHEDULES


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import sys, attentif; assert not {'torch', 'numpy', 'pydantic', 'rich', 'typer'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(("given", "expected"), [({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, "None")])
def test_waiting_threads_leave_the_cores_to_the_kernels_unless_told_otherwise(given: dict[str, str], expected: str) -> None:
    outside = {key: value for key, value in os.environ.items() if key not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    code = "import os, attentif; print(os.environ.get('GOMP_SPINCOUNT'))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=outside | given)
    assert done.stdout.strip() == expected


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(attentif, "nothing_of_the_kind")
