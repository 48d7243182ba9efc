"""BART (Lewis et al. 2020): the encoder-decoder of 2017 with learned positions and a norm after the embeddings. Marian: without these.
mBART, M2M-100 (and NLLB) and Pegasus: with norms before the sublayers, and one after the last block."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from attentif.errors import ConfigError
from attentif.hub.families.bert import ACTIVATIONS
from attentif.hub.family import Family, HeadOf, register
from attentif.hub.heads import HALF, HEADLESS, answer_head, ends_classified
from attentif.hub.keys import Always, Key
from attentif.hub.rows import Reshaped, Row

SIDES = {"encoder": "frontend", "decoder": "target"}
MIXERS = ("encoder.block.attn.mixer", "decoder.block.attn.mixer", "decoder.block.cross.mixer")
FFNS = ("encoder.block.ffn.mixer", "decoder.block.ffn.mixer")


def rows_of(stack: str, norm: str = "norm_out") -> list[Row]:
    """`norm`: ours of each sublayer, after it in BART, before it in Whisper."""
    layer, block = f"{stack}.layers.{{i}}", f"{stack}.blocks.{{i}}"
    rows = [
        Row(f"{stack}.embed_positions.weight", f"{SIDES[stack]}.position.table.weight"),
        Row(f"{stack}.layernorm_embedding.{{p}}", f"{SIDES[stack]}.norm.{{p}}"),
        Row(f"{layer}.fc1.{{p}}", f"{block}.ffn.mixer.up.{{p}}"),
        Row(f"{layer}.fc2.{{p}}", f"{block}.ffn.mixer.out.{{p}}"),
        Row(f"{layer}.final_layer_norm.{{p}}", f"{block}.ffn.{norm}.{{p}}"),
    ]
    for theirs, ours in {"self_attn": "attn", "encoder_attn": "cross"}.items():
        rows += [
            Row(f"{layer}.{theirs}.q_proj.{{p}}", f"{block}.{ours}.mixer.q.{{p}}"),
            Row(f"{layer}.{theirs}.k_proj.{{p}}", f"{block}.{ours}.mixer.k.{{p}}"),
            Row(f"{layer}.{theirs}.v_proj.{{p}}", f"{block}.{ours}.mixer.v.{{p}}"),
            Row(f"{layer}.{theirs}.out_proj.{{p}}", f"{block}.{ours}.mixer.out.{{p}}"),
            Row(f"{layer}.{theirs}_layer_norm.{{p}}", f"{block}.{ours}.{norm}.{{p}}"),
        ]
    return rows


def stack(decoder: bool, placement: str = "post") -> dict[str, Any]:
    sublayers: dict[str, Any] = {"attn": {"mixer": {"kind": "attention", "causal": decoder}}}
    if decoder:
        sublayers["cross"] = {"mixer": {"kind": "cross-attention"}}
    sublayers["ffn"] = {"mixer": {"kind": "feed-forward"}}
    return {"placement": placement, "norm": {"kind": "layer"}, "block": sublayers}


def plain(architecture: str) -> HeadOf:
    """Without a head of its own, words are scored by their embedding."""
    return HeadOf(architecture, {"kind": "language"}, task="text-to-text", prefix="")


def family(
    kind: str,
    architecture: str,
    frontend: dict[str, Any],
    keys: list[Key | Always],
    more: Sequence[HeadOf] = (),
    unsaved: tuple[str, ...] = (),
    like: dict[str, Any] | None = None,
    left_out: dict[str, str] | None = None,
    placement: str = "post",
    bias: bool = True,
    **more_of_it: Any,
) -> Family:
    first = placement == "pre"
    scored = Row("final_logits_bias", "head.bias", Reshaped(theirs_shape=(1, -1), ours_shape=(-1,)))
    norm = "norm_in" if first else "norm_out"
    last = [Row(f"{side}.layer_norm.{{p}}", f"{side}.norm.{{p}}") for side in SIDES if first]
    return Family(
        kind=kind,
        template={
            "shared": True,
            "frontend": {"kind": "tokens", **frontend},
            "target": {"kind": "tokens", **frontend},
            "encoder": stack(decoder=False, placement=placement),
            "decoder": stack(decoder=True, placement=placement),
        },
        keys=[*KEYS, Always("normalize_before", first), Always("add_final_layer_norm", first), *keys],
        body=[Row("shared.weight", "frontend.tokens.weight"), *rows_of("encoder", norm), *rows_of("decoder", norm), *last],
        heads=[
            HeadOf(
                architecture,
                {"kind": "language", "bias": bias},
                [*([scored] if bias else []), Row("lm_head.weight", "head.linear.weight")],
                task="text-to-text",
            ),
            *more,
        ],
        prefix="model.",
        ignored=("encoder.version", "decoder.version", *unsaved),
        embeddings=("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"),
        aliases=ALIASES,
        like=like or {},
        harmless=HARMLESS,
        left_out=left_out or {},
        **more_of_it,
    )


SIZES: list[Key | Always] = [
    Key("d_model", "width"),
    Key("encoder_layers", ("layers", "encoder.layers")),
    Key("decoder_layers", "decoder.layers"),
    Key("encoder_attention_heads", f"{MIXERS[0]}.heads"),
    Key("decoder_attention_heads", (f"{MIXERS[1]}.heads", f"{MIXERS[2]}.heads")),
    Key("encoder_ffn_dim", f"{FFNS[0]}.hidden"),
    Key("decoder_ffn_dim", f"{FFNS[1]}.hidden"),
    Key("activation_function", tuple(f"{mixer}.activation" for mixer in FFNS), "gelu", ACTIVATIONS),
    Key("dropout", "dropout", 0.1),
    Key("attention_dropout", tuple(f"{mixer}.dropout" for mixer in MIXERS), 0.0),
    Key("activation_dropout", tuple(f"{mixer}.dropout" for mixer in FFNS), 0.0),
]
ALIASES = {"num_attention_heads": "encoder_attention_heads", "hidden_size": "d_model", "num_hidden_layers": "encoder_layers"}
KEYS: list[Key | Always] = [
    *SIZES,
    Key("vocab_size", ("frontend.vocab", "target.vocab")),
    Key("scale_embedding", ("frontend.scale", "target.scale"), False),
    Always("add_bias_logits", False),
]
HARMLESS = (
    "classif_dropout", "classifier_dropout", "decoder_layerdrop", "decoder_vocab_size", "encoder_layerdrop", "extra_pos_embeddings",
    "init_std", "num_hidden_layers", "save_step", "static_position_embeddings",
)  # fmt: skip


def with_base(config: dict[str, Any]) -> dict[str, Any]:
    """M2M-100's sinusoids reach their longest wavelength with the last pair: ours with the one after it."""
    half = config["d_model"] // 2 if "d_model" in config else 2
    return config | {"base": 10000.0 ** (half / (half - 1))}


def without_base(config: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key != "base"}


def refuse_other_places(tensors: Mapping[str, Tensor]) -> None:
    """Sinusoids are worked out here; transformers reads the tables of a file that holds some, whatever they are.

    Tables in half precision are those sinusoids, rounded.
    """
    for name in (name for name in tensors if name.endswith("embed_positions.weight")):
        table = tensors[name]
        places, width = torch.arange(len(table), dtype=torch.float64)[:, None], table.shape[-1]
        angles = places * 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
        sinusoids = torch.cat([angles.sin(), angles.cos()], -1)[:, :width]
        near = max(1e-4, torch.finfo(table.dtype).eps)
        if table.ndim != 2 or not torch.allclose(table.double(), sinusoids, rtol=0, atol=near):
            raise ConfigError(
                f"{name}: holds other places than the sinusoids of this family, which are worked out; leave it out if they are"
            )


def classes_and_answers(name: str) -> list[HeadOf]:
    return [plain(f"{name}Model"), ends_classified(f"{name}ForSequenceClassification"), answer_head(f"{name}ForQuestionAnswering")]


PLACES = ("frontend.position.max_len", "target.position.max_len")
register(
    family(
        "bart",
        "BartForConditionalGeneration",
        {"position": {"kind": "learned", "offset": 2}, "norm": {"kind": "layer"}},
        [Key("max_position_embeddings", PLACES, 1024), Always("normalize_embedding", True)],
        classes_and_answers("Bart"),
        left_out={"BartForCausalLM": HALF},
    ),
    family(
        "marian",
        "MarianMTModel",
        {"position": {"kind": "sinusoidal", "halves": True}},
        [
            Always("normalize_embedding", False),
            Always("share_encoder_decoder_embeddings", True),
        ],
        unsaved=("embed_positions.weight",),  # sinusoids, in old files
        check=refuse_other_places,
        like={"max_position_embeddings": 512},  # a limit on paper
        left_out={"MarianForCausalLM": HALF, "MarianModel": HEADLESS},
    ),
    family(
        "mbart",
        "MBartForConditionalGeneration",
        {"position": {"kind": "learned", "offset": 2}, "norm": {"kind": "layer"}},
        [Key("max_position_embeddings", PLACES, 1024), Always("normalize_embedding", True)],
        classes_and_answers("MBart"),
        left_out={"MBartForCausalLM": HALF},
        placement="pre",
    ),
    family(
        "m2m_100",
        "M2M100ForConditionalGeneration",
        {"position": {"kind": "sinusoidal", "halves": True, "offset": 2}},
        [
            Key("base", ("frontend.position.base", "target.position.base")),
            Always("normalize_embedding", False),
            Always("pad_token_id", 1),  # from whose id on places are counted
        ],
        [plain("M2M100Model")],
        unsaved=("embed_positions.weights",),
        like={"max_position_embeddings": 1024},
        placement="pre",
        bias=False,
        defaults={"activation_function": "relu", "scale_embedding": True, "attention_dropout": 0.1},
        older=with_base,
        whole=without_base,
    ),
    family(
        "pegasus",
        "PegasusForConditionalGeneration",
        {"position": {"kind": "sinusoidal", "halves": True}},
        [Always("normalize_embedding", False)],
        [plain("PegasusModel")],
        unsaved=("embed_positions.weight",),
        check=refuse_other_places,
        like={"max_position_embeddings": 1024},
        left_out={"PegasusForCausalLM": HALF},
        placement="pre",
    ),
)
