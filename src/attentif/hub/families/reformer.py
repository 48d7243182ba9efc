"""Reformer (Kitaev et al. 2020): reversible blocks that attend in chunks (`local`) or by hashes (`lsh`), axial positions.

Hashes are by directions drawn at random. With `hash_seed` both programs draw the same ones, in float64; without, transformers draws anew
at every call, so that two of its own answers differ; here they are the seed's in evaluation and drawn anew in training. transformers drops
attention weights in training, which is left out here.
"""

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from attentif.errors import ConfigError
from attentif.hub.families.bert import ACTIVATIONS
from attentif.hub.family import Family, HeadOf, register
from attentif.hub.heads import DROPOUT, answer_head, bare, classify_head
from attentif.hub.keys import Always, Key
from attentif.hub.rows import Row, Squeezed

LOCAL, LSH = "local", "lsh"
KINDS = {LOCAL: "chunked", LSH: "reformer"}
# keys of every attention, of those in chunks, and of those by hashes: theirs, ours, and what transformers takes where there is none
COMMON = {"num_attention_heads": ("heads", 12), "attention_head_size": ("head_width", 64)}
CHUNKS = {"attn_chunk_length": ("chunk", 64), "num_chunks_before": ("before", 1), "num_chunks_after": ("after", 0)}
UNREAD = {"num_chunks_before": 1, "num_chunks_after": 0, "sinusoidal_pos_embds": False}  # of the first days: no program reads them
NAMES = {"query": "q", "key": "k", "value": "v", "query_key": "qk"}


def period(kinds: list[str]) -> list[str]:
    """The shortest beginning that, over and over again, gives the whole."""
    return next(kinds[:size] for size in range(1, len(kinds) + 1) if all(kind == kinds[n % size] for n, kind in enumerate(kinds)))


def read_mixer(kind: str, config: Mapping[str, Any]) -> dict[str, Any]:
    mixer: dict[str, Any] = {"kind": KINDS[kind], "causal": bool(config.get("is_decoder", False))}
    mixer |= {ours: config.get(theirs, default) for theirs, (ours, default) in COMMON.items()}
    mixer |= {ours: config.get(f"{kind}_{theirs}", default) for theirs, (ours, default) in CHUNKS.items()}
    if mixer["before"] + mixer["after"] > 1:
        raise ConfigError(
            f"{kind}_num_chunks_before and _after: transformers counts a chunk twice in short texts where they make more than 1"
        )
    if kind == LSH:
        seed, buckets = config.get("hash_seed"), config.get("num_buckets")
        if buckets is None:
            raise ConfigError("num_buckets: null makes transformers choose it by the first text that it reads; give a number")
        mixer |= {"rounds": config.get("num_hashes", 1), "seed": seed or 0, "redraw": seed is None}
        mixer["buckets"] = [] if buckets is None else [buckets] if isinstance(buckets, int) else list(buckets)
    return mixer


def write_mixer(kind: str, mixer: Mapping[str, Any]) -> dict[str, Any]:
    keys = {theirs: mixer[ours] for theirs, (ours, _) in COMMON.items()} | {"is_decoder": mixer["causal"]}
    keys |= {f"{kind}_{theirs}": mixer[ours] for theirs, (ours, _) in CHUNKS.items()}
    if kind == LSH:
        buckets = list(mixer["buckets"])
        keys |= {"num_hashes": mixer["rounds"], "hash_seed": None if mixer["redraw"] else mixer["seed"]}
        keys["num_buckets"] = None if not buckets else buckets[0] if len(buckets) == 1 else buckets
    return keys


def older(config: dict[str, Any]) -> dict[str, Any]:
    """Blocks and positions, which their keys describe together, as values of ours."""
    for key, usual in UNREAD.items():
        if (found := config.pop(key, usual)) != usual:
            raise ConfigError(f"{key}: {found!r} is not understood (only {usual!r})")
    kinds = config.pop("attn_layers", [LOCAL, LSH] * 3)
    if odd := set(kinds) - set(KINDS):
        raise ConfigError(f"attn_layers: {min(odd)!r} is not understood (only {', '.join(KINDS)})")
    if len(sizes := {config.get(f"{kind}_attn_chunk_length", 64) for kind in kinds}) > 1:
        raise ConfigError(
            f"local_attn_chunk_length and lsh_attn_chunk_length: transformers fills texts up to a length that both divide; "
            f"only equal ones are understood, not {sizes}"
        )
    ffn = {"hidden": config.pop("feed_forward_size", 512), "activation": ACTIVATIONS.read(config.pop("hidden_act", "relu"))}
    blocks = [
        {
            "repeat": len(list(run)),
            "sublayers": {"attn": {"mixer": read_mixer(kind, config)}, "ffn": {"mixer": {"kind": "feed-forward"} | ffn}},
        }
        for kind, run in groupby(period(list(kinds)))
    ]
    position: dict[str, Any] = {"kind": "learned", "max_len": config.pop("max_position_embeddings", 4096)}
    shape, widths = config.pop("axial_pos_shape", [64, 64]), config.pop("axial_pos_embds_dim", [64, 192])
    if config.pop("axial_pos_embds", True):
        position = {"kind": "axial", "shape": list(shape), "widths": list(widths)}
    return config | {"blocks": blocks, "position": position, "num_hidden_layers": len(kinds)}


def whole(config: dict[str, Any]) -> dict[str, Any]:
    blocks, position = config.pop("blocks"), config.pop("position")
    names = {ours: theirs for theirs, ours in KINDS.items()}
    kinds = []
    for block in blocks:
        attn, ffn = (block["sublayers"][name]["mixer"] for name in ("attn", "ffn"))
        if attn["kind"] not in names:
            raise ConfigError(f"reformer has no place for a mixer {attn['kind']!r}")
        kinds += [names[attn["kind"]]] * block["repeat"]
        config |= write_mixer(kinds[-1], attn) | {"feed_forward_size": ffn["hidden"], "hidden_act": ACTIVATIONS.write(ffn["activation"])}
    config["attn_layers"] = [kinds[number % len(kinds)] for number in range(config["num_hidden_layers"])]
    if axial := position["kind"] == "axial":
        widths = position["widths"] or (config["hidden_size"] // 4, config["hidden_size"] - config["hidden_size"] // 4)
        config |= {"axial_pos_shape": list(position["shape"]), "axial_pos_embds_dim": list(widths)}
    places = position["shape"][0] * position["shape"][1] if axial else position["max_len"]
    return config | {"axial_pos_embds": axial, "max_position_embeddings": places}


def rows(stack: str) -> Iterator[Row]:
    layer, block = "encoder.layers.{i}", f"{stack}.blocks.{{i}}"
    yield Row("embeddings.word_embeddings.weight", "frontend.tokens.weight")
    yield Row("embeddings.position_embeddings.weights.0", "frontend.position.rows.weight", Squeezed(1))
    yield Row("embeddings.position_embeddings.weights.1", "frontend.position.columns.weight", Squeezed(0))
    yield Row("embeddings.position_embeddings.embedding.weight", "frontend.position.table.weight")
    yield Row("encoder.layer_norm.{p}", f"{stack}.norm.{{p}}")
    yield Row(f"{layer}.attention.layer_norm.{{p}}", f"{block}.attn.norm_in.{{p}}")
    for theirs, ours in NAMES.items():
        yield Row(f"{layer}.attention.self_attention.{theirs}.weight", f"{block}.attn.mixer.{ours}.weight")
    yield Row(f"{layer}.attention.output.dense.weight", f"{block}.attn.mixer.out.weight")
    yield Row(f"{layer}.feed_forward.layer_norm.{{p}}", f"{block}.ffn.norm_in.{{p}}")
    yield Row(f"{layer}.feed_forward.dense.dense.{{p}}", f"{block}.ffn.mixer.up.{{p}}")
    yield Row(f"{layer}.feed_forward.output.dense.{{p}}", f"{block}.ffn.mixer.out.{{p}}")


def language(architecture: str, task: str) -> HeadOf:
    """Both halves are scored, so the matrix is not the embedding's; the bias in their files is read by nothing."""
    table = [Row("lm_head.decoder.weight", "head.linear.weight")]
    return HeadOf(architecture, {"kind": "language"}, table, task=task, ignored=("lm_head.bias", "lm_head.decoder.bias"))


def family(stack: str, heads: list[HeadOf], others: tuple[Family, ...] = ()) -> Family:
    return Family(
        kind="reformer",
        template={
            "frontend": {"kind": "tokens"},
            stack: {"placement": "pre", "norm": {"kind": "layer"}, "reversible": True, "halves": "concat"},
        },
        keys=[
            Key("vocab_size", "frontend.vocab"),
            Key("hidden_size", "width"),
            Key("num_hidden_layers", "layers"),
            Key("hidden_dropout_prob", "dropout", 0.05),
            Key("layer_norm_eps", f"{stack}.norm.eps", 1e-12),
            Key("blocks", f"{stack}.blocks"),
            Key("position", "frontend.position"),
            *([Always("is_decoder", True)] if stack == "decoder" else []),
        ],
        body=list(rows(stack)),
        heads=heads,
        prefix="reformer.",
        tied=False,
        like={"local_attention_probs_dropout_prob": 0.0, "lsh_attention_probs_dropout_prob": 0.0},
        harmless=(
            *COMMON, *(f"{kind}_{key}" for kind in KINDS for key in CHUNKS), "num_hashes", "hash_seed", "num_buckets", "axial_norm_std",
            "chunk_size_lm_head", "classifier_dropout", "attention_probs_dropout_prob", "intermediate_size",
        ),
        older=older,
        whole=whole,
        others=others,
    )  # fmt: skip


READING = family(
    "encoder",
    [
        language("ReformerForMaskedLM", "masked"),
        classify_head(
            "ReformerForSequenceClassification",
            {"classifier.dense": "hidden", "classifier.out_proj": "out"},
            (DROPOUT, Key("hidden_size", "head.inner")),
            pool="first",
            hidden=True,
            activation="tanh",
        ),
        answer_head("ReformerForQuestionAnswering"),
        bare("ReformerModel"),
    ],
)
register(family("decoder", [language("ReformerModelWithLMHead", "language")], (READING,)))
