"""`fill`, `embed` and `senses` as a user types them, on a model of one's own and on other people's; and what cannot be, in one line."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from foreign import save

import attentif
from attentif.cli.main import run as typed

pytestmark = pytest.mark.system

Ask = Callable[..., tuple[int, str, str]]
USES = ["Un roi magnifique.", "Il était un roi.", "Le roi et les chats.", "Roi ennuyeux."]
LINES = ["Un film magnifique.", "", "The cat sat on the mat.", "Un film ennuyeux et long, trop long pour un roi.", "Quel film !"]
SHORT = ["train.epochs=0", "train.min_steps=0", "train.steps=3", "train.eval_every=3", "train.patience=0", "--threads=1"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("sentences")
    for name in ("bert-masked", "bert-bare", "gpt2", "vit"):
        save(name, place / name)
    (place / "lignes.txt").write_text("\n".join(LINES) + "\n")
    (place / "avis.csv").write_text("note,avis\n" + "".join(f'{number},"{text}"\n' for number, text in enumerate(filter(None, LINES))))
    (place / "corpus.csv").write_text("text\n" + "".join(f"le film numéro {number} est bleu et long\n" for number in range(60)))
    return place


@pytest.fixture
def ask(place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Ask:
    monkeypatch.chdir(place)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def asked(*words: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = typed(list(words))
        return code, *capfd.readouterr()

    return asked


def test_a_model_of_ones_own_fills_in_and_compares(ask: Ask, place: Path) -> None:
    model = ["model.base=bert-tiny", "model.width=32", "model.layers=2", "task.context=32", "tokenizer.vocab=200"]
    code, _, err = ask("train", "masked", "--data", "corpus.csv", "--out", "runs/m", *model, *SHORT)
    assert code == 0, err
    code, out, _ = ask("fill", "runs/m", "le ___ est [MASK]", "--count", "3", "--json")
    assert code == 0
    found = json.loads(out)
    assert [len(guesses) for guesses in found["places"]] == [3, 3]
    assert found["input"] == "le ___ est [MASK]"
    assert "hidden word 2" in ask("fill", "runs/m", "le ___ est [MASK]")[1]
    assert ask("embed", "runs/m", "le film", "un film", "est bleu")[0] == 0
    assert ask("senses", "runs/m", "film", "le film est long", "un film bleu")[0] == 0


def test_vectors_of_a_file_are_those_of_its_lines_in_order(ask: Ask, place: Path) -> None:
    expected = attentif.load(place / "bert-bare").embed([line for line in LINES if line])
    code, out, err = ask("embed", "bert-bare", "lignes.txt", "--out", "v.npz")
    assert (code, out) == (0, "v.npz\n"), err
    assert "1 blank line" in err
    assert "4 vectors" in err
    with np.load(place / "v.npz", allow_pickle=False) as found:
        np.testing.assert_allclose(found["vectors"], expected, atol=1e-6)
        assert found["lines"].tolist() == [1, 3, 4, 5]
    assert ask("embed", "bert-bare", "avis.csv", "--text", "avis", "--out", "v.csv", "--no-normalise", "--pooling", "cls")[0] == 0
    assert (place / "v.csv").read_text().splitlines()[1].startswith("2,Un film magnifique.,")


def test_the_lines_nearest_to_a_question_are_shown(ask: Ask) -> None:
    code, out, _ = ask("embed", "bert-bare", "avis.csv", "--near", LINES[3], "--count", "2", "--json")
    assert code == 0
    first, second = json.loads(out)
    assert (first["line"], first["text"], round(first["cosine"], 5)) == (4, LINES[3], 1.0)
    assert second["cosine"] < first["cosine"]
    assert LINES[3] in ask("embed", "gpt2", "lignes.txt", "--near", LINES[3])[1]


def test_texts_are_compared_with_each_other(ask: Ask) -> None:
    code, out, _ = ask("embed", "bert-bare", *USES[:3], "--json")
    assert code == 0
    table = np.array(json.loads(out)["cosines"])
    np.testing.assert_allclose(np.diag(table), 1, atol=1e-5)
    assert "Un roi magnifique." in ask("embed", "bert-bare", *USES[:3])[1]


def test_uses_of_a_word_are_compared_by_layer_and_written_as_a_page(ask: Ask, place: Path) -> None:
    code, out, err = ask("senses", "bert-masked", "roi", *USES, "--layers", "--groups", "2", "--out", "roi.html")
    assert code == 0, err
    assert "table of words" in out
    assert "layer 2" in out
    assert "2 senses" in out
    assert out.endswith("roi.html\n")
    assert "en contexte" in (place / "roi.html").read_text()
    table = json.loads(ask("senses", "bert-masked", "roi", *USES, "--json")[1])
    assert np.array(table["layers"]).shape == (2, 4, 4)
    np.testing.assert_allclose(table["static"], 1, atol=1e-5)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["fill", "bert-masked", "Un film."], 2, "the text hides no word: write [MASK] (or ___) where one is to be found"),
        (["fill", "bert-masked", "film " * 60 + "___"], 2, "tokens, and this model reads 40: make it shorter"),
        (["fill", "bert-bare", "Un ___."], 2, "error: bert-bare: this run cannot fill in hidden words: it is a run of embed"),
        (["fill", "gpt2", "Un ___."], 2, "cannot fill in hidden words: it is a run of language"),
        (["fill", "bert-masked", "Un ___.", "--count", "0"], 2, "'--count'"),
        (["fill", "nowhere", "Un ___."], 1, "error: nowhere: no such run"),
        (["embed", "bert-bare", "lignes.txt"], 2, "say where the vectors go (--out FILE.npz) or what to look for (--near TEXT)"),
        (["embed", "bert-bare", "un"], 2, "'un' is not a file: give one, or at least two texts"),
        (["embed", "bert-bare", "rien.csv", "--out", "out.npz"], 1, "error: rien.csv: no such file"),
        (["embed", "bert-bare", "a", "b", "--text", "avis"], 2, "--text names a column of a file"),
        (["embed", "bert-bare", "avis.csv", "--text", "avi", "--out", "out.npz"], 1, "avis.csv: no column is called 'avi'"),
        (["embed", "bert-bare", "lignes.txt", "--out", "out.pkl"], 2, "error: out.pkl: vectors are written to .npz, .safetensors, .csv"),
        (["embed", "bert-bare", "lignes.txt", "--out", "no/out.npz"], 2, "error: no/out.npz: there is no folder no"),
        (["embed", "bert-bare", "lignes.txt", "--out", "kept.npz"], 2, "error: kept.npz: exists; overwrite it with --force"),
        (["embed", "bert-bare", "a", "b", "--pooling", "sum"], 2, "pooling must be one of mean, first, last, max, cls, not 'sum'"),
        (["embed", "vit", "a", "b"], 2, "cannot embed texts"),
        (["senses", "bert-bare", "roi", "Un roi.", "Un chat."], 2, "'roi' is not a word of sentence 2: 'Un chat.'"),
        (["senses", "bert-bare", "roi", "Un roi."], 2, "two uses of the word at least"),
        (["senses", "bert-bare", "roi", "Un roi. Le roi.", "--groups", "3"], 2, "2 uses cannot be grouped into 3 senses"),
        (["senses", "vit", "roi", "Un roi.", "Le roi."], 2, "cannot embed texts"),
        (["senses", "bert-bare", "roi", "Un roi.", "Le roi.", "--out", "kept.npz"], 2, "kept.npz: exists"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(ask: Ask, place: Path, words: list[str], code: int, message: str) -> None:
    (place / "kept.npz").touch()
    found, out, err = ask(*words)
    assert (found, message in err) == (code, True), err
    assert (out, err.count("\n")) == ("", 1)
    assert not (place / "out.npz").exists()
