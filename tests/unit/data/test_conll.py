import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from attentif.data import TAG, DataConfig, load_table
from attentif.data.conll import (
    bioes,
    decode_list,
    detect_scheme,
    find_broken,
    find_entities,
    line_of,
    read_tagged_rows,
    read_untagged_rows,
    repair_tags,
)
from attentif.errors import DataError

SMALL = "-DOCSTART- -X- O\n\nMarie NC B-PER\nvit V O\nà P O\nNice NP B-LOC\n\nFin NC O\n"


def rows(file: Path, **options: Any) -> list[tuple[int, list[list[str]]]]:
    from attentif.data.readers import Tolerance

    config = DataConfig.model_validate({"train": str(file)} | options)
    _, found = read_tagged_rows(config, "train", file, TAG, Tolerance(config.skip_bad), [])
    return [(line, [decode_list(value) for value in values]) for line, values in found]


def written(folder: Path, text: str, name: str = "a.conll") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_sentences_end_at_empty_lines_and_docstart_is_skipped(tmp_path: Path) -> None:
    found = rows(written(tmp_path, SMALL))
    assert found == [(3, [["Marie", "vit", "à", "Nice"], ["B-PER", "O", "O", "B-LOC"]]), (8, [["Fin"], ["O"]])]


def test_the_tag_column_can_be_chosen_by_its_number(tmp_path: Path) -> None:
    found = rows(written(tmp_path, SMALL), columns={"tags": "2"})
    assert found[0][1][1] == ["NC", "V", "P", "NP"]
    with pytest.raises(DataError, match="counted from 1 to 3"):
        rows(written(tmp_path, SMALL), columns={"tags": "ner"})


def test_tabs_keep_spaces_in_tokens_and_comments_are_no_words(tmp_path: Path) -> None:
    found = rows(written(tmp_path, "# id = 1\nNew York\tB-LOC\n#\tO\n\n# id = 2\r\nici\tO\r\n"))
    assert found == [(2, [["New York", "#"], ["B-LOC", "O"]]), (6, [["ici"], ["O"]])]


def test_blank_lines_may_hold_spaces_and_tabs(tmp_path: Path) -> None:
    assert rows(written(tmp_path, SMALL.replace("\n\n", "\n \t \n"))) == rows(written(tmp_path, SMALL))


def test_a_no_break_space_is_part_of_its_word(tmp_path: Path) -> None:
    found = rows(written(tmp_path, "10\u202f000 B-NUM\nà\u00a0Nice \t B-LOC\n"))
    assert found == [(1, [["10\u202f000", "à\u00a0Nice"], ["B-NUM", "B-LOC"]])]


def test_universal_dependencies_have_words_and_parts_of_speech_in_columns_of_their_own(tmp_path: Path) -> None:
    """A contraction stands there as a range and as its words, and an empty node is no word of the text."""
    lines = ["# text = du vin", "1-2\tdu\t_\t_", "1\tde\tde\tADP", "2\tle\tle\tDET", "3\tvin\tvin\tNOUN", "3.1\tbu\tboire\tVERB", ""]
    path = written(tmp_path, "\n".join(lines), "a.conllu")
    assert rows(path) == [(3, [["de", "le", "vin"], ["ADP", "DET", "NOUN"]])]
    assert rows(path, columns={"tags": "3"})[0][1][1] == ["de", "le", "vin"]
    assert read_untagged_rows(path) == ["de\nle\nvin"]


def test_sentences_to_be_tagged_are_read_from_lists_of_words_too(tmp_path: Path) -> None:
    assert read_untagged_rows(written(tmp_path, '{"tokens": ["Le", "chat"]}\n{"tokens": ["Oui"], "tags": ["O"]}\n', "a.jsonl")) == [
        "Le\nchat",
        "Oui",
    ]
    assert read_untagged_rows(written(tmp_path, '{"text": "Le chat", "words": 2}\n', "b.jsonl")) is None
    assert read_untagged_rows(written(tmp_path, "Le chat\n", "c.txt")) is None
    with pytest.raises(DataError, match=r"d\.jsonl:2:.*1.*3"):
        read_untagged_rows(written(tmp_path, '{"tokens": ["Le"]}\n{"tokens": [3]}\n', "d.jsonl"))


def test_the_line_of_a_word_is_known_where_words_are_lines() -> None:
    assert [line_of(Path(name), 10, 2) for name in ("a.conll", "a.tsv.gz", "a.conllu", "a.jsonl")] == [12, 12, 10, 10]


def test_gzipped_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.conll.gz"
    path.write_bytes(gzip.compress(SMALL.encode(), mtime=0))
    assert len(rows(path)) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"is empty"),
        ("\n\n", r"holds no sentence"),
        ("Marie\nvit\n", r"a\.conll:1: has one column"),
        ("Marie B-PER\nvit V O\n", r"a\.conll:2: 3 columns where the first line has 2"),
        ("Marie\tB-PER\n\tO\n", r"a\.conll:2: the token is empty"),
    ],
)
def test_bad_files_are_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        rows(written(tmp_path, text))


def test_a_bad_line_costs_its_sentence_where_some_are_allowed(tmp_path: Path) -> None:
    file = written(tmp_path, "a O\nb O O\nc O O O\n\nd O\n")
    assert rows(file, skip_bad=1) == [(5, [["d"], ["O"]])]


def test_json_lines_hold_lists(tmp_path: Path) -> None:
    lines = [{"tokens": ["L'", "été"], "tags": ["O", "B-DATE"]}, {"tokens": ["a b"], "tags": ["O"]}]
    file = written(tmp_path, "".join(json.dumps(line) + "\n" for line in lines), "a.jsonl")
    assert rows(file) == [(1, [["L'", "été"], ["O", "B-DATE"]]), (2, [["a b"], ["O"]])]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"tokens": ["a", "b"], "tags": ["O"]}, "2 tokens with 1 tags"),
        ({"tokens": "a b", "tags": ["O"]}, "the tokens are no list of texts"),
        ({"tokens": [], "tags": []}, "the tokens are no list of texts"),
        ({"tokens": ["a"], "tags": [0]}, "tag 1 is 0, where a text is expected: give the tags' names"),
        ({"tokens": ["a", " "], "tags": ["O", "O"]}, "token 2 is empty"),
        ({"tokens": ["a\nb"], "tags": ["O"]}, "token 1 holds a line end"),
    ],
)
def test_bad_json_rows_are_refused_in_one_line(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=f"a.jsonl:1: {message}"):
        rows(written(tmp_path, json.dumps(row) + "\n", "a.jsonl"))


def test_splits_are_cut_and_rows_that_say_the_same_stay_together(tmp_path: Path) -> None:
    file = written(tmp_path, "".join(f"mot{n % 20} O\nfin O\n\n" for n in range(60)))
    splits = load_table(DataConfig(train=str(file)), TAG, open_rows=read_tagged_rows)
    assert sum(len(table) for table in (splits.train, splits.valid, splits.test)) == 60
    assert not {*splits.train["tokens"]} & {*splits.test["tokens"]}


def test_sentences_of_a_group_stay_together_where_they_are_rows_of_a_table(tmp_path: Path) -> None:
    lines = [{"tokens": [f"mot{n}"], "tags": ["O"], "livre": n % 20} for n in range(60)]
    file = written(tmp_path, "".join(json.dumps(line) + "\n" for line in lines), "a.jsonl")
    splits = load_table(DataConfig(train=str(file), group="livre"), TAG, open_rows=read_tagged_rows)
    books = [set(table["group"]) for table in (splits.train, splits.valid, splits.test)]
    assert sum(map(len, books)) == len(set.union(*books)) == 20
    assert len(splits.test) == 6
    assert any("cut from train by 'livre'" in note for note in splits.notes)


def test_a_group_is_refused_where_columns_have_no_names(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a.conll:.*'livre' \(data.group\)"):
        load_table(DataConfig(train=str(written(tmp_path, SMALL)), group="livre"), TAG, open_rows=read_tagged_rows)


@pytest.mark.parametrize(
    ("tags", "scheme"),
    [
        ([["B-PER", "I-PER", "O", "B-LOC"]], "IOB2"),
        ([["I-PER", "I-PER", "O", "I-LOC", "B-LOC"]], "IOB1"),
        ([["O", "I-LOC"]], "IOB1"),
        ([["B-PER", "E-PER", "O", "S-LOC"]], "BIOES"),
        ([["B-PER", "L-PER", "O", "U-LOC"]], "BIOES"),
        ([["NOUN", "VERB", "I-ADJ"]], "none"),
        ([["O", "O"]], "none"),
        ([["B-PER", "I-PER"]] * 9 + [["O", "I-PER"]], "IOB2"),  # one mistake does not make another scheme
    ],
)
def test_the_scheme_is_found(tags: list[list[str]], scheme: str) -> None:
    assert detect_scheme(tags) == scheme


@pytest.mark.parametrize(
    ("tags", "scheme", "place", "why"),
    [
        (["O", "I-PER"], "IOB2", 1, "I-PER after O continues no entity"),
        (["I-PER"], "IOB2", 0, "I-PER at the beginning"),
        (["B-PER", "I-LOC"], "IOB2", 1, "I-LOC after B-PER"),
        (["O", "B-PER"], "IOB1", 1, "B-PER after O is no second entity"),
        (["B-PER", "O"], "BIOES", 1, "O after B-PER leaves an entity open"),
        (["O", "B-PER"], "BIOES", 1, "B-PER at the end leaves an entity open"),
        (["E-PER"], "BIOES", 0, "continues no entity"),
        (["O", "PER"], "IOB2", 1, "neither O nor a letter and a type"),
        (["B-"], "IOB2", 0, "neither O nor a letter and a type"),
    ],
)
def test_broken_tags_are_named(tags: list[str], scheme: Any, place: int, why: str) -> None:
    (found,) = find_broken(tags, scheme)
    assert found[0] == place
    assert why in found[1]


def test_sound_tags_are_not_broken() -> None:
    assert not [*find_broken(["B-PER", "I-PER", "B-PER", "O", "B-LOC"], "IOB2")]
    assert not [*find_broken(["I-PER", "I-PER", "B-PER", "O", "I-LOC"], "IOB1")]
    assert not [*find_broken(bioes(["B-PER", "I-PER", "L-PER", "U-LOC", "O"]), "BIOES")]


@pytest.mark.parametrize("scheme", ["IOB1", "IOB2", "BIOES"])
def test_repairing_keeps_the_entities_and_the_scheme(scheme: Any) -> None:
    for tags in (["O", "I-PER", "I-PER", "I-LOC"], ["B-PER", "B-PER", "I-PER"], ["I-LOC", "B-LOC", "O", "E-X", "PER"]):
        fixed = repair_tags(tags, scheme)
        assert find_entities(fixed) == find_entities(tags)
        assert not [*find_broken(fixed, scheme)]
