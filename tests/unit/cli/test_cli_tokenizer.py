import gzip
import json

import pytest

from attentif.cli.main import run

TEXT = "un film génial, vraiment génial !\nla série était très mauvaise\nl'été dernier\n" * 30


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    (folder / "a.txt.gz").write_bytes(gzip.compress(TEXT.encode(), mtime=0))
    assert run(["tokenizer", "train", str(folder / "a.txt.gz"), "--vocab", "330", "--special", "[USER]", "--out", str(folder / "run")]) == 0
    return folder


def test_a_tokenizer_is_trained_and_said(folder, capsys):
    assert run(["tokenizer", "train", str(folder / "a.txt.gz"), "--kind", "char", "--out", str(folder / "char.json")]) == 0
    assert "bytes per token" in capsys.readouterr().err
    assert json.loads((folder / "char.json").read_text())["model"]["type"] == "WordLevel"


def test_columns_of_tables_are_found(folder, capsys):
    (folder / "a.csv").write_text("review,polarity\n" + "un film génial,1\n" * 30)
    assert run(["tokenizer", "train", str(folder / "a.csv"), "--kind", "word", "--out", str(folder / "csv")]) == 0
    assert run(["tokenizer", "encode", str(folder / "csv"), "un film 1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tokens"] == ["[CLS]", "un", "film", "[UNK]", "[SEP]"]


def test_an_existing_file_is_not_written_over_without_force(folder, capsys):
    words = ["tokenizer", "train", str(folder / "a.txt.gz"), "--vocab", "330", "--special", "[USER]", "--out", str(folder / "run")]
    before = (folder / "run" / "tokenizer.json").read_bytes()
    assert run(words) == 2
    assert "--force" in capsys.readouterr().err
    assert run([*words, "--force"]) == 0
    assert (folder / "run" / "tokenizer.json").read_bytes() == before


def test_show_walks_through_merges_and_a_word(folder, capsys):
    assert run(["tokenizer", "show", str(folder / "run"), "--merges", "3", "--word", "génial"]) == 0
    shown = capsys.readouterr().out
    assert "⟨C3⟩|⟨A9⟩" in shown
    assert "merge 1: " in shown or "merge 2: " in shown


def test_show_as_json(folder, capsys):
    assert run(["tokenizer", "show", str(folder / "run"), "--merges", "3", "--word", "génial", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [each["rank"] for each in shown["learned"]] == [0, 1, 2]
    assert "".join(shown["cuts"][0]["tokens"]) == "gÃ©nial"


def test_encode_shows_tokens_ids_and_segments(folder, capsys):
    assert run(["tokenizer", "encode", str(folder / "run"), "un film", "--pair", "bon"]) == 0
    tokens, ids, segments = capsys.readouterr().out.splitlines()
    assert tokens.startswith("[CLS]|un|␣film|[SEP]|")
    assert ids.startswith("2 ")
    assert segments.split().count("1") == len(ids.split()) - 4


@pytest.mark.parametrize(
    ("words", "message", "code"),
    [
        (["train", "nowhere.txt", "--out", "x"], "nowhere.txt: no such file", 1),
        (["train", "nowhere.txt", "--kind", "bep", "--out", "x"], "did you mean 'bpe'", 2),
        (["train", "nowhere.txt", "--vocab", "12", "--out", "x"], "vocab: 12 is too small", 2),
        (["show", "nowhere"], "nowhere: no such file", 1),
        (["encode", "nowhere", "text"], "nowhere: no such file", 1),
    ],
)
def test_mistakes_are_said_in_one_line(words, message, code, capsys):
    assert run(["tokenizer", *words]) == code
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1
