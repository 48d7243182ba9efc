"""BERT, RoBERTa, ELECTRA as they are pre-trained: the parameters of every preset and the scores of small ones, as transformers has them."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    CamembertConfig,
    CamembertForMaskedLM,
    ElectraConfig,
    ElectraForPreTraining,
    PreTrainedModel,
    RobertaConfig,
    RobertaForMaskedLM,
)

from attentif.hub import read_folder
from attentif.models import Batch, Input, Model, build, resolve
from attentif.nn.seq import Seq

pytestmark = pytest.mark.parity

LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
ROBERTA = {"max_position_embeddings": 514, "type_vocab_size": 1, "layer_norm_eps": 1e-5, "pad_token_id": 1}
PUBLISHED: list[tuple[str, type[PreTrainedModel], Any]] = [
    ("bert-base", BertForMaskedLM, BertConfig()),
    ("bert-large", BertForMaskedLM, BertConfig(**LARGE)),
    ("roberta-base", RobertaForMaskedLM, RobertaConfig(vocab_size=50265, **ROBERTA)),
    ("camembert-base", CamembertForMaskedLM, CamembertConfig(vocab_size=32005, **ROBERTA)),
    (
        "electra-small",
        ElectraForPreTraining,
        ElectraConfig(embedding_size=128, hidden_size=256, num_attention_heads=4, intermediate_size=1024),
    ),
]


def parameters(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(("name", "cls", "config"), PUBLISHED, ids=[name for name, _, _ in PUBLISHED])
def test_every_preset_has_the_parameters_of_the_published_model(name: str, cls: type[PreTrainedModel], config: Any) -> None:
    with torch.device("meta"):
        theirs = cls(config)
    assert parameters(build(resolve({"base": name}), device="meta")) == parameters(theirs)


@pytest.mark.parametrize(("name", "config"), [(name, config) for name, _, config in PUBLISHED], ids=[name for name, _, _ in PUBLISHED])
def test_every_preset_says_what_the_published_configuration_says(name: str, config: Any) -> None:
    model = resolve({"base": name})
    block = model.encoder.block
    assert (model.width, model.layers, model.dropout) == (config.hidden_size, config.num_hidden_layers, config.hidden_dropout_prob)
    assert (block["attn"].mixer.heads, block["attn"].mixer.dropout) == (config.num_attention_heads, config.attention_probs_dropout_prob)
    assert (block["ffn"].mixer.hidden, block["ffn"].mixer.activation) == (config.intermediate_size, config.hidden_act)
    assert {model.frontend.norm.eps, model.encoder.norm.eps} == {config.layer_norm_eps}
    assert model.frontend.position.max_len + model.frontend.position.offset == config.max_position_embeddings
    assert (model.frontend.vocab, model.frontend.segments) == (config.vocab_size, config.type_vocab_size)
    assert model.init.std == config.initializer_range


SMALL = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}


def small(name: str, folder: Path, theirs: PreTrainedModel, **changes: Any) -> Model:
    """Our preset at the size of `theirs`, with its weights as they are saved."""
    torch.manual_seed(0)
    for parameter in theirs.parameters():  # biases that are zero would hide a mistake
        torch.nn.init.normal_(parameter, std=0.3)
    theirs.eval().save_pretrained(folder)
    position = {"max_len": 20}
    config = resolve(
        {
            "base": name,
            "width": 16,
            "layers": 2,
            "frontend": {"vocab": 50, "position": position} | changes.pop("frontend", {}),
            "encoder": {"block": {"attn": {"mixer": {"heads": 2}}, "ffn": {"mixer": {"hidden": 24}}}},
        }
        | changes
    )
    mine = build(config)
    mine.load_state_dict(read_folder(folder).model.state_dict())
    return mine.eval()


def ragged() -> tuple[torch.Tensor, torch.Tensor, Seq]:
    torch.manual_seed(1)
    ids, mask = torch.randint(5, 50, (2, 9)), torch.ones(2, 9, dtype=torch.long)
    mask[1, 6:] = 0
    return torch.where(mask.bool(), ids, 1), mask, Seq.from_padded([9, 6])


def test_the_scores_of_masked_tokens_and_of_pairs_agree_with_bert(tmp_path: Path) -> None:
    theirs = BertForPreTraining(BertConfig(max_position_embeddings=20, **SMALL))
    mine = small("bert-base", tmp_path, theirs, head={"follows": True})
    ids, mask, seq = ragged()
    segments = (torch.arange(9) > 4).long().expand_as(ids)
    with torch.no_grad():
        known = theirs(ids, attention_mask=mask, token_type_ids=segments)
        x, seq = mine.hidden(Batch(Input(ids, seq, segments)))
        assert_close(mine.head(x, seq)[seq.valid], known.prediction_logits[seq.valid], rtol=1e-4, atol=1e-4)
        assert_close(mine.head.follow_scores(x, seq), known.seq_relationship_logits, rtol=1e-4, atol=1e-4)


def test_the_scores_of_masked_tokens_agree_with_roberta_whose_positions_begin_at_2(tmp_path: Path) -> None:
    theirs = RobertaForMaskedLM(RobertaConfig(**(SMALL | ROBERTA | {"max_position_embeddings": 22})))
    mine = small("roberta-base", tmp_path, theirs)
    ids, mask, seq = ragged()
    with torch.no_grad():
        known = theirs(ids, attention_mask=mask).logits
        assert_close(mine(Batch(Input(ids, seq)))[0][seq.valid], known[seq.valid], rtol=1e-4, atol=1e-4)


def test_the_scores_of_replaced_tokens_agree_with_electra(tmp_path: Path) -> None:
    theirs = ElectraForPreTraining(ElectraConfig(max_position_embeddings=20, embedding_size=8, **SMALL))
    mine = small("electra-small", tmp_path, theirs, frontend={"embedding": 8})
    ids, mask, seq = ragged()
    with torch.no_grad():
        known = theirs(ids, attention_mask=mask).logits
        assert_close(mine(Batch(Input(ids, seq)))[0].squeeze(-1)[seq.valid], known[seq.valid], rtol=1e-4, atol=1e-4)
