import gzip
import json
from pathlib import Path

import pytest
from small_tables import labelled, load, reviews, table

from attentif.config import Document, Layer
from attentif.data import CLASSIFY, LANGUAGE, TRANSLATE, DataConfig, load_table
from attentif.errors import ConfigError, DataError

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
    with pytest.raises(DataError, match=r"'text'.*'review'.*--text"):
        load(train=path)


def test_a_role_without_a_column_is_an_error_that_lists_the_columns(tmp_path):
    with pytest.raises(DataError, match=r"--label.*'text', 'when'"):
        load(train=table(tmp_path / "a.csv", "text,when", ["a,b"]))


def test_a_column_asked_for_by_name_overrules_detection(tmp_path):
    splits = load(train=table(tmp_path / "a.csv", "text,label,ton", [f"avis {i},x{i},{i % 2}" for i in range(40)]), label="ton")
    assert splits.labels == ["0", "1"]


def test_a_column_asked_for_that_is_not_there_is_an_error_with_the_nearest_name(tmp_path):
    with pytest.raises(DataError, match=r"'labl'.*did.*'label'"):
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
    with pytest.raises(DataError, match=rf"a.csv:42: .*{message}"):
        load(train=path)
    splits = load(train=path, skip_bad=1)
    assert sum(map(len, (splits.train, splits.valid, splits.test))) == 40
    assert any("1 bad row skipped" in note for note in splits.notes)


def test_a_header_without_rows_is_said(tmp_path):
    with pytest.raises(DataError, match=r"rows,.*header"):
        load(train=table(tmp_path / "a.csv", "text,label", []))


def test_a_row_knows_its_place(tmp_path):
    splits = load(train=reviews(tmp_path / "a.csv"))
    for part in (splits.train, splits.valid, splits.test):
        for row, text in enumerate(part["text"]):
            assert part.place(row) == f"{tmp_path / 'a.csv'}:{int(text.split()[-1]) + 2}"


def test_plain_text_has_no_labels(tmp_path):
    with pytest.raises(DataError, match=r"plain.*column"):
        load(train=table(tmp_path / "a.txt", "une ligne", ["deux"]))


# --------------------------------------------------------------------------------------------------------------- labels


@pytest.mark.parametrize("column", ["label", "labels"])
def test_a_list_of_labels_is_refused_with_the_key_that_takes_it(tmp_path, column):
    rows = [{"text": "a", column: "sport"}, {"text": "b", column: ["sport", "vélo"]}]
    path = table(tmp_path / "a.jsonl", json.dumps(rows[0]), [json.dumps(rows[1])])
    with pytest.raises(DataError, match=rf"a.jsonl:2: '{column}'.*.*task\.several=true$"):
        load(train=path)


@pytest.mark.parametrize("row", ['{"text": ["a"], "label": "sport"}', '{"text": "a", "label": {"sport": 1}}'])
def test_only_a_list_of_labels_is_taken_for_several_labels(tmp_path, row):
    with pytest.raises(DataError, match=r"is expected$"):
        load(train=table(tmp_path / "a.jsonl", row, []))


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


def test_ratings_with_decimal_commas_are_numbers_and_no_lists(tmp_path):
    loaded = load(train=table(tmp_path / "a.csv", "texte;note", [f"avis {i};{('9,5', '10', '0,5')[i % 3]}" for i in range(60)]))
    assert loaded.labels == ["0,5", "9,5", "10"]
    assert not any("task.several" in note for note in loaded.notes)


def test_lists_in_which_no_two_rows_agree_are_not_taken_for_identifiers(tmp_path):
    labels = [f"genre{i % 7};pays{i % 8}" for i in range(56)]
    with pytest.raises(DataError, match=r"56.*56.*56.*56.*';'.*task\.several=true$"):
        load(train=labelled(tmp_path / "a.csv", labels))


def test_one_class_only_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"30.*'positif'"):
        load(train=labelled(tmp_path / "a.csv", ["positif"] * 30))


def test_two_spellings_of_a_label_are_refused_with_their_counts_or_taken_as_one(tmp_path):
    path = labelled(tmp_path / "a.csv", ["Positif"] * 20 + ["positif "] * 10 + ["négatif"] * 30)
    with pytest.raises(DataError, match=r"'Positif' \(20 rows\).*'positif ' \(10 rows\).*normalise_labels=true"):
        load(train=path)
    assert load(train=path, normalise_labels=True).labels == ["négatif", "positif"]


def test_one_and_one_point_zero_are_one_label(tmp_path):
    path = labelled(tmp_path / "a.csv", ["1"] * 20 + ["1.0"] * 10 + ["0"] * 30)
    with pytest.raises(DataError, match="look like one label"):
        load(train=path)
    assert load(train=path, normalise_labels=True).labels == ["0", "1"]


@pytest.mark.parametrize(
    ("form", "message"), [("{}.37", "a number to predict"), ('"{},37"', "a number to predict"), ("id-{}", "an identifier or free text")]
)
def test_labels_that_are_no_classes_are_refused(tmp_path, form, message):
    with pytest.raises(DataError, match=rf"50 different labels in 50 rows.*{message}"):
        load(train=labelled(tmp_path / "a.csv", [form.format(i) for i in range(50)]))


@pytest.mark.parametrize(("rows", "who"), [(1, "the only row has"), (40, "all 40 rows have")])
def test_one_class_alone_is_refused(tmp_path, rows, who):
    with pytest.raises(DataError, match=rf"{who}.*'oui'"):
        load(train=labelled(tmp_path / "a.csv", ["oui"] * rows))


def test_a_class_without_training_examples_is_refused_with_its_place(tmp_path):
    test = labelled(tmp_path / "test.csv", ["positif", "neutre", "neutre"])
    with pytest.raises(DataError, match=r"'neutre'.*\(2.*test.csv:3\)"):
        load(train=reviews(tmp_path / "a.csv"), test=test)


def test_numbered_classes_are_in_the_order_of_numbers(tmp_path):
    assert load(train=labelled(tmp_path / "a.csv", [str(i % 12) for i in range(120)])).labels == [str(i) for i in range(12)]


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
    with pytest.raises(DataError, match=r"train.en.gz:.*'author' \(data.group\)"):
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
    with pytest.raises(DataError, match="another task"):
        load(roles, name=name)


def test_a_built_in_set_is_a_table_like_any_other():
    splits = load(TRANSLATE, name="numbers", limit=100)
    assert len(splits.train) == 100
    assert splits.test.place(0) == "numbers/test:1"
    assert splits.digest == load(TRANSLATE, name="numbers", limit=100).digest


def test_a_long_reading_says_how_far_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr("attentif.data.progress.EVERY", 0.0)
    said: list[str] = []
    load_table(DataConfig(train=reviews(tmp_path / "a.csv", count=9000)), CLASSIFY, said.append)
    assert said == ["reading train: 4,096 rows", "reading train: 8,192 rows"]
