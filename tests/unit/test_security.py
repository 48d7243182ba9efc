"""No module unpickles, evaluates or imports what a file says."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "src" / "attentif"
SOURCES = {path.relative_to(ROOT).as_posix(): path for path in sorted(ROOT.rglob("*.py"))}
MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
CALLS = {"eval", "exec", "compile", "__import__"}
ATTRIBUTES = {("torch", "load"), ("os", "system"), ("os", "popen"), ("yaml", "load")}
# numba keeps compiled kernels as pickles: its files are checked by hash, in a folder that only the user can write
EXCEPTIONS = {("kernels/jit_cache.py", "pickle")}


def find_dangers(tree: ast.AST) -> set[str]:
    """Names of what a module imports or calls that could run code from a file."""
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found |= {name.name.split(".")[0] for name in names} & MODULES
            case ast.ImportFrom(module=str(module)):
                found |= {module.split(".")[0]} & MODULES
            case ast.Call(func=ast.Name(id=name)) if name in CALLS:
                found.add(name)
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if (owner, name) in ATTRIBUTES:
                found.add(f"{owner}.{name}")
            case ast.keyword(arg="shell" | "allow_pickle" | "trust_remote_code" as name, value=ast.Constant(value=True)):
                found.add(name)
    return found


@pytest.mark.parametrize("name", SOURCES)
def test_no_module_runs_code_that_comes_from_a_file(name: str) -> None:
    found = find_dangers(ast.parse(SOURCES[name].read_text(encoding="utf-8")))
    assert found - {danger for module, danger in EXCEPTIONS if module == name} == set()


@pytest.mark.parametrize(
    "code",
    ["import pickle", "from pickle import loads", "eval('1')", "torch.load(f)", "np.load(f, allow_pickle=True)", "run(c, shell=True)"],
)
def test_each_danger_would_be_found(code: str) -> None:
    assert find_dangers(ast.parse(code))
