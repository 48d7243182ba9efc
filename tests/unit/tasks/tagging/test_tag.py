import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from attentif.data import DataConfig
from attentif.errors import ConfigError, DataError
from attentif.models import ModelConfig
from attentif.models.heads import TokensHeadConfig
from attentif.models.heads.crf import CRFHeadConfig
from attentif.tasks import Evaluation
from attentif.tasks.ragged import UNSCORED
from attentif.tasks.tagging.tag import TagConfig, predict_tags
from attentif.view.page import Page, render

NAMES, TOWNS = ["Zoé", "Paul", "Inès", "Marc"], ["Nice", "Brest", "Lens"]
CHARS = {"kind": "char", "vocab": 100, "min_count": 1}


def sentences(count: int, start: int = 0) -> list[str]:
    """Blocks of CoNLL; the same word is a person after « avec » and a place after « à »."""
    blocks = []
    for n in range(start, start + count):
        name, town, swap = NAMES[n % 4], TOWNS[n // 4 % 3], n // 12 % 2
        first, second = (town, name) if swap else (name, town)
        blocks.append(f"numéro{n} O\navec O\n{first} B-PER\nà O\nSaint B-LOC\n{second} I-LOC\n")
    return blocks


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    found = {}
    for split, (count, start) in {"train": (24, 0), "valid": (6, 50), "test": (8, 70)}.items():
        (tmp_path / f"{split}.conll").write_text("\n".join(sentences(count, start)), encoding="utf-8")
        found[split] = str(tmp_path / f"{split}.conll")
    return found


@pytest.fixture
def tags(files: Any, ready: Any) -> Any:
    return ready(TagConfig().build(), "encoder-tiny", files, CHARS)


def test_the_head_is_one_of_tags_and_a_crf_where_asked(small: Callable[..., ModelConfig]) -> None:
    task = TagConfig().build()
    assert isinstance(task.adapt(small("encoder-tiny")).head, TokensHeadConfig)
    assert isinstance(task.adapt(small("encoder-tiny", head={"kind": "crf"})).head, CRFHeadConfig)
    with pytest.raises(ConfigError, match="one stack"):
        task.check(task.adapt(small("transformer-tiny")))


def test_the_label_stands_on_the_first_token_of_each_word(tags: Any) -> None:
    _task, prepared, _ = tags
    batch = prepared.train.batch([0, 1])
    labels = batch.labels[0][batch.labels[0] != UNSCORED].tolist()
    assert [prepared.state.labels[label] for label in labels] == ["O", "O", "B-PER", "O", "B-LOC", "I-LOC"]
    assert prepared.state.labels[0] == "O"
    tokenizer = prepared.tokenizers["tokenizer"]
    places = (batch.labels[0] != UNSCORED).nonzero().squeeze(1).tolist()
    assert "".join(tokenizer.rust.id_to_token(int(batch.source.data[0, place])) for place in places) == "naZàSN"
    assert prepared.sizes.classes == 4
    assert prepared.state.scheme == "IOB2"


@pytest.mark.parametrize("head", [{}, {"head": {"kind": "crf"}}])
def test_loss_is_a_sum_over_words_padded_or_packed(files: Any, ready: Any, head: Any) -> None:
    task, prepared, model = ready(TagConfig().build(), "encoder-tiny", files, CHARS, **head)
    if head:
        for parameter in (model.head.start, model.head.end, model.head.transitions):
            torch.nn.init.normal_(parameter)
    alone = [task.step(model, prepared.train.batch([row])) for row in (0, 5, 9)]
    for packed in (False, True):
        loss = task.step(model, prepared.train.batch([0, 5, 9], packed=packed))
        assert loss.count == sum(one.count for one in alone) == 18
        assert_close(loss.total, sum(one.total for one in alone), rtol=1e-5, atol=1e-5)
        assert predict_tags(model, prepared.train.batch([5], packed=packed)) == predict_tags(model, prepared.train.batch([5]))


@pytest.mark.parametrize("head", [{}, {"head": {"kind": "crf"}}])
def test_a_model_learns_what_only_the_word_before_tells(files: Any, ready: Any, teach: Any, head: Any) -> None:
    task, prepared, model = ready(TagConfig().build(), "encoder-tiny", files, {"kind": "word", "vocab": 50, "min_count": 2}, **head)
    teach(task, prepared, model, steps=40)
    found = task.evaluate(model, prepared.state, prepared.test)
    assert found.scores["entity_f1"] == 1.0
    assert found.details["entities"]["broken"] == 0
    (answer,) = task.predict(model, prepared.state, prepared.tokenizers, ["numéro9 avec Brest à Saint Zoé"])
    assert answer.output == "numéro9 avec [PER Brest] à [LOC Saint Zoé]"
    assert answer.details["entities"][1] == {"type": "LOC", "text": "Saint Zoé", "start": 21, "end": 30}
    (same,) = task.predict(model, prepared.state, prepared.tokenizers, [{"tokens": ["numéro9", "avec", "Brest", "à", "Saint", "Zoé"]}])
    assert same.details == answer.details


def test_texts_without_a_word_have_no_entities(tags: Any) -> None:
    task, prepared, model = tags
    found = task.predict(model, prepared.state, prepared.tokenizers, ["", "  ", "Zoé"])
    assert [answer.input for answer in found] == ["", "  ", "Zoé"]
    assert found[0].details["tags"] == []


def test_words_past_the_cut_are_tagged_o_and_said(files: Any, ready: Any) -> None:
    task, prepared, model = ready(TagConfig(max_len=10).build(), "encoder-tiny", files, CHARS)
    assert any("sentences of 24 cut to 10 tokens" in note for note in prepared.notes)
    found = task.evaluate(model, prepared.state, prepared.test)
    assert found.scores["entity_recall"] == 0.0  # « avec » begins at the ninth token, the names after it
    assert all(len(entry["found"]) == 6 for entry in found.details["wrong"])


def test_broken_tags_are_refused_repaired_or_dropped(files: Any, ready: Any, small: Any) -> None:
    Path(files["valid"]).write_text("\n".join([*sentences(5, 50), "ici O\nMarc I-PER\n"]), encoding="utf-8")
    with pytest.raises(DataError, match=r"valid\.conll:37: I-PER.*entity.*task\.broken=repair") as caught:
        ready(TagConfig().build(), "encoder-tiny", files, CHARS)
    assert "\n" not in str(caught.value)
    _, prepared, _ = ready(TagConfig(broken="repair").build(), "encoder-tiny", files, CHARS)
    assert prepared.valid.tags[-1] == ["O", "B-PER"]
    assert any("1 tag against IOB2 in 1 sentence: repaired" in note for note in prepared.notes)
    _, prepared, _ = ready(TagConfig(broken="drop").build(), "encoder-tiny", files, CHARS)
    assert len(prepared.valid) == 5


def test_broken_tags_are_counted_in_all_the_splits(files: Any, ready: Any) -> None:
    whole = "\n".join([*sentences(20, 60), *(f"Marc I-PER\nici{n} O\n" for n in range(20))])
    Path(files["train"]).write_text(whole, encoding="utf-8")
    with pytest.raises(DataError, match=r"I-PER.*\(20.*all\)"):
        ready(TagConfig(scheme="IOB2").build(), "encoder-tiny", {"train": files["train"]}, CHARS)
    Path(files["valid"]).write_text("Zoé I-PER\nlà O\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"train\.conll.*\(21 tags in all\)"):
        ready(TagConfig(scheme="IOB2").build(), "encoder-tiny", files, CHARS)


def test_a_file_with_one_tag_teaches_nothing(files: Any, ready: Any) -> None:
    Path(files["train"]).write_text("le O\nchat O\n\nil O\ndort O\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"train\.conll:.*'O'"):
        ready(TagConfig().build(), "encoder-tiny", files, CHARS)


def test_a_scheme_that_was_asked_for_is_kept_to(files: Any, ready: Any) -> None:
    with pytest.raises(DataError, match="IOB1"):
        ready(TagConfig(scheme="IOB1").build(), "encoder-tiny", files, CHARS)


def test_a_tag_that_training_never_has_counts_as_an_error(files: Any, ready: Any) -> None:
    Path(files["test"]).write_text("ici O\nMars B-ORG\n", encoding="utf-8")
    task, prepared, model = ready(TagConfig().build(), "encoder-tiny", files, CHARS)
    assert any("1 word with a tag that the model does not know (B-ORG)" in note for note in prepared.notes)
    assert task.evaluate(model, prepared.state, prepared.test).scores["entity_recall"] == 0.0


def test_parts_of_speech_are_scored_by_accuracy(tmp_path: Path, ready: Any) -> None:
    rows = [{"tokens": ["le", f"chat{n}", "dort"], "tags": ["DET", "NOUN", "VERB"]} for n in range(30)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    task, prepared, model = ready(TagConfig().build(), "encoder-tiny", {"train": str(tmp_path / "a.jsonl")}, CHARS)
    assert (prepared.state.scheme, task.metric_for(prepared.state)) == ("none", "accuracy")
    found = task.evaluate(model, prepared.state, prepared.test)
    assert "entity_f1" not in found.scores
    assert render(Page("essai", task.sections(found)))
    assert task.predict(model, prepared.state, prepared.tokenizers, ["le chat"])[0].output.split()[0].startswith("le/")
    assert [baseline.scores["accuracy"] for baseline in task.baselines(prepared, lambda line: None)][1] == 1.0


def test_details_are_plain_data_from_which_the_report_can_be_drawn_again(tags: Any) -> None:
    task, prepared, model = tags
    found = task.evaluate(model, prepared.state, prepared.test)
    stored = json.loads(json.dumps(found.details, allow_nan=False))
    page = render(Page("essai", TagConfig(scheme="IOB2").build().sections(Evaluation(found.scores, details=stored))))
    assert "What becomes of the entities" in page
    assert "Saint" in page


def test_baselines_are_each_words_own_tag_and_a_regression(tags: Any) -> None:
    task, prepared, _ = tags
    often, regression = task.baselines(prepared, lambda line: None)
    assert often.scores["entity_f1"] < 1.0  # the same word is a person and a place
    assert regression.scores["entity_f1"] == 1.0  # the word before tells


def test_other_files_are_scored_with_the_runs_own_tags(tags: Any, tmp_path: Path) -> None:
    task, prepared, model = tags
    (tmp_path / "autres.conll").write_text("\n".join(sentences(3, 90)), encoding="utf-8")
    other = task.read(
        prepared.state, DataConfig(train=str(tmp_path / "autres.conll")), prepared.tokenizers, model.config, lambda line: None
    )
    assert len(other) == 3
    assert task.inputs(tmp_path / "autres.conll", None) == [{"tokens": "\n".join(words)} for words in other.words]
    assert task.inputs(tmp_path / "texte.txt", None) is None


def test_maps_are_those_of_the_sentence(tags: Any) -> None:
    task, prepared, model = tags
    maps = task.maps(model, prepared.state, prepared.tokenizers, task.examples(prepared, 1))
    assert next(iter(maps[0].rows)) == "[CLS]"
