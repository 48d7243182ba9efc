"""The base install is what text needs: optional packages are asked for only by what reads them."""

import subprocess
import sys

import pytest

import attentif
from attentif.errors import UsageError
from attentif.extras import EXTRAS, require_extra

BLOCKED = f"""
import importlib.util, sys
blocked = {sorted(EXTRAS)!r}
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in blocked:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Finder())
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name.split(".")[0] in blocked else real(name, package)
"""
TEXT = """
import attentif
rows = "text,label\\n" + "".join(f"{w} film {n},{l}\\n" for n in range(30) for w, l in (("bon", "oui"), ("long", "non")))
open("avis.csv", "w").write(rows)
settings = {"steps": 2, "epochs": 1.0, "min_steps": 0, "baselines": False}
run = attentif.train("reviews", "avis.csv", out="run", model={"width": 16, "layers": 1}, task={"vectors": False}, train=settings)
assert run.predict(["bon film"])[0].output in ("oui", "non")
from attentif.errors import UsageError
from attentif.data.audio import require_extra
try:
    require_extra("soundfile")
except UsageError as error:
    assert "attentif[audio]" in str(error)
else:
    raise SystemExit("soundfile was found")
print("done")
"""


def test_texts_are_trained_and_answered_without_the_optional_packages(tmp_path) -> None:
    found = subprocess.run([sys.executable, "-c", BLOCKED + TEXT], cwd=tmp_path, capture_output=True, text=True)
    assert found.stdout.strip().endswith("done"), found.stderr[-2000:]


def test_a_missing_package_is_one_line_with_the_command_to_type(monkeypatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"attentif\[pictures\]"):
        require_extra("PIL")


def test_summaries_are_refused_before_anything_is_read_where_their_scores_cannot_be_computed(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr("attentif.extras.is_installed", lambda module: module != "rouge_score")
    with pytest.raises(UsageError, match=r"attentif\[summaries\]"):
        attentif.train("summarise", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
