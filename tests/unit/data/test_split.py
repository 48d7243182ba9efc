import json
from collections import Counter
from pathlib import Path

import pytest
from small_tables import labelled, load, reviews, table

from attentif.data import CLASSIFY, LANGUAGE, DataConfig, load_rows
from attentif.data.multi_label import load_several
from attentif.errors import DataError

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
    with pytest.raises(DataError, match=r"a.csv:.*'series' \(asked.*group\)"):
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
    with pytest.raises(DataError, match=r"80.*\(4.*different"):
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


def test_a_small_sample_keeps_a_row_of_every_class(tmp_path):
    labels = ["bon"] * 190 + ["moyen"] * 150 + ["mauvais"] * 30 + ["très mauvais"] * 10
    path = table(tmp_path / "a.csv", "text,label", [f"avis {i},{label}" for i, label in enumerate(labels)])
    for seed in range(5):
        small, large = (load(train=path, limit=limit, limit_seed=seed).train for limit in (8, 30))
        assert set(small["label"]) == set(labels)
        assert set(small["text"]) < set(large["text"])


def test_a_small_sample_keeps_each_of_several_labels(tmp_path):
    rows = [f"avis {i},{'drame;rare' if i % 30 == 0 else 'drame' if i % 2 else 'court'}" for i in range(300)]
    path = table(tmp_path / "a.csv", "text,labels", rows)
    for seed in range(5):
        assert load_several(DataConfig(train=path, limit=5, limit_seed=seed), ";").labels == ["court", "drame", "rare"]


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
