import json
from typing import Any

import pytest

from attentif.data import DataConfig
from attentif.errors import ConfigError, DataError, UsageError
from attentif.tasks import Evaluation
from attentif.tasks.seq2seq.summarise import SummariseConfig, sentences
from attentif.tasks.seq2seq.text_to_text import TextToTextConfig
from attentif.view.page import Page, render

TOWNS = ["Nice", "Brest", "Lens", "Dole", "Gap"]


def reports(numbers: Any) -> list[dict[str, str]]:
    return [
        {"article": f"Un incendie à {TOWNS[n % 5]}. On compte {n} blessés. Le maire est venu.", "résumé": f"{TOWNS[n % 5]} : {n} blessés."}
        for n in numbers
    ]


@pytest.fixture
def news(write_csv: Any) -> dict[str, str]:
    return {
        name: write_csv(f"{name}.csv", reports(own))
        for name, own in (("train", range(40)), ("valid", range(40, 46)), ("test", range(50, 58)))
    }


@pytest.fixture
def summaries(news: Any, ready: Any) -> Any:
    return ready(SummariseConfig(max_summary=12).build(), "transformer-tiny", news)


def test_columns_are_recognised_by_their_names(summaries: Any) -> None:
    _, prepared, _ = summaries
    assert any("text from column 'article', summary from column 'résumé'" in note for note in prepared.notes)
    assert prepared.train.references[3] == "Dole : 3 blessés."


def test_summaries_need_an_encoder_and_a_decoder(small: Any) -> None:
    with pytest.raises(ConfigError, match=r"summarise.*encoder"):
        SummariseConfig().build().check(small("encoder-tiny"))


def test_long_texts_are_cut_in_training_too_and_long_summaries_left_out(news: Any, ready: Any) -> None:
    _, prepared, _ = ready(SummariseConfig(max_len=8, max_summary=7).build(), "transformer-tiny", news)
    assert int(prepared.train.source.lengths.max()) == 8
    assert "train: 40 texts of 40 cut to 8 tokens (task.max_len)" in prepared.notes
    assert len(prepared.train) == 40
    with pytest.raises(DataError, match=r"4.*task\.max_summary"):
        ready(SummariseConfig(max_len=8, max_summary=4).build(), "transformer-tiny", news)


def test_scores_are_rouge_beside_the_lead(summaries: Any) -> None:
    task, prepared, model = summaries
    found = task.evaluate(model, prepared.state, prepared.test)
    assert {"rouge1", "rouge2", "rougeL", "loss"} <= set(found.scores)
    assert found.intervals["rougeL"][0] <= found.scores["rougeL"] <= found.intervals["rougeL"][1]
    lead, closest = task.baselines(prepared, lambda line: None)
    assert lead.name.en == "lead (1 sentence)"
    assert lead.scores["rouge1"] == pytest.approx(2 * 1 / (4 + 3))  # the town alone is common
    assert closest.scores["rouge1"] > lead.scores["rouge1"]
    stored = json.loads(json.dumps(found.details, allow_nan=False))
    page = render(Page("essai", task.sections(Evaluation(found.scores, details=stored))))
    assert "rouge-score" in page
    assert "sacrebleu" not in page


def test_predictions_are_summaries_of_texts(summaries: Any) -> None:
    task, prepared, model = summaries
    (answer,) = task.predict(model, prepared.state, prepared.tokenizers, ["Un incendie à Nice."], max_tokens=4)
    assert answer.input == "Un incendie à Nice."
    assert task.maps(model, prepared.state, prepared.tokenizers, [{"text": "Un incendie à Nice.", "target": "Nice"}])


def test_sentences_end_where_they_end() -> None:
    assert sentences("Un. Deux ! Trois… Et 3.5 fois ?\nFin") == ["Un.", "Deux !", "Trois…", "Et 3.5 fois ?", "Fin"]
    assert sentences("") == []


# --------------------------------------------------------------------------------------------------------- text to text


def orders(numbers: Any) -> list[dict[str, str]]:
    words = ["zéro", "un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf"]
    english = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    rows = []
    for n in numbers:
        digits = [int(d) for d in str(n)]
        rows.append({"task": "traduire", "input": " ".join(words[d] for d in digits), "output": " ".join(english[d] for d in digits)})
        rows.append({"task": "compter", "input": " ".join(words[d] for d in digits), "output": words[len(digits)]})
    return rows


@pytest.fixture
def several(write_csv: Any, ready: Any) -> Any:
    data = {
        name: write_csv(f"{name}.csv", orders(own))
        for name, own in (("train", range(60)), ("valid", range(60, 64)), ("test", range(70, 76)))
    }
    return ready(TextToTextConfig().build(), "t5-tiny", data)


def test_the_prefix_stands_before_the_text(several: Any) -> None:
    _task, prepared, _ = several
    tokenizer = prepared.tokenizers["tokenizer"]
    assert prepared.train.sources[:2] == ["traduire: zéro", "compter: zéro"]
    assert tokenizer.decode(prepared.train.source[0]) == "traduire : zéro"
    assert list(prepared.state.prefixes) == ["compter", "traduire"]


def test_each_prefix_is_scored_apart(several: Any) -> None:
    task, prepared, model = several
    found = task.evaluate(model, prepared.state, prepared.test)
    assert {group["group"]: group["examples"] for group in found.details["by_group"]} == {"compter": 6, "traduire": 6}
    assert task.group_scores(["positif"], ["positif"]) == {"exact_match": 1.0, "chrf": 100.0}  # BLEU would be 0: there are no four words
    assert "compter" in render(Page("essai", task.sections(found)))
    assert task.baselines(prepared, lambda line: None)[0].scores["exact_match"] >= 0


def test_a_text_must_say_what_is_to_be_done(several: Any) -> None:
    task, prepared, model = several
    found = task.predict(
        model, prepared.state, prepared.tokenizers, ["traduire: deux", {"prefix": "compter", "source": "deux un"}], max_tokens=3
    )
    assert [answer.input for answer in found] == ["traduire: deux", "compter: deux un"]
    with pytest.raises(UsageError, match="«compter"):
        task.predict(model, prepared.state, prepared.tokenizers, ["deux"])


def test_the_colon_after_a_prefix_may_be_written_in_the_data(write_csv: Any, ready: Any) -> None:
    rows = [row | {"task": f"{row['task']}: "} for row in orders(range(30))]
    task, prepared, model = ready(TextToTextConfig().build(), "t5-tiny", {"train": write_csv("a.csv", rows)})
    assert list(prepared.state.prefixes) == TextToTextConfig(prefixes=["compter:", " traduire : "]).prefixes == ["compter", "traduire"]
    (answer,) = task.predict(model, prepared.state, prepared.tokenizers, [{"prefix": "traduire:", "source": "deux"}], max_tokens=1)
    assert answer.input == "traduire: deux"


def test_several_files_may_have_a_prefix_each(write_csv: Any, ready: Any) -> None:
    plain = lambda name, own: write_csv(name, [{"source": row["input"], "target": row["output"]} for row in own])
    rows = orders(range(30))
    files = [plain("a.csv", rows[::2]), plain("b.csv", rows[1::2])]
    _, prepared, _ = ready(TextToTextConfig(prefixes=["traduire", "compter"]).build(), "t5-tiny", {"train": files})
    for split in (prepared.train, prepared.test):
        assert {source.partition(":")[0] for source in split.sources} == {"traduire", "compter"}
    assert list(prepared.state.prefixes) == ["traduire", "compter"]
    with pytest.raises(DataError, match=r"task\.prefixes has 1 for 2 files"):
        ready(TextToTextConfig(prefixes=["traduire"]).build(), "t5-tiny", {"train": files})


def test_a_prefix_that_training_never_has_is_refused(several: Any, write_csv: Any) -> None:
    task, prepared, model = several
    other = write_csv("autres.csv", [{"task": "chanter", "input": "un", "output": "la"}])
    with pytest.raises(DataError, match=r"autres\.csv:2:.*'chanter'"):
        task.read(prepared.state, DataConfig(train=other), prepared.tokenizers, model.config, lambda line: None)
