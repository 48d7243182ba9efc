"""Word vectors from texts that are too small: fitted, with a warning."""

from pathlib import Path

import pytest

import attentif

TEN = """La plage est belle aujourd'hui.
Je vais à la plage.
Le sable est chaud.
La mer est calme.
Les enfants jouent sur la plage.
Il fait beau.
Nous nageons dans la mer.
Le soleil brille.
La plage est pleine.
Le vent souffle.
"""


@pytest.mark.parametrize(("kind", "fit"), [("word2vec", {"algorithm": "cbow", "size": 5}), ("glove", {"size": 5})])
def test_ten_sentences_are_fitted_whole_with_a_warning(kind: str, fit: dict[str, object], tmp_path: Path) -> None:
    file = tmp_path / "ten.txt"
    file.write_text(TEN, encoding="utf-8")
    run = attentif.train(kind, data=str(file), out=tmp_path / "run", fit=fit)
    words = [near.word for near in run.vectors.neighbours("plage", 40)]
    assert "souffle" in words  # the last line was not kept apart
    report = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "too few for vectors" in report
