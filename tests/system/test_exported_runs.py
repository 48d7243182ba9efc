"""Runs that were trained here, from presets of ours, loaded by transformers as any model of the family."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers import AutoTokenizer
from transformers.utils import logging

import attentif
from attentif.api import export_model
from attentif.errors import ConfigError, UsageError
from attentif.models import Batch, Input
from attentif.nn.seq import Seq
from attentif.training.progress import Silent

pytestmark = pytest.mark.system

TEXT = "Il était une fois un roi qui aimait les chats. Un chat dormait sur le lit du roi.\n"
SHORT = {"steps": 2, "eval_every": 2, "device": "cpu"}
BYTES = {"kind": "bpe", "vocab": 300}
HEADS = {"attn": {"mixer": {"heads": 2}}}


def trained(place: Path, task: dict[str, Any], model: dict[str, Any], data: str = "text.txt") -> Any:
    place.mkdir(exist_ok=True)
    (place / "text.txt").write_text(TEXT * 60)
    (place / "pairs.csv").write_text("source,target\n" + "".join(f"chat {n},cat {n}\n" for n in range(60)))
    values = {"version": 1, "task": task, "tokenizer": BYTES, "model": model, "train": SHORT, "data": {"train": str(place / data)}}
    return attentif.train(values, out=place / "run", watch=Silent())


def test_a_language_model_goes_on_as_here(tmp_path: Path) -> None:
    logging.set_verbosity_error()
    sizes = {"width": 16, "layers": 2, "decoder": {"block": HEADS}, "frontend": {"position": {"max_len": 64}}}
    run = trained(tmp_path, {"kind": "language", "context": 32}, {"base": "gpt2"} | sizes)
    made = export_model(run.path, tmp_path / "hf")
    assert (made.family, made.architecture) == ("gpt2", "GPT2LMHeadModel")
    tokenizer, model = AutoTokenizer.from_pretrained(made.path), transformers.GPT2LMHeadModel.from_pretrained(made.path)
    read = tokenizer("Un chat", return_tensors="pt", return_token_type_ids=False)
    assert read["input_ids"][0].tolist() == run.task.prompt(run.tokenizers, "Un chat")
    written = model.generate(**read, max_new_tokens=12, do_sample=False)[0, read["input_ids"].shape[1] :]
    assert run.generate("Un chat", max_tokens=12).text == tokenizer.decode(written, skip_special_tokens=True)
    again = attentif.load(made.path)
    assert again.generate("Un chat", max_tokens=12).tokens == run.generate("Un chat", max_tokens=12).tokens


def test_the_default_recipe_is_loaded_by_transformers_with_equal_logits(tmp_path: Path) -> None:
    rows = [f"{word} film {n},{label}\n" for n in range(40) for word, label in (("bon", "oui"), ("long", "non"))]
    (tmp_path / "films.csv").write_text("text,label\n" + "".join(rows))
    settings = {"min_steps": 0, "steps": 6, "baselines": False, "device": "cpu"}
    run = attentif.train("reviews", str(tmp_path / "films.csv"), out=tmp_path / "run", watch=Silent(), train=settings)
    assert run.task.config.linear == "none"
    made = export_model(run.path, tmp_path / "hf")
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(made.path).eval()
    assert type(theirs).__name__ == made.architecture == "ModernBertForSequenceClassification"
    texts = ["un bon film", "Long, long film 3 ! et encore"]
    read = AutoTokenizer.from_pretrained(made.path)(texts, return_tensors="pt", padding=True, return_token_type_ids=False)
    ids = [run.tokenizer.encode(text).ids for text in texts]
    assert [row[: len(own)].tolist() for row, own in zip(read["input_ids"], ids, strict=True)] == ids
    batch = Batch(Input(read["input_ids"], Seq.from_padded([len(own) for own in ids])))
    with torch.no_grad():
        torch.testing.assert_close(run.model(batch)[0], theirs(**read).logits, rtol=1e-4, atol=1e-5)  # float32, other order of sums
    assert theirs.config.id2label == {0: "non", 1: "oui"}


def test_an_export_says_what_the_run_does_to_the_answers_of_its_network(tmp_path: Path) -> None:
    rows = [
        f"{word} film {n},{label}\n" for n in range(400) for word, label in (("bon", "oui"), ("long", "non")) if label == "oui" or n < 60
    ]
    (tmp_path / "films.csv").write_text("text,label\n" + "".join(rows))
    settings = {"min_steps": 0, "steps": 6, "baselines": False, "device": "cpu"}
    run = attentif.train("reviews", str(tmp_path / "films.csv"), out=tmp_path / "run", watch=Silent(), train=settings)
    made = export_model(run.path, tmp_path / "hf")
    assert made.caveat == run.note != ""
    assert made.caveat in (tmp_path / "hf" / "README.md").read_text()


def test_a_masked_model_guesses_as_here(tmp_path: Path) -> None:
    model = {"base": "bert-tiny", "width": 16, "layers": 2, "encoder": {"block": HEADS}}
    run = trained(tmp_path, {"kind": "masked", "context": 32}, model)
    made = export_model(run.path, tmp_path / "hf")
    assert made.architecture == "BertForMaskedLM"
    tokenizer, theirs = AutoTokenizer.from_pretrained(made.path), transformers.BertForMaskedLM.from_pretrained(made.path).eval()
    read = tokenizer("Un chat [MASK] sur le lit.", return_tensors="pt")
    with torch.no_grad():
        logits = theirs(**read).logits[0][read["input_ids"][0] == tokenizer.mask_token_id][0]
    found = run.predict(["Un chat [MASK] sur le lit."])[0]
    assert found.probability == pytest.approx(float(logits.softmax(-1).max()), rel=1e-4)


def test_an_encoder_decoder_writes_as_here(tmp_path: Path) -> None:
    model = {"base": "t5-small", "width": 16, "layers": 1}
    run = trained(tmp_path, {"kind": "translate"}, model, "pairs.csv")
    made = export_model(run.path, tmp_path / "hf")
    assert made.family == "t5"
    tokenizer, theirs = AutoTokenizer.from_pretrained(made.path), transformers.T5ForConditionalGeneration.from_pretrained(made.path)
    read = tokenizer("chat 3", return_tensors="pt", return_token_type_ids=False)
    written = theirs.generate(**read, max_new_tokens=8, do_sample=False)
    assert run.predict(["chat 3"], max_tokens=8)[0].output == tokenizer.decode(written[0], skip_special_tokens=True)


def test_what_no_family_can_say_is_one_line_and_nothing_is_written(tmp_path: Path) -> None:
    run = trained(tmp_path, {"kind": "language", "context": 32}, {"base": "lstm-tiny", "width": 16, "layers": 1})
    with pytest.raises(ConfigError, match=r"architecture.*represent") as caught:
        export_model(run.path, tmp_path / "hf")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "hf").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(UsageError, match=r"exists.*Hugging"):
        export_model(run.path, tmp_path / "mine", force=True)


@pytest.mark.parametrize("choice", ["stacked", "averaged"])
def test_a_run_that_a_linear_model_answers_with_is_refused_with_the_key_to_train_without(tmp_path: Path, choice: str) -> None:
    rows = [f"{word} film {n},{label}\n" for n in range(40) for word, label in (("bon", "oui"), ("long", "non"))]
    (tmp_path / "films.csv").write_text("text,label\n" + "".join(rows))
    head = {"kind": "classify", "pool": "first", "hidden": True}
    for base, way_out in (("bert-tiny", r"task\.linear=none$"), ("lstm-tiny", r"model\.base=modernbert-tiny.*--to onnx")):
        sizes = {"base": base, "width": 16, "layers": 1} | ({"head": head} if base == "bert-tiny" else {})
        run = trained(tmp_path / base, {"kind": "classify", "linear": choice}, sizes, str(tmp_path / "films.csv"))
        with pytest.raises(ConfigError, match=rf"config\.toml: task\.linear: .* {way_out}"):
            export_model(run.path, tmp_path / "hf")
    assert not (tmp_path / "hf").exists()


def test_a_run_that_reads_what_question_and_passage_share_is_refused_with_the_key_to_train_without(tmp_path: Path) -> None:
    passages = [
        {"context": f"Zoé vit à Sète {n} .", "qas": [{"question": "Où ?", "answers": [{"text": "Sète", "answer_start": 10}]}]}
        for n in range(30)
    ]
    (tmp_path / "asked.json").write_text(json.dumps({"data": [{"title": "towns", "paragraphs": passages}]}))
    run = trained(
        tmp_path / "run", {"kind": "answer", "match": True}, {"base": "bert-tiny", "width": 16, "layers": 1}, str(tmp_path / "asked.json")
    )
    with pytest.raises(ConfigError, match=r"config\.toml: task\.match:.*task\.match=false$"):
        export_model(run.path, tmp_path / "hf")
    assert not (tmp_path / "hf").exists()
