"""The script and the notebook of docs/examples run as they stand."""

import os
import runpy
from pathlib import Path

import nbclient
import nbformat
import pytest

pytestmark = pytest.mark.system
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def test_the_everyday_script_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ATTENTIF_CACHE", str(tmp_path / "cache"))
    runpy.run_path(str(EXAMPLES / "everyday.py"))
    shown = capsys.readouterr().out
    assert "360 answers" in shown
    assert "rows were trained on" in shown


@pytest.mark.filterwarnings("ignore")  # of the notebook machinery
def test_the_everyday_notebook_shows_tables_and_nothing_red(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTENTIF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(EXAMPLES.parents[1] / "src"), os.environ.get("PYTHONPATH", "")]))
    notebook = nbformat.read(EXAMPLES / "everyday.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [cell.get("outputs", []) for cell in notebook.cells]
    assert not [output for cell in outputs for output in cell if output.get("name") == "stderr"]
    for cell in outputs[2:]:
        assert any("<table" in output.get("data", {}).get("text/html", "") or "raté" in str(output.get("data")) for output in cell)
