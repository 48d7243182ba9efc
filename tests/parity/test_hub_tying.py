"""Matrices that files share or do not: the numbers of transformers, which goes by the file, and a folder that it reads back."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from hub_cases import BART, BERT, BIGBIRD, FLAN, MARIAN, ROBERTA, T5, VOCAB, Case
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from attentif.errors import ConfigError
from attentif.hub import read_folder, write_folder
from attentif.models import Batch, Input
from attentif.nn.seq import Seq

pytestmark = pytest.mark.parity
transformers.logging.set_verbosity_error()

UNTIED = {"tie_word_embeddings": False}
CASES = {
    "bert": Case("BertForMaskedLM", "BertConfig", BERT, kind="encoder"),
    "bert pretraining": Case("BertForPreTraining", "BertConfig", BERT, kind="encoder"),
    "roberta": Case("RobertaForMaskedLM", "RobertaConfig", ROBERTA, kind="encoder"),
    "camembert": Case("CamembertForMaskedLM", "CamembertConfig", ROBERTA, kind="encoder"),
    "longformer": Case("LongformerForMaskedLM", "LongformerConfig", ROBERTA | {"attention_window": [4, 4]}, kind="encoder"),
    "big_bird": Case("BigBirdForMaskedLM", "BigBirdConfig", BIGBIRD, kind="encoder"),
    "bart": Case("BartForConditionalGeneration", "BartConfig", BART, kind="seq2seq"),
    "marian": Case("MarianMTModel", "MarianConfig", MARIAN, kind="seq2seq"),
    "t5": Case("T5ForConditionalGeneration", "T5Config", T5, kind="seq2seq"),
    "flan": Case("T5ForConditionalGeneration", "T5Config", FLAN, kind="seq2seq", spread=3.0),
}
# tensors that a tied file does not have, put into it with other values
EXTRA = {
    "bert": ("cls.predictions.decoder.bias", "cls.predictions.bias"),
    "roberta": ("lm_head.decoder.bias", "lm_head.bias"),
    "bart": ("model.encoder.embed_tokens.weight", "model.shared.weight"),
    "bart decoder": ("model.decoder.embed_tokens.weight", "model.shared.weight"),
    "marian": ("model.encoder.embed_tokens.weight", "model.shared.weight"),
    "t5": ("encoder.embed_tokens.weight", "shared.weight"),
    "t5 decoder": ("decoder.embed_tokens.weight", "shared.weight"),
}
UNREAD = {"cls.predictions.bias", "lm_head.bias", "model.shared.weight", "shared.weight"}  # by their models, where nothing is tied


def numbers(case: Case, model: Any) -> torch.Tensor:
    ids = torch.arange(3, 20)[None]
    found = model(input_ids=ids, **({"decoder_input_ids": ids} if case.kind == "seq2seq" else {}))
    return found.logits if "logits" in found else found.prediction_logits


def check(case: Case, theirs: Any, folder: Path) -> None:
    found, ids = read_folder(folder), torch.arange(3, 20)[None]
    given = Input(ids, Seq.from_padded([17]))
    expected = numbers(case, theirs)
    assert_close(found.model(Batch(given, given if case.kind == "seq2seq" else None))[0], expected, rtol=1e-4, atol=3e-5)
    write_folder(folder / "again", found.model, family=found.family.kind, architecture=case.architecture, labels=[], special=found.special)
    again, info = getattr(transformers, case.architecture).from_pretrained(folder / "again", output_loading_info=True)
    assert not info["missing_keys"] - {"bert.pooler.weight", "bert.pooler.bias"}
    assert not info["unexpected_keys"]
    assert_close(numbers(case, again.eval()), expected, rtol=1e-4, atol=3e-5)


@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_nothing_tied_is_read_and_written_in_full(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    case = Case(case.architecture, case.config, case.sizes | UNTIED, kind=case.kind, spread=case.spread)
    theirs = case.build(tmp_path, torch.float32)
    check(case, theirs, tmp_path)
    before, after = load_file(tmp_path / "model.safetensors"), load_file(tmp_path / "again" / "model.safetensors")
    assert all(torch.equal(before[key], tensor) for key, tensor in after.items() if key not in UNREAD)


@pytest.mark.parametrize("name", EXTRA)
@torch.no_grad()
def test_what_the_file_holds_apart_is_read_apart(name: str, tmp_path: Path) -> None:
    case, file, (extra, like) = CASES[name.split()[0]], tmp_path / "model.safetensors", EXTRA[name]
    case.build(tmp_path, torch.float32)
    tensors = load_file(file)
    tensors.setdefault(like, tensors.pop("shared.weight", None) if like not in tensors else None)
    save_file(tensors | {extra: torch.randn_like(tensors[like])}, file, {"format": "pt"})
    check(case, getattr(transformers, case.architecture).from_pretrained(tmp_path).eval(), tmp_path)


def test_an_untied_output_that_is_not_there_is_named(tmp_path: Path) -> None:
    Case("BartForConditionalGeneration", "BartConfig", BART | UNTIED, kind="seq2seq").build(tmp_path, torch.float32)
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    del tensors["lm_head.weight"]
    save_file(tensors, file, {"format": "pt"})
    with pytest.raises(ConfigError, match=r"lack lm_head\.weight"):
        read_folder(tmp_path)
    assert len(tensors["model.shared.weight"]) == VOCAB
