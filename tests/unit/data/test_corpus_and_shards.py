import gzip
import json
import multiprocessing
import os
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from attentif.data import DataConfig, load_corpora, shards, token_stream
from attentif.data.corpus import BLOCK, file_corpus
from attentif.errors import ConfigError, DataError, RunError
from attentif.text import TOKENIZERS

BYTES = TOKENIZERS["byte"]().fit([])


def write(path: Path, content: str | bytes) -> Path:
    raw = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(raw, mtime=0) if path.suffix == ".gz" else raw)
    return path


def verses(count: int) -> str:
    return "".join(f"Vers numéro {i} : à la fin de l'envoi\n" for i in range(count))


def text_of(stream) -> str:
    return BYTES.decode(stream.window(0, len(stream)), skip_special=False)


# --------------------------------------------------------------------------------------------------------------- corpus


def test_plain_text_is_cut_without_losing_or_moving_a_letter(tmp_path):
    text = verses(5000)
    corpora = load_corpora(DataConfig(train=str(write(tmp_path / "a.txt.gz", text))))
    parts = ["".join(part.texts()) for part in (corpora.train, corpora.valid, corpora.test)]
    assert "".join(parts) == text
    assert all(part.endswith("\n") for part in parts)
    assert [round(len(part) / len(text), 2) for part in parts] == [0.8, 0.1, 0.1]


def test_a_document_ends_once_however_many_pieces_it_has(tmp_path):
    pieces = list(file_corpus([write(tmp_path / "a.txt", verses(5000)), write(tmp_path / "b.txt", verses(3))]))
    assert len(pieces) > 3
    assert [ends for _, ends in pieces] == [False] * (len(pieces) - 2) + [True, True]


def documents_of(corpus) -> list[str]:
    """The documents of a corpus, put together again from their pieces."""
    found = [""]
    for text, ends in corpus:
        found[-1] += text
        found += [""] * ends
    assert found.pop() == ""
    return found


def test_blank_lines_part_documents_only_where_that_is_asked_for(tmp_path):
    path = write(tmp_path / "a.txt", "\n\nUn. Deux.\nTrois.\n\nQuatre.\r\n \t\r\n\r\nCinq.\n\n  ")
    parted = file_corpus([path], blank_lines=True)
    assert documents_of(parted) == ["Un. Deux.\nTrois.\n", "Quatre.\n", "Cinq.\n"]
    whole = file_corpus([path])
    assert len(documents_of(whole)) == 1
    assert whole.digest != parted.digest
    assert any(
        "a.txt (plain text): blank lines part its documents" in note
        for note in load_corpora(DataConfig(train=str(path)), blank_lines=True).notes
    )


def test_documents_between_blank_lines_go_on_from_block_to_block(tmp_path):
    """Blocks of the file end before, inside, after and between blank lines."""
    texts = [verses(count) for count in (1, 4000, *range(1, 80), 3, 9000)]
    for blanks in (1, 2, 3):
        path = write(tmp_path / "a.txt.gz", ("\n" * blanks).join(texts))
        assert documents_of(file_corpus([path], blank_lines=True)) == texts
    for shift in range(3):
        path = write(tmp_path / "b.txt", "x" * (BLOCK - 2 + shift - 1) + "\n\n" + "y\n")
        assert [text[0] for text in documents_of(file_corpus([path], blank_lines=True))] == ["x", "y"]


def test_a_plain_file_without_a_blank_line_is_one_document_as_ever(tmp_path):
    path = write(tmp_path / "a.txt", verses(5000))
    asked, ever = file_corpus([path], blank_lines=True), file_corpus([path])
    assert list(asked) == list(ever)
    assert asked.digest == ever.digest


def test_rows_of_tables_keep_their_blank_lines(tmp_path):
    path = write(tmp_path / "a.jsonl", json.dumps({"text": "un\n\ndeux"}))
    assert documents_of(file_corpus([path], blank_lines=True)) == ["un\n\ndeux"]


def test_documents_between_blank_lines_are_cut_into_splits_and_limited(tmp_path):
    path = write(tmp_path / "a.txt", "\n".join(f"document {number}\nsuite\n" for number in range(100)))
    corpora = load_corpora(DataConfig(train=str(path), limit=40), blank_lines=True)
    assert documents_of(corpora.train) == [f"document {number}\nsuite\n" for number in range(20)]
    assert [len(documents_of(part)) for part in (corpora.valid, corpora.test)] == [10, 10]


def test_several_plain_files_are_cut_as_one_text(tmp_path):
    files = [str(write(tmp_path / f"{i}.txt", verses(100))) for i in range(10)]
    corpora = load_corpora(DataConfig(train=files))
    assert [sum(ends for _, ends in part) for part in (corpora.train, corpora.valid, corpora.test)] == [8, 1, 1]


def test_rows_of_tables_are_documents_and_drawn_by_content(tmp_path):
    rows = [{"text": f"document {i}"} for i in range(1000)]
    path = write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows)))
    corpora = load_corpora(DataConfig(train=str(path)))
    parts = [list(part) for part in (corpora.train, corpora.valid, corpora.test)]
    assert sorted(text for part in parts for text, _ in part) == sorted(row["text"] for row in rows)
    assert all(ends for part in parts for _, ends in part)
    assert 700 < len(parts[0]) < 900


def test_groups_are_refused_as_a_stream_is_not_cut_by_them(tmp_path):
    (tmp_path / "a.csv").write_text("text,author\n" + "".join(f"texte {i},{i % 9}\n" for i in range(90)))
    with pytest.raises(ConfigError, match=r"^data.group"):
        load_corpora(DataConfig(train=str(tmp_path / "a.csv"), group="author"))


def test_a_line_without_end_is_read_in_pieces_that_do_not_break_letters(tmp_path):
    text = "é" * 1_500_001
    pieces = list(file_corpus([write(tmp_path / "a.txt", text)]).texts())
    assert len(pieces) > 1
    assert "".join(pieces) == text


def test_line_ends_of_windows_become_plain_ones(tmp_path):
    assert "".join(file_corpus([write(tmp_path / "a.txt", "\ufeffun\r\ndeux\r\n")]).texts()) == "un\ndeux\n"


def test_a_bad_line_deep_in_a_file_is_named_or_skipped(tmp_path):
    raw = verses(5000).encode().replace("numéro 4321 ".encode(), b"num\xe9ro 4321 ")
    path = write(tmp_path / "a.txt.gz", raw)
    with pytest.raises(DataError, match=r"a.txt.gz:4322: byte 0xE9 is not UTF-8"):
        list(file_corpus([path]))
    corpus = file_corpus([path], skip_bad=1)
    text = "".join(corpus.texts())
    assert "4321" not in text
    assert len(text.splitlines()) == 4999
    assert "1 bad row skipped" in corpus.notes[0]


def test_too_little_text_to_cut_is_said(tmp_path):
    corpora = load_corpora(DataConfig(train=str(write(tmp_path / "a.txt", "une seule ligne"))))
    with pytest.raises(DataError, match="too little text"):
        list(corpora.test)


@pytest.mark.parametrize("given", [{}, {"valid": "b.txt", "test": "b.txt"}])
def test_blank_lines_alone_are_no_text_and_the_file_is_named(tmp_path, given):
    (tmp_path / "a.txt").write_text("\n  \n" * 50)
    (tmp_path / "b.txt").write_text("Du texte.\n" * 50)
    corpora = load_corpora(DataConfig(train=str(tmp_path / "a.txt"), **{split: str(tmp_path / file) for split, file in given.items()}))
    with pytest.raises(DataError, match=r"a\.txt: has (no|too little) text"):
        list(corpora.train)


def test_the_digest_is_of_the_content_not_of_the_packing(tmp_path):
    plain, packed, other = (write(tmp_path / name, verses(n)) for name, n in (("a.txt", 9), ("a.txt.gz", 9), ("b.txt", 8)))
    digests = [file_corpus([path]).digest for path in (plain, packed, other)]
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize("name", ["a.txt", "a.csv"])
def test_a_limit_counts_lines_or_rows(tmp_path, name):
    text = verses(5000) if name == "a.txt" else "text\n" + verses(5000)
    corpora = load_corpora(DataConfig(train=str(write(tmp_path / name, text)), limit=3000))
    assert sum(len(text.splitlines()) for text in corpora.train.texts()) == 3000
    assert list(corpora.train)[-1][1]


def test_the_built_in_text_is_a_corpus():
    corpora = load_corpora(DataConfig(name="stdlib", limit=3))
    assert len(list(corpora.train)) == 3
    assert corpora.digest == load_corpora(DataConfig(name="stdlib", limit=3)).digest


# --------------------------------------------------------------------------------------------------------------- shards


def small_shards(monkeypatch, tokens: int = 1000) -> None:
    monkeypatch.setattr(shards, "SHARD", tokens)
    monkeypatch.setattr(shards, "BATCH", 0)  # every piece is a batch, so that shards end often


def test_a_stream_holds_the_documents_each_ended_by_eos(tmp_path):
    path = write(tmp_path / "a.jsonl", "\n".join(json.dumps({"text": text}) for text in ("été", "a b", "c")))
    stream = token_stream(file_corpus([path]), BYTES, cache=tmp_path)
    assert text_of(stream) == "été[EOS]a b[EOS]c[EOS]"
    assert (stream.documents, stream.text_bytes) == (3, 9)


def test_windows_cross_shards(tmp_path, monkeypatch):
    small_shards(monkeypatch)
    text = verses(10_000)
    stream = token_stream(file_corpus([write(tmp_path / "a.txt", text)]), BYTES, cache=tmp_path)
    assert len(list(tmp_path.glob("shards/*/*.bin"))) > 3
    whole = stream.window(0, len(stream))
    assert BYTES.decode(whole) == text
    for start, length in ((0, 10), (BLOCK - 50, 100), (BLOCK - 50, 3 * BLOCK), (len(stream) - 7, 7), (5, 0), (len(stream), 0)):
        assert np.array_equal(stream.window(start, length), whole[start : start + length])
    for start, length in ((-1, 5), (len(stream) - 3, 4)):
        with pytest.raises(IndexError):
            stream.window(start, length)


def test_ids_take_16_bits_where_they_fit_and_32_where_not(tmp_path):
    corpus = file_corpus([write(tmp_path / "a.txt", "un été")])
    large = TOKENIZERS["byte"](special=[f"[{i}]" for i in range(70_000)]).fit([])
    assert token_stream(corpus, BYTES, cache=tmp_path).window(0, 3).itemsize == 2
    stream = token_stream(corpus, large, cache=tmp_path)
    assert stream.window(0, 3).itemsize == 4
    assert large.decode(stream.window(0, len(stream))) == "un été"


def test_the_same_content_is_not_tokenised_twice(tmp_path, monkeypatch):
    first = token_stream(file_corpus([write(tmp_path / "a.txt", verses(10))]), BYTES, cache=tmp_path)
    monkeypatch.setattr(shards, "_write", None)
    again = token_stream(file_corpus([write(tmp_path / "b.txt.gz", verses(10))]), BYTES, cache=tmp_path)
    assert text_of(again) == text_of(first)


def test_every_format_gives_the_same_bytes_from_any_number_of_processes(tmp_path, monkeypatch):
    small_shards(monkeypatch)
    texts = [f"document {i} à lire" for i in range(400)]
    rows = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    table = pyarrow.table({"text": texts})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet", row_group_size=50)
    files = [tmp_path / "a.parquet", write(tmp_path / "b.jsonl", rows), write(tmp_path / "c.jsonl.gz", rows)]
    files += [
        write(tmp_path / "d.jsonl.zst", pyarrow.compress(rows.encode(), "zstd", asbytes=True)),
        write(tmp_path / "e.txt", verses(9000)),
    ]
    corpus, made = file_corpus(files), []
    for processes in (1, 3):
        stream = token_stream(corpus, BYTES, cache=tmp_path / str(processes), processes=processes)
        made.append({file.name: file.read_bytes() for file in (tmp_path / str(processes)).glob("shards/*/*")})
    assert made[0] == made[1]
    assert len(made[0]) > 5
    assert text_of(stream) == "".join(f"{text}[EOS]" for text in texts) * 4 + verses(9000) + "[EOS]"


def test_another_tokenizer_or_another_text_makes_other_shards(tmp_path):
    lower = TOKENIZERS["byte"](lowercase=True).fit([])
    for text, tokenizer in ((verses(10), BYTES), (verses(10), lower), (verses(11), BYTES)):
        token_stream(file_corpus([write(tmp_path / "a.txt", text)]), tokenizer, cache=tmp_path)
    assert len(list((tmp_path / "shards").iterdir())) == 3


@pytest.mark.parametrize("damage", ["flip", "truncate", "missing", "manifest", "no manifest"])
def test_damaged_shards_are_made_again(tmp_path, damage):
    corpus = file_corpus([write(tmp_path / "a.txt", verses(100))])
    token_stream(corpus, BYTES, cache=tmp_path)
    (folder,) = (tmp_path / "shards").iterdir()
    file = folder / ("manifest.json" if "manifest" in damage else "00000.bin")
    raw = bytearray(file.read_bytes())
    raw[len(raw) // 2] ^= 1
    match damage:
        case "flip":
            file.write_bytes(raw)
        case "truncate":
            file.write_bytes(raw[:-1])
        case "manifest":
            file.write_text("{}")
        case _:
            file.unlink()
    assert text_of(token_stream(corpus, BYTES, cache=tmp_path)) == verses(100) + "[EOS]"
    assert [left.name for left in (tmp_path / "shards").iterdir()] == [folder.name]


def test_a_run_that_dies_leaves_nothing_behind(tmp_path, monkeypatch):
    def dies(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(shards, "_write_shard", dies)
    with pytest.raises(KeyboardInterrupt):
        token_stream(file_corpus([write(tmp_path / "a.txt", verses(9))]), BYTES, cache=tmp_path)
    assert list((tmp_path / "shards").iterdir()) == []


def test_what_killed_runs_left_long_ago_is_swept(tmp_path):
    old, new = tmp_path / "shards" / ".old.1", tmp_path / "shards" / ".new.1"
    for folder in (old, new):
        folder.mkdir(parents=True)
    os.utime(old, (0, 0))
    token_stream(file_corpus([write(tmp_path / "a.txt", verses(9))]), BYTES, cache=tmp_path)
    assert not old.exists()
    assert new.exists()


def test_a_cache_that_cannot_be_written_is_said(tmp_path):
    blocked = write(tmp_path / "cache", "a file, not a folder")
    with pytest.raises(RunError, match=r"token cache.*ATTENTIF_CACHE"):
        token_stream(file_corpus([write(tmp_path / "a.txt", verses(9))]), BYTES, cache=blocked)


def _race(folder: str, gate, answers) -> None:
    corpus = file_corpus([Path(folder) / "a.txt"])
    gate.wait()
    answers.put(len(token_stream(corpus, BYTES, cache=Path(folder))))


def test_two_processes_at_once_get_the_same_shards(tmp_path):
    write(tmp_path / "a.txt", verses(20_000))
    context = multiprocessing.get_context("spawn")
    gate, answers = context.Barrier(2), context.Queue()
    runs = [context.Process(target=_race, args=(str(tmp_path), gate, answers)) for _ in range(2)]
    for run in runs:
        run.start()
    found = [answers.get(timeout=60) for _ in runs]
    for run in runs:
        run.join()
    assert found[0] == found[1] == len(verses(20_000).encode()) + 1
    assert len(list((tmp_path / "shards").iterdir())) == 1


def test_the_cache_is_where_the_environment_says(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTENTIF_CACHE", str(tmp_path / "elsewhere"))
    token_stream(file_corpus([write(tmp_path / "a.txt", "un")]), BYTES)
    assert (tmp_path / "elsewhere" / "shards").is_dir()


def test_progress_is_told_in_bytes_of_text(tmp_path):
    told = []
    corpus = file_corpus([write(tmp_path / "a.txt", verses(9))])
    token_stream(corpus, BYTES, cache=tmp_path, progress=told.append)
    assert told[-1] == len(verses(9).encode()) == corpus.size
