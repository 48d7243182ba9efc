"""Bad input is one honest line, with the exit code that goes with it, and leaves nothing behind."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from terminal import Done

pytestmark = pytest.mark.system


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("train classify.toml --data vide.csv", 1, "vide.csv: is empty"),
        ("train classify.toml --data nulle-part.csv", 1, "nulle-part.csv: no such file"),
        ("train classify.toml --data latin.csv", 1, "latin.csv:2: byte 0xE9 is not UTF-8"),
        ("train classify.toml --data colonnes.csv", 1, "no column looks like the text"),
        ("train classify.toml --data avis.csv --label note", 1, "no column is called 'note'"),
        ("train classify.toml --data une.csv", 1, "une.csv: all 3 rows have the label 'oui'"),
        ("train classify.toml --data avis.csv une.csv", 2, "'une.csv' is a file, not a setting (key=value); several files"),
        ("train classify.toml model.layres=3", 2, "model.layres: unknown key; did you mean 'layers'?"),
        ("train classify.toml train.lr=vite", 2, "train.lr: must be a valid number, not 'vite'"),
        ("train classify.toml model.base=encodr-tiny", 2, "did you mean 'encoder-tiny'?"),
        ("train classify.toml model.base=transformer-tiny", 2, "model: classify reads with one stack"),
        ("train reviws", 2, "did you mean 'reviews'?"),
        ("train nulle-part.toml", 2, "nulle-part.toml: no such file"),
        ("train", 2, "give a recipe"),
        ("train classify.toml --resume runs/classify", 2, "--resume continues a run as configured"),
        ("train --resume nulle-part", 1, "nulle-part: no such run"),
        ("train classify.toml --device abacus", 2, "there is no device 'abacus'"),
        ("predict coupe bonjour", 1, "coupe/model.safetensors: is damaged"),
        ("predict sans bonjour", 1, "sans/tokenizer.json: is missing"),
        ("predict . bonjour", 1, "is not a run"),
        ("predict runs/classify", 2, "give texts"),
        ("predict runs/classify bonjour --pair salut", 2, "this model reads single texts, and input 1 is a pair"),
        ("predict runs/language bonjour --pair salut", 2, "--pair: a run of language takes none"),
        ("predict runs/classify a b --pair c", 2, "--pair goes with one text; many pairs are given in a file, by --file"),
        ("predict runs/classify - --pair c", 2, "--pair goes with one text"),
        ("predict runs/classify --file avis.csv --pair c", 2, "--pair goes with one text"),
        ("generate runs/classify bonjour", 2, "it is a run of classify"),
        ("generate runs/language le --top-k 3", 2, "give a temperature"),
        ("maps runs/language le --layers 9 --out m.html", 2, "no attention map"),
        ("evaluate runs/classify --data avis.csv --split valid", 2, "--split"),
        ("evaluate runs/classify --data colonnes.csv data.labl=b", 2, "labl: unknown key; did you mean 'label'?"),
        ("curve classify.toml --data colonnes.csv --out new", 1, "no column looks like the text; name it: --text NAME"),
        ("curve classify.toml --data colonnes.csv --text a --label c --out new", 1, "no column is called 'c' (asked for as label)"),
        ("curve classify.toml --data avis.csv --out colonnes.csv", 2, "colonnes.csv: exists and is not a curve"),
        ("show gpt3", 2, "did you mean 'gpt2'?"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing_behind(typed: Callable[..., Done], words: str, code: int, said: str) -> None:
    Path("vide.csv").touch()
    Path("latin.csv").write_bytes("text,label\nété,oui\nhiver,non\n".encode("latin1"))
    Path("colonnes.csv").write_text("a,b\nx,y\n")
    Path("une.csv").write_text("text,label\na,oui\nb,oui\nc,oui\n")
    for name, damage in (
        ("coupe", lambda run: os.truncate(run / "model.safetensors", 1000)),
        ("sans", lambda run: (run / "tokenizer.json").unlink()),
    ):
        if not Path(name).exists():
            shutil.copytree("runs/classify", name)
            damage(Path(name))
    before = sorted(Path().iterdir())
    done = typed(*words.split())
    assert done.code == code, done.err
    assert done.out == ""
    last = done.err.splitlines()[-1]
    assert last.startswith("error: ")
    assert said in last
    assert "Traceback" not in done.err
    assert sorted(Path().iterdir()) == before
