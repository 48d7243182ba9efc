import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from attentif.config import Document, Layer
from attentif.data import CLASSIFY, LANGUAGE, TRANSLATE, DataConfig, load_rows, load_table
from attentif.data.several import load_several
from attentif.errors import ConfigError, DataError


def table(path: Path, header: str, rows: list[str]) -> str:
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return str(path)


def reviews(path: Path, count: int = 100, header: str = "text,label") -> str:
    return table(path, header, [f"avis numéro {i},{'positif' if i % 4 else 'négatif'}" for i in range(count)])


def load(roles=CLASSIFY, **values):
    return load_table(DataConfig(**values), roles)


# -------------------------------------------------------------------------------------------------------------- columns


@pytest.mark.parametrize(
    "header", ["text,label", "Review,Polarity", "Avis,Étiquette", "sentence,class", "commentaire,note", "tweet,target"]
)
def test_columns_are_recognised_whatever_their_case_and_accents_and_said(tmp_path, header):
    splits = load(train=reviews(tmp_path / "a.csv", header=header))
    assert set(splits.train.columns) == {"text", "label"}
    assert splits.train["text"][0].startswith("avis")
    assert all(repr(name) in splits.notes[0] for name in header.split(","))


def test_two_candidates_for_a_role_are_an_error_that_names_the_option(tmp_path):
    path = table(tmp_path / "a.csv", "text,review,label", ["a,b,1"])
    with pytest.raises(DataError, match=r"'text' and 'review' could each be the text; name one: --text NAME"):
        load(train=path)


def test_a_role_without_a_column_is_an_error_that_lists_the_columns(tmp_path):
    with pytest.raises(DataError, match=r"no column looks like the label; name it: --label NAME; the columns are 'text', 'when'"):
        load(train=table(tmp_path / "a.csv", "text,when", ["a,b"]))


def test_a_column_asked_for_by_name_overrules_detection(tmp_path):
    splits = load(train=table(tmp_path / "a.csv", "text,label,ton", [f"avis {i},x{i},{i % 2}" for i in range(40)]), label="ton")
    assert splits.labels == ["0", "1"]


def test_a_column_asked_for_that_is_not_there_is_an_error_with_the_nearest_name(tmp_path):
    with pytest.raises(DataError, match=r"no column is called 'labl'.*did you mean 'label'"):
        load(train=reviews(tmp_path / "a.csv"), label="labl")


def test_a_pair_is_found_beside_its_text(tmp_path):
    splits = load(train=table(tmp_path / "a.csv", "sentence1,sentence2,label", [f"a {i},b {i},{i % 2}" for i in range(40)]))
    assert set(splits.train.columns) == {"text", "pair", "label"}


def test_one_column_cannot_have_two_roles(tmp_path):
    with pytest.raises(DataError, match="would be both"):
        load(train=reviews(tmp_path / "a.csv"), label="text")


# ----------------------------------------------------------------------------------------------------------------- rows


@pytest.mark.parametrize(("row", "message"), [(" ,positif", "the text is empty"), ("avis,", "the label is empty"), ("avis,NaN", "NaN")])
def test_a_row_without_text_or_label_is_bad(tmp_path, row, message):
    path = table(tmp_path / "a.csv", "text,label", [*(f"avis {i},{i % 2}" for i in range(40)), row])
    with pytest.raises(DataError, match=f"a.csv:42: .*{message}"):
        load(train=path)
    splits = load(train=path, skip_bad=1)
    assert sum(map(len, (splits.train, splits.valid, splits.test))) == 40
    assert any("1 bad row skipped" in note for note in splits.notes)


def test_a_header_without_rows_is_said(tmp_path):
    with pytest.raises(DataError, match="no rows, only a header"):
        load(train=table(tmp_path / "a.csv", "text,label", []))


def test_a_row_knows_its_place(tmp_path):
    splits = load(train=reviews(tmp_path / "a.csv"))
    for part in (splits.train, splits.valid, splits.test):
        for row, text in enumerate(part["text"]):
            assert part.place(row) == f"{tmp_path / 'a.csv'}:{int(text.split()[-1]) + 2}"


def test_plain_text_has_no_labels(tmp_path):
    with pytest.raises(DataError, match="plain text, which has no column for the label"):
        load(train=table(tmp_path / "a.txt", "une ligne", ["deux"]))


# --------------------------------------------------------------------------------------------------------------- labels


@pytest.mark.parametrize("column", ["label", "labels"])
def test_a_list_of_labels_is_refused_with_the_key_that_takes_it(tmp_path, column):
    rows = [{"text": "a", column: "sport"}, {"text": "b", column: ["sport", "vélo"]}]
    path = table(tmp_path / "a.jsonl", json.dumps(rows[0]), [json.dumps(rows[1])])
    with pytest.raises(DataError, match=rf"a.jsonl:2: '{column}' holds a list .*; lists of labels need task\.several=true$"):
        load(train=path)


@pytest.mark.parametrize("row", ['{"text": ["a"], "label": "sport"}', '{"text": "a", "label": {"sport": 1}}'])
def test_only_a_list_of_labels_is_taken_for_several_labels(tmp_path, row):
    with pytest.raises(DataError, match=r"is wanted$"):
        load(train=table(tmp_path / "a.jsonl", row, []))


def labelled(path: Path, labels: list[str]) -> str:
    return table(path, "text,label", [f"avis {i},{label}" for i, label in enumerate(labels)])


@pytest.mark.parametrize(("separator", "keys"), [(";", "task.several=true"), ("|", "task.several=true 'task.separator=\"|\"'")])
def test_labels_that_look_like_lists_are_said_with_the_keys_that_read_them_so(tmp_path, separator, keys):
    path = labelled(tmp_path / "a.csv", (["sport"] * 4 + [f"sport{separator}vélo"] * 2 + ["vélo"] * 4) * 5)
    loaded = load(train=path)
    assert len(loaded.labels) == 3
    held = f"10 of 50 rows have a label with '{separator}' in it, such as 'sport{separator}vélo'"
    assert f"{held}: each is read as one label; several labels at once need {keys}" in loaded.notes


@pytest.mark.parametrize("labels", [["roman; essai", "théâtre; poésie"] * 20, ["a"] * 48 + ["b"] * 48 + ["a;b"] * 4])
def test_a_separator_alone_or_in_a_few_labels_makes_no_list(tmp_path, labels):
    assert not any("task.several" in note for note in load(train=labelled(tmp_path / "a.csv", labels)).notes)


def test_lists_in_which_no_two_rows_agree_are_not_taken_for_identifiers(tmp_path):
    labels = [f"genre{i % 7};pays{i % 8}" for i in range(56)]
    with pytest.raises(DataError, match=r"56 different labels in 56 rows; 56 of 56 rows have a label with ';' .* need task\.several=true$"):
        load(train=labelled(tmp_path / "a.csv", labels))


def test_one_class_only_is_refused(tmp_path):
    with pytest.raises(DataError, match="all 30 rows have the label 'positif'"):
        load(train=labelled(tmp_path / "a.csv", ["positif"] * 30))


def test_two_spellings_of_a_label_are_refused_with_their_counts_or_taken_as_one(tmp_path):
    path = labelled(tmp_path / "a.csv", ["Positif"] * 20 + ["positif "] * 10 + ["négatif"] * 30)
    with pytest.raises(DataError, match=r"'Positif' \(20 rows\) and 'positif ' \(10 rows\) look like one label.*normalise_labels=true"):
        load(train=path)
    assert load(train=path, normalise_labels=True).labels == ["négatif", "positif"]


def test_one_and_one_point_zero_are_one_label(tmp_path):
    path = labelled(tmp_path / "a.csv", ["1"] * 20 + ["1.0"] * 10 + ["0"] * 30)
    with pytest.raises(DataError, match="look like one label"):
        load(train=path)
    assert load(train=path, normalise_labels=True).labels == ["0", "1"]


@pytest.mark.parametrize(("form", "message"), [("{}.37", "a number to predict"), ("id-{}", "an identifier or free text")])
def test_labels_that_are_no_classes_are_refused(tmp_path, form, message):
    with pytest.raises(DataError, match=f"50 different labels in 50 rows.*{message}"):
        load(train=labelled(tmp_path / "a.csv", [form.format(i) for i in range(50)]))


@pytest.mark.parametrize(("rows", "who"), [(1, "the only row has"), (40, "all 40 rows have")])
def test_one_class_alone_is_refused(tmp_path, rows, who):
    with pytest.raises(DataError, match=f"{who} the label 'oui': there is nothing to tell apart"):
        load(train=labelled(tmp_path / "a.csv", ["oui"] * rows))


def test_a_class_without_training_examples_is_refused_with_its_place(tmp_path):
    test = labelled(tmp_path / "test.csv", ["positif", "neutre", "neutre"])
    with pytest.raises(DataError, match=r"'neutre' is in test \(2 rows, the first at .*test.csv:3\) but has no example in train"):
        load(train=reviews(tmp_path / "a.csv"), test=test)


def test_numbered_classes_are_in_the_order_of_numbers(tmp_path):
    assert load(train=labelled(tmp_path / "a.csv", [str(i % 12) for i in range(120)])).labels == [str(i) for i in range(12)]


# ---------------------------------------------------------------------------------------------------------------- split


def everything(splits):
    return sorted(text for part in (splits.train, splits.valid, splits.test) for text in part["text"])


def test_each_class_has_its_share_in_each_part_and_no_row_is_lost(tmp_path):
    splits = load(train=reviews(tmp_path / "a.csv", 400))
    assert [len(part) for part in (splits.train, splits.valid, splits.test)] == [320, 40, 40]
    assert all(Counter(part["label"])["négatif"] == len(part) // 4 for part in (splits.train, splits.valid, splits.test))
    assert everything(splits) == sorted(f"avis numéro {i}" for i in range(400))


def test_classes_too_small_to_give_a_row_each_are_cut_together(tmp_path):
    rows = [f"avis {i},{i % 10}" for i in range(100)]
    splits = load(train=table(tmp_path / "a.csv", "text,label", rows), valid_fraction=0.05, test_fraction=0.05)
    assert [len(part) for part in (splits.train, splits.valid, splits.test)] == [90, 5, 5]
    assert everything(splits) == sorted(f"avis {i}" for i in range(100))
    assert any("not class by class" in note for note in splits.notes)


def test_the_cut_depends_on_seed_and_content_but_not_on_the_order_of_rows(tmp_path):
    rows = [f"avis {i},{i % 2}" for i in range(100)]
    forward, backward = (
        load(train=table(tmp_path / name, "text,label", order)) for name, order in (("a.csv", rows), ("b.csv", rows[::-1]))
    )
    other = load(train=str(tmp_path / "a.csv"), seed=1)
    assert set(forward.test["text"]) == set(backward.test["text"])
    assert set(forward.test["text"]) != set(other.test["text"])
    assert forward.digest == load(train=str(tmp_path / "a.csv")).digest != other.digest


def test_groups_are_never_cut(tmp_path):
    path = table(tmp_path / "a.csv", "series,text,label", [f"s{i % 17},avis {i},{i % 2}" for i in range(300)])
    splits = load(train=path, group="series")
    groups = [set(part["group"]) for part in (splits.train, splits.valid, splits.test)]
    assert all(groups)
    assert sum(map(len, groups)) == len(set.union(*groups))
    assert 20 <= len(splits.test) <= 40


def test_each_row_of_a_file_without_the_groups_column_is_a_group_of_its_own(tmp_path):
    alone = reviews(tmp_path / "films.csv", 100)
    series = table(
        tmp_path / "series.csv", "series,text,label", [f"s{i % 17},épisode {i},{'positif' if i % 2 else 'négatif'}" for i in range(170)]
    )
    for files in ([alone, series], [series, alone]):
        splits = load(train=files, group="series")
        parts = (splits.train, splits.valid, splits.test)
        groups = [set(part["group"]) - {""} for part in parts]
        assert sum(map(len, groups)) == len(set.union(*groups)) == 17
        assert sum(part["group"].count("") for part in parts) == 100
        assert all("" in part["group"] for part in parts)
        assert [note for note in splits.notes if "of its own" in note] == [
            f"{alone} has no column 'series': each of its rows is a group of its own"
        ]


def test_the_files_without_a_groups_column_are_said_in_one_note(tmp_path):
    files = [reviews(tmp_path / "a.csv"), reviews(tmp_path / "b.csv")]
    rows = [f"s{i % 17},épisode {i},{'positif' if i % 2 else 'négatif'}" for i in range(170)]
    notes = load(train=[*files, table(tmp_path / "c.csv", "series,text,label", rows)], group="series").notes
    assert f"{files[0]} and {files[1]} have no column 'series': each of their rows is a group of its own" in notes


def test_a_groups_column_that_no_file_has_is_an_error(tmp_path):
    files = [reviews(tmp_path / name) for name in ("a.csv", "b.csv")]
    with pytest.raises(DataError, match=r"a.csv: no column is called 'series' \(asked for as group\)"):
        load(train=files, group="series")


def test_files_to_be_scored_need_not_have_the_groups_of_training(tmp_path):
    rows, notes = load_rows(DataConfig(train=reviews(tmp_path / "a.csv"), group="series"), CLASSIFY)
    assert set(rows.columns) == {"text", "label"}
    assert len(notes) == 1


@pytest.mark.parametrize(
    ("sizes", "parts"),
    [
        ([50, 50, 50, 50], [100, 50, 50]),  # each more than twice a tenth
        ([198, 1, 1], [198, 1, 1]),
        ([1] * 10 + [90], [90, 5, 5]),  # one tenth would take all that are small
        ([40, 30, 130], [130, 40, 30]),
    ],
)
def test_every_part_has_a_group_where_there_are_more_groups_than_parts(tmp_path, sizes, parts):
    groups = [f"s{number}" for number, size in enumerate(sizes) for _ in range(size)]
    path = table(tmp_path / "a.csv", "series,text,label", [f"{group},avis {i},{i % 2}" for i, group in enumerate(groups)])
    splits = load(LANGUAGE, train=path, group="series")
    assert [len(part) for part in (splits.train, splits.valid, splits.test)] == parts


@pytest.mark.parametrize(("count", "only"), [(1, "only 1 different group"), (2, "only 2 different groups")])
def test_too_few_groups_are_refused(tmp_path, count, only):
    path = table(tmp_path / "a.csv", "series,text,label", [f"s{i % count},avis {i},{i % 2}" for i in range(30)])
    wanted = r"\(by 'series'\), where train, valid and test want one each; give files for valid and test$"
    with pytest.raises(DataError, match=f"{only} {wanted}"):
        load(train=path, group="series")


def test_too_few_rows_are_refused(tmp_path):
    with pytest.raises(DataError, match="4 rows are too few"):
        load(train=reviews(tmp_path / "a.csv", 4))
    same = table(tmp_path / "b.csv", "text,label", [f"avis {i % 4},{i % 2}" for i in range(80)])
    with pytest.raises(DataError, match=r"80 rows are too few to keep some for test \(4 of them different, and rows that say"):
        load(train=same)


def test_rows_that_say_the_same_stay_in_one_part(tmp_path):
    rows = [f"{'Avis' if i % 2 else '  avis '} {i % 50},{i % 50 % 2}" for i in range(400)]
    splits = load(train=table(tmp_path / "a.csv", "text,label", rows))
    parts = [set(part.contents) for part in (splits.train, splits.valid, splits.test)]
    assert sum(map(len, parts)) == len(set.union(*parts)) == 50


def test_duplicates_between_given_files_are_counted_and_the_first_is_named(tmp_path):
    train = reviews(tmp_path / "train.csv", 40)
    valid = table(tmp_path / "valid.csv", "text,label", ["autre,positif"])
    test = table(tmp_path / "test.csv", "text,label", ["nouveau,positif", "AVIS  numéro 3,positif", "avis numéro 5,positif"])
    notes = load(train=train, valid=valid, test=test).notes
    assert notes[-1] == f"2 of 3 test rows are in train too (the first: {test}:3 is {train}:5)"


def test_same_text_with_another_label_is_said(tmp_path):
    rows = [f"avis {i},{i % 2}" for i in range(40)]
    path = table(tmp_path / "a.csv", "text,label", [*rows, "avis 3,0"])
    given = table(tmp_path / "b.csv", "text,label", ["b,0", "c,1"])
    assert any("1 train row repeats another with a different label" in note for note in load(train=path, valid=given, test=given).notes)


def test_a_limit_takes_nested_samples_of_train_only(tmp_path):
    path = reviews(tmp_path / "a.csv", 400)
    small, large, whole = (load(train=path, limit=limit) for limit in (20, 50, 0))
    assert len(small.train) == 20
    assert set(small.train["text"]) < set(large.train["text"]) < set(whole.train["text"])
    assert small.test["text"] == whole.test["text"]


# ------------------------------------------------------------------------------------------------------- guessed groups


def belonging(path: Path, name: str, values: int = 20, count: int = 120) -> str:
    """Rows with a column of this name, and so many values in it."""
    return table(path, f"{name},text,label", [f"v{i % values},avis {i},{i // values % 2}" for i in range(count)])


@pytest.mark.parametrize(
    "name", ["series", "Film", "movie_id", "Auteur", "user", "id_patient", "Speaker", "product title", "élève", "username"]
)
def test_a_column_whose_name_says_that_rows_belong_together_decides_the_cut_and_is_said(tmp_path, name):
    splits = load(train=belonging(tmp_path / "a.csv", name))
    groups = [set(part["group"]) for part in (splits.train, splits.valid, splits.test)]
    assert sum(map(len, groups)) == len(set.union(*groups)) == 20
    said = (
        f'valid and test cut from train by {name!r}, so that no {name} stands on two sides; data.group="" cuts at random (seed 0): 96 train'
    )
    assert any(note.startswith(said) for note in splits.notes)


def test_no_group_is_guessed_where_that_is_asked_for_or_nothing_is_cut(tmp_path):
    path = belonging(tmp_path / "a.csv", "series")
    given = belonging(tmp_path / "b.csv", "series")
    for splits in (load(train=path, group=""), load(train=path, valid=given, test=given), load(LANGUAGE, train=path)):
        assert "group" not in splits.train.columns
        assert not any("two sides" in note for note in splits.notes)


@pytest.mark.parametrize("values", [1, 3, 61, 120])
def test_a_column_of_too_few_or_too_many_values_is_no_group(tmp_path, values):
    rows = [f"v{i % values},avis {i},{i % 2}" for i in range(120)]
    assert "group" not in load(train=table(tmp_path / "a.csv", "series,text,label", rows)).train.columns


def test_a_column_in_another_role_is_no_group(tmp_path):
    rows = [f"v{i % 20},avis {i},{i // 20 % 2}" for i in range(120)]
    assert "group" not in load(train=table(tmp_path / "a.csv", "author,text,ton", rows), label="author").train.columns
    assert "group" not in load(train=table(tmp_path / "b.csv", "series,avis,label", rows), text="series").train.columns


def test_what_is_reviewed_comes_before_who_reviews(tmp_path):
    rows = [f"u{i % 15},f{i % 20},avis {i},{i // 20 % 2}" for i in range(120)]
    assert load(train=table(tmp_path / "a.csv", "user,film,text,label", rows)).train["group"][0].startswith("f")


def test_rows_without_a_value_are_groups_of_their_own_where_a_group_is_guessed(tmp_path):
    lines = [
        {"text": f"avis {i}", "label": i // 20 % 2, "film": [f"f{i % 20}", None, ["x"], "\ud800"][i % 4 if i % 20 > 15 else 0]}
        for i in range(160)
    ]
    path = table(tmp_path / "a.jsonl", json.dumps(lines[0]), [*map(json.dumps, lines[1:]), json.dumps({"text": "sans", "label": 1})])
    splits = load(train=path)
    parts = (splits.train, splits.valid, splits.test)
    groups = [set(part["group"]) - {""} for part in parts]
    assert sum(map(len, groups)) == len(set.union(*groups)) == 17
    assert sum(part["group"].count("") for part in parts) == 25


def test_a_group_is_guessed_of_one_file_beside_another_that_has_none(tmp_path):
    files = [labelled(tmp_path / "films.csv", ["0", "1"] * 50), belonging(tmp_path / "series.csv", "series")]
    splits = load(train=files)
    assert any("by 'series', so that no series" in note for note in splits.notes)
    assert f"{files[0]} has no column 'series': each of its rows is a group of its own" in splits.notes
    assert all("" in part["group"] for part in (splits.train, splits.valid, splits.test))


def test_a_group_is_guessed_of_rows_with_several_labels_too(tmp_path):
    rows = [f"f{i % 20},avis {i},{['drame', 'drame;policier', ''][i // 20 % 3]}" for i in range(120)]
    splits = load_several(DataConfig(train=table(tmp_path / "a.csv", "film,text,genres", rows)), ";")
    assert not {*splits.train["group"]} & {*splits.test["group"]}
    alone = [f"f{i % 8},avis {i},genre{i % 8}" for i in range(160)]
    splits = load_several(DataConfig(train=table(tmp_path / "b.csv", "film,text,genres", alone)), ";")
    assert any(note.startswith("not cut by 'film', as train would have no example of 'genre") for note in splits.notes)


def test_a_guess_that_would_take_a_class_from_training_is_dropped_and_said(tmp_path):
    rows = [f"s{i % 8},avis {i},{i % 8}" for i in range(160)]
    splits = load(train=table(tmp_path / "a.csv", "subject,text,label", rows))
    assert "group" not in splits.train.columns
    assert any(note.startswith("not cut by 'subject', as train would have no example of '") for note in splits.notes)


# ---------------------------------------------------------------------------------------------------------- translation


def aligned(folder: Path, source: list[str], target: list[str]) -> dict[str, str]:
    for name, lines in (("train.en.gz", source), ("train.fr.gz", target)):
        (folder / name).write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))
    return {"train": str(folder / "train.en.gz"), "target": str(folder / "train.fr.gz")}


def test_two_files_are_read_line_by_line(tmp_path):
    splits = load(TRANSLATE, **aligned(tmp_path, [f"en {i}" for i in range(50)], [f"fr {i}" for i in range(50)]))
    for part in (splits.train, splits.valid, splits.test):
        assert [text.replace("en", "fr") for text in part["source"]] == part["target"]


def test_a_group_is_refused_where_lines_have_no_columns(tmp_path):
    lines = [f"{i}" for i in range(50)]
    with pytest.raises(DataError, match=r"train.en.gz: has no named columns, so that none can be the group, 'author' \(data.group\)"):
        load(TRANSLATE, **aligned(tmp_path, lines, lines), group="author")
    with pytest.raises(DataError, match="has no named columns"):
        load(LANGUAGE, train=table(tmp_path / "a.txt", "une ligne", ["deux"]), group="author")


def test_files_of_different_lengths_are_refused_with_both_counts(tmp_path):
    with pytest.raises(DataError, match=r"train.en.gz has 50 lines and .*train.fr.gz has 49"):
        load(TRANSLATE, **aligned(tmp_path, ["a"] * 50, ["b"] * 49), skip_bad=5)


def test_a_pair_with_an_empty_side_is_a_bad_row_and_keeps_the_others_aligned(tmp_path):
    english, french = [f"en {i}" for i in range(50)], [f"fr {i}" for i in range(50)]
    french[7] = "  "
    given = aligned(tmp_path, english, french)
    with pytest.raises(DataError, match=r"train.fr.gz:8: the line is empty"):
        load(TRANSLATE, **given)
    splits = load(TRANSLATE, **given, skip_bad=1)
    assert all(en.replace("en", "fr") == fr for en, fr in zip(splits.train["source"], splits.train["target"], strict=True))


def test_a_line_that_is_not_utf8_keeps_the_others_aligned(tmp_path):
    given = aligned(tmp_path, [f"en {i}" for i in range(50)], [f"fr {i}" for i in range(50)])
    raw = gzip.decompress(Path(given["target"]).read_bytes()).replace(b"fr 9\n", b"\xff\n")
    Path(given["target"]).write_bytes(gzip.compress(raw, mtime=0))
    with pytest.raises(DataError, match=r"train.fr.gz:10: byte 0xFF"):
        load(TRANSLATE, **given)
    splits = load(TRANSLATE, **given, skip_bad=1)
    assert all(en.replace("en", "fr") == fr for en, fr in zip(splits.train["source"], splits.train["target"], strict=True))


def test_one_plain_file_is_not_enough_to_translate(tmp_path):
    with pytest.raises(DataError, match="--target FILE"):
        load(TRANSLATE, train=table(tmp_path / "a.en", "hello", ["you"]))


def test_source_and_target_columns_are_recognised(tmp_path):
    splits = load(TRANSLATE, train=table(tmp_path / "a.tsv", "en\tfr", [f"one {i}\tun {i}" for i in range(40)]))
    assert splits.train["source"][0].startswith("one")
    assert splits.train["target"][0].startswith("un")


# --------------------------------------------------------------------------------------------------------------- config


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "give `name`"),
        ({"name": "review"}, "did you mean 'reviews'"),
        ({"name": "reviews", "train": "a.csv"}, "train: goes with files"),
        ({"name": "reviews", "label": "x"}, "label: goes with files"),
        ({"train": "a.en", "target": "a.fr", "valid": "b.en"}, "valid_target: `valid` needs one"),
        ({"train": "a.en", "test_target": "b.fr"}, "test_target: goes with"),
        ({"train": ["a.en", "b.en"], "target": "a.fr"}, "one `train` file"),
        ({"train": "a.csv", "valid_fraction": 0.5, "test_fraction": 0.5}, "leave nothing"),
        ({"train": "a.csv", "test_fraction": 1.5}, "less than 1"),
    ],
)
def test_contradictions_are_refused_before_any_file_is_read(values, message):
    with pytest.raises(ConfigError, match=message):
        Document([Layer(values, "test")]).build(DataConfig)


def test_an_empty_name_gives_way_to_files(tmp_path):
    config = Document([Layer({"name": "reviews"}, "recipe"), Layer({"name": "", "train": "a.csv"}, "--data")]).build(DataConfig)
    assert config.files("train") == [Path("a.csv")]


@pytest.mark.parametrize(("name", "roles"), [("numbers", CLASSIFY), ("reviews", TRANSLATE), ("numbers", LANGUAGE)])
def test_a_built_in_set_of_another_task_is_refused(name, roles):
    with pytest.raises(DataError, match="it is for another task"):
        load(roles, name=name)


def test_a_built_in_set_is_a_table_like_any_other():
    splits = load(TRANSLATE, name="numbers", limit=100)
    assert len(splits.train) == 100
    assert splits.test.place(0) == "numbers/test:1"
    assert splits.digest == load(TRANSLATE, name="numbers", limit=100).digest


def test_a_long_reading_says_how_far_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr("attentif.data.pulse.EVERY", 0.0)
    said: list[str] = []
    load_table(DataConfig(train=reviews(tmp_path / "a.csv", count=9000)), CLASSIFY, said.append)
    assert said == ["reading train: 4,096 rows", "reading train: 8,192 rows"]
