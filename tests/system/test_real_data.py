"""Files that nobody on this project wrote. `ATTENTIF_DATA` names their folder; `.ci/run` sets it where it finds one."""

import os
from pathlib import Path

import pytest

from attentif.data import CLASSIFY, TRANSLATE, DataConfig, load_corpora, load_table
from attentif.text.kinds import BPE

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif("ATTENTIF_DATA" not in os.environ, reason="ATTENTIF_DATA does not name the folder of real data"),
]
DATA = Path(os.environ.get("ATTENTIF_DATA", ""))


def test_reviews_of_one_series_stand_in_one_split() -> None:
    splits = load_table(DataConfig(train=str(DATA / "reviews_fr" / "series.csv"), group="series"), CLASSIFY)
    groups = [set(table["group"]) for table in (splits.train, splits.valid, splits.test)]
    assert not groups[0] & groups[1] | groups[0] & groups[2] | groups[1] & groups[2]
    assert sum(map(len, (splits.train, splits.valid, splits.test))) == 5789
    assert splits.labels == ["0", "1"]


def test_two_gzipped_files_are_aligned_line_by_line() -> None:
    folder = DATA / "multi30k"
    config = DataConfig(
        train=str(folder / "val.en.gz"), target=str(folder / "val.fr.gz"), test=str(folder / "test_2016_flickr.en.gz"),
        test_target=str(folder / "test_2016_flickr.fr.gz"),
    )  # fmt: skip
    splits = load_table(config, TRANSLATE)
    assert len(splits.train) + len(splits.valid) == 1014
    assert len(splits.test) == 1000


def test_a_tokenizer_of_the_theatre_gives_its_text_back() -> None:
    (file,) = (DATA / "theatre_fr").glob("*val*.gz")
    corpora = load_corpora(DataConfig(train=str(file)))
    text = next(corpora.valid.texts())
    tokenizer = BPE(vocab=2000).fit(corpora.test.texts())
    assert tokenizer.decode(tokenizer.encode(text).ids) == text
