import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attentif.data import DataConfig
from attentif.data.builtin import BUILTIN
from attentif.data.builtin import numbers as numbers_set
from attentif.errors import ConfigError, DataError
from attentif.models import ModelConfig
from attentif.tasks import Evaluation, TranslateConfig
from attentif.tasks.ragged import UNSCORED
from attentif.view.page import Page, render

FRENCH = ["zéro", "un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf"]
ENGLISH = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def rows(numbers: Any) -> list[dict[str, str]]:
    words = lambda number, names: " ".join(names[int(digit)] for digit in str(number))
    return [{"source": words(n, FRENCH), "target": words(n, ENGLISH)} for n in numbers]


@pytest.fixture
def numbers(write_csv: Any) -> dict[str, str]:
    return {
        "train": write_csv("train.csv", rows(range(60))),
        "valid": write_csv("valid.csv", rows(range(60, 70))),
        "test": write_csv("test.csv", rows([71, 72, 735, 74, 7561])),
    }


@pytest.fixture
def pairs(numbers: Any, ready: Any) -> Any:
    return ready(TranslateConfig().build(), "transformer-tiny", numbers)


def test_translation_needs_an_encoder_and_a_decoder(small: Callable[..., ModelConfig]) -> None:
    task = TranslateConfig().build()
    for base in ("encoder-tiny", "decoder-tiny"):
        with pytest.raises(ConfigError, match=r"encoder.*decoder"):
            task.check(task.adapt(small(base)))
    task.check(small("transformer-tiny"))


def test_two_vocabularies_and_one_embedding_contradict_each_other(small: Callable[..., ModelConfig]) -> None:
    task = TranslateConfig(separate_vocab=True).build()
    with pytest.raises(ConfigError, match=r"one.*give"):
        task.check(small("transformer-tiny"))
    task.check(small("transformer-tiny", shared=False))


def test_the_decoder_reads_what_it_is_scored_on_one_place_later(pairs: Any) -> None:
    _, prepared, _ = pairs
    tokenizer = prepared.tokenizers["tokenizer"]
    batch = prepared.train.batch([12, 3])
    assert batch.target is not None
    assert batch.labels is not None
    assert tokenizer.decode(batch.source.data[0]) == "un deux"
    assert batch.source.data[0, -1] == tokenizer.eos
    assert batch.target.data[:, 0].tolist() == [tokenizer.bos] * 2
    assert batch.labels[0].tolist() == [*batch.target.data[0, 1:].tolist(), tokenizer.eos]
    assert batch.labels[1].tolist()[2:] == [UNSCORED]
    assert batch.target.data[1].tolist()[2:] == [tokenizer.pad]


def test_loss_is_a_sum_over_target_tokens_padded_or_packed(pairs: Any) -> None:
    task, prepared, model = pairs
    chosen = [3, 12, 45, 0]
    alone = [task.step(model, prepared.train.batch([row])) for row in chosen]
    for packed in (False, True):
        loss = task.step(model, prepared.train.batch(chosen, packed=packed))
        assert loss.count == sum(one.count for one in alone) == 2 + 3 + 3 + 2
        assert loss.total.item() == pytest.approx(sum(one.total.item() for one in alone), rel=1e-5)


def test_padding_never_meets_the_vocabulary(pairs: Any) -> None:
    task, prepared, model = pairs
    seen: list[int] = []
    loss = model.head.loss
    model.head.loss = lambda x, labels, smoothing: seen.append(len(x)) or loss(x, labels, smoothing)
    task.step(model, prepared.train.batch([3, 12]))
    assert seen == [5]


def test_smoothing_does_not_touch_the_reported_loss(pairs: Any) -> None:
    _, prepared, model = pairs
    plain, smooth = (TranslateConfig(label_smoothing=value).build() for value in (0.0, 0.3))
    batch = prepared.train.batch([1, 2, 3])
    assert plain.step(model, batch).total.item() != smooth.step(model, batch).total.item()
    assert (
        plain.evaluate(model, prepared.state, prepared.test, quick=True).scores
        == smooth.evaluate(model, prepared.state, prepared.test, quick=True).scores
    )


def test_long_pairs_are_left_out_of_training_and_cut_elsewhere_and_said(numbers: Any, ready: Any) -> None:
    _, prepared, _ = ready(TranslateConfig(max_len=3).build(), "transformer-tiny", numbers)
    assert len(prepared.train) == 10  # "zero" to "nine": two words are [BOS] . . [EOS], four tokens
    assert len(prepared.test) == 5
    assert int(prepared.test.target.lengths.max()) == 3
    assert "train: 50 pairs of 60 longer than 3 tokens (task.max_len) left out" in prepared.notes
    assert "test: 5 pairs of 5 longer than 3 tokens (task.max_len) cut" in prepared.notes
    with pytest.raises(DataError, match=r"raise task\.max_len"):
        ready(TranslateConfig(max_len=2).build(), "transformer-tiny", numbers)


def test_separate_tokenizers_know_one_language_each(numbers: Any, ready: Any) -> None:
    task = TranslateConfig(separate_vocab=True).build()
    _, prepared, model = ready(task, "transformer-tiny", numbers, shared=False)
    source, target = prepared.tokenizers["tokenizer"], prepared.tokenizers["target"]
    assert source.rust.token_to_id("deux") is not None
    assert source.rust.token_to_id("two") is None
    assert target.rust.token_to_id("two") is not None
    assert task.predict(model, prepared.state, prepared.tokenizers, ["deux"], max_tokens=3)[0].input == "deux"


def test_a_quick_evaluation_translates_a_part_and_scores_all_tokens(pairs: Any) -> None:
    _, prepared, model = pairs
    some, everything = (TranslateConfig(eval_examples=count).build() for count in (4, 0))
    quick, whole = (task.evaluate(model, prepared.state, prepared.valid, quick=True) for task in (some, everything))
    assert (quick.examples, whole.examples) == (4, 10)
    assert quick.scores["loss"] == whole.scores["loss"]


@pytest.mark.parametrize("beams", [1, 3])
def test_a_model_that_has_learned_its_pairs_by_heart_translates_them(numbers: Any, ready: Any, teach: Any, beams: int) -> None:
    task = TranslateConfig(metric="exact_match", beams=beams).build()
    _, prepared, model = ready(task, "transformer-tiny", numbers)
    teach(task, prepared, model, steps=80)
    train = prepared.train
    found = task.evaluate(model, prepared.state, train, budget=100)
    assert task.metric == "exact_match"
    assert found.scores["exact_match"] == 1.0
    assert task.predict(model, prepared.state, prepared.tokenizers, ["quatre deux", "sept"])[0].output == "four two"


def test_written_translations_come_in_the_order_of_the_split(pairs: Any) -> None:
    task, prepared, model = pairs
    table = prepared.test.table
    shown = task.evaluate(model, prepared.state, prepared.test, budget=16).details["answers"]
    assert [entry["source"] for entry in shown] == table["source"]
    assert [entry["reference"] for entry in shown] == table["target"]
    alone = task.predict(model, prepared.state, prepared.tokenizers, table["source"][:1], max_tokens=20)
    assert shown[0]["written"].split()[:3] == alone[0].output.split()[:3]


def test_details_are_plain_data_from_which_the_report_can_be_drawn_again(pairs: Any) -> None:
    task, prepared, model = pairs
    found = task.evaluate(model, prepared.state, prepared.test)
    stored = json.loads(json.dumps(found.details, allow_nan=False))
    page = render(Page("essai", TranslateConfig().build().sections(Evaluation(found.scores, details=stored))))
    assert "sacrebleu" in page
    assert "sept un" in page


def test_groups_of_the_data_are_scored_apart(ready: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    few = numbers_set.load(0, train=300, valid=20, test=20)
    monkeypatch.setitem(BUILTIN, "numbers", replace(BUILTIN["numbers"], load=lambda seed: few))
    task, prepared, model = ready(TranslateConfig().build(), "transformer-tiny", {"name": "numbers"})
    groups = task.evaluate(model, prepared.state, prepared.test).details["by_group"]
    assert {group["group"] for group in groups} == {"unseen number", "unseen combination"}
    assert sum(group["examples"] for group in groups) == 20


def test_maps_show_the_source_the_writing_and_the_alignment(pairs: Any) -> None:
    task, prepared, model = pairs
    encoder, decoder, cross = sorted(
        task.maps(model, prepared.state, prepared.tokenizers, [{"source": "deux trois", "target": "two three"}]),
        key=lambda maps: str(maps.title),
    )
    found = {tuple(maps.rows): maps for maps in (encoder, decoder, cross)}
    assert set(found) == {("deux", "trois", "[EOS]"), ("[BOS]", "two", "three"), ("two", "three", "[EOS]")}
    alignment = found["two", "three", "[EOS]"]
    assert list(alignment.keys) == ["deux", "trois", "[EOS]"]
    assert all(np.allclose(weights.sum(-1), 1, atol=1e-5) for weights in alignment.weights.values())


def test_the_closest_example_is_reported_beside_the_model(pairs: Any) -> None:
    task, prepared, _ = pairs
    (found,) = task.baselines(prepared, lambda line: None)
    assert found.scores["exact_match"] == 0.0
    assert 0 < found.scores["chrf"] < 100


def test_another_file_is_scored_whole_its_long_pairs_cut(numbers: Any, ready: Any, write_csv: Any) -> None:
    task, prepared, model = ready(TranslateConfig(max_len=4).build(), "transformer-tiny", numbers)
    said: list[str] = []
    other = task.read(
        prepared.state, DataConfig(train=write_csv("autres.csv", rows([12, 34567]))), prepared.tokenizers, model.config, said.append
    )
    assert len(other) == 2
    assert any(line.endswith("cut") for line in said)
