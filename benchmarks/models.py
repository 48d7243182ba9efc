"""The same shapes twice: as a page of Attentif's configuration, and as transformers' own classes."""

from dataclasses import dataclass
from typing import Any

import transformers

from attentif.models import Model, build, resolve

transformers.logging.set_verbosity_error()  # it warns of choices that are meant


@dataclass(frozen=True, slots=True)
class Shape:
    width: int
    heads: int
    layers: int
    vocab: int
    places: int  # rows of the table of positions

    def __str__(self) -> str:
        return f"{self.layers} blocks of width {self.width}, {self.heads} heads, {self.vocab:,} tokens in the vocabulary"


def gpt2(shape: Shape, *, dropout: float = 0.0, attention_dropout: float = 0.0) -> Model:
    attention = {"kind": "attention", "heads": shape.heads, "causal": True, "dropout": attention_dropout}
    values: dict[str, Any] = {"base": "gpt2", "width": shape.width, "layers": shape.layers, "dropout": dropout}
    values["frontend"] = {"vocab": shape.vocab, "position": {"kind": "learned", "max_len": shape.places}}
    values["decoder"] = {"block": {"attn": {"mixer": attention}, "ffn": {"mixer": {"hidden": 4 * shape.width}}}}
    return build(resolve(values))


def their_gpt2(shape: Shape, *, dropout: float = 0.0, **options: Any) -> transformers.GPT2LMHeadModel:
    config = transformers.GPT2Config(
        vocab_size=shape.vocab,
        n_positions=shape.places,
        n_embd=shape.width,
        n_layer=shape.layers,
        n_head=shape.heads,
        embd_pdrop=dropout,
        resid_pdrop=dropout,
        attn_pdrop=dropout,
        use_cache=False,
        bos_token_id=0,
        eos_token_id=0,
        **options,
    )
    return transformers.GPT2LMHeadModel(config)


def bert(shape: Shape, *, dropout: float = 0.0, attention_dropout: float = 0.0, classes: int = 2) -> Model:
    """A BERT that classifies by its first token (Devlin et al. 2019)."""
    norm = {"kind": "layer", "eps": 1e-12}
    attention = {"kind": "attention", "heads": shape.heads, "dropout": attention_dropout}
    values = {
        "width": shape.width,
        "layers": shape.layers,
        "dropout": dropout,
        "frontend": {
            "kind": "tokens",
            "vocab": shape.vocab,
            "segments": 2,
            "norm": norm,
            "position": {"kind": "learned", "max_len": shape.places},
        },
        "encoder": {
            "placement": "post",
            "norm": norm,
            "block": {"attn": {"mixer": attention}, "ffn": {"mixer": {"kind": "feed-forward", "activation": "gelu"}}},
        },
        "head": {"kind": "classify", "classes": classes, "pool": "first", "hidden": True, "dropout": dropout},
    }
    return build(resolve(values))


def their_bert(shape: Shape, *, dropout: float = 0.0, classes: int = 2, **options: Any) -> transformers.BertForSequenceClassification:
    config = transformers.BertConfig(
        vocab_size=shape.vocab,
        hidden_size=shape.width,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=4 * shape.width,
        max_position_embeddings=shape.places,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        **{"num_labels": classes} | options,
    )
    return transformers.BertForSequenceClassification(config)
