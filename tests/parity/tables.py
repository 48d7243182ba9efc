"""Which tensor of a saved Hugging Face model is which of ours. `{i}` counts the blocks."""

from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import load_file
from torch import Tensor

Table = Mapping[str, str | tuple[str, ...]]  # several names: the tensor holds them side by side

GPT2: Table = {
    "transformer.wte.weight": "frontend.tokens.weight",
    "transformer.wpe.weight": "frontend.position.table.weight",
    "transformer.h.{i}.ln_1.{p}": "decoder.blocks.{i}.attn.norm_in.{p}",
    "transformer.h.{i}.attn.c_attn.{p}": tuple(f"decoder.blocks.{{i}}.attn.mixer.{part}.{{p}}" for part in "qkv"),
    "transformer.h.{i}.attn.c_proj.{p}": "decoder.blocks.{i}.attn.mixer.out.{p}",
    "transformer.h.{i}.ln_2.{p}": "decoder.blocks.{i}.ffn.norm_in.{p}",
    "transformer.h.{i}.mlp.c_fc.{p}": "decoder.blocks.{i}.ffn.mixer.up.{p}",
    "transformer.h.{i}.mlp.c_proj.{p}": "decoder.blocks.{i}.ffn.mixer.out.{p}",
    "transformer.ln_f.{p}": "decoder.norm.{p}",
}
BERT: Table = {
    "bert.embeddings.word_embeddings.weight": "frontend.tokens.weight",
    "bert.embeddings.position_embeddings.weight": "frontend.position.table.weight",
    "bert.embeddings.token_type_embeddings.weight": "frontend.segments.weight",
    "bert.embeddings.LayerNorm.{p}": "frontend.norm.{p}",
    "bert.encoder.layer.{i}.attention.self.query.{p}": "encoder.blocks.{i}.attn.mixer.q.{p}",
    "bert.encoder.layer.{i}.attention.self.key.{p}": "encoder.blocks.{i}.attn.mixer.k.{p}",
    "bert.encoder.layer.{i}.attention.self.value.{p}": "encoder.blocks.{i}.attn.mixer.v.{p}",
    "bert.encoder.layer.{i}.attention.output.dense.{p}": "encoder.blocks.{i}.attn.mixer.out.{p}",
    "bert.encoder.layer.{i}.attention.output.LayerNorm.{p}": "encoder.blocks.{i}.attn.norm_out.{p}",
    "bert.encoder.layer.{i}.intermediate.dense.{p}": "encoder.blocks.{i}.ffn.mixer.up.{p}",
    "bert.encoder.layer.{i}.output.dense.{p}": "encoder.blocks.{i}.ffn.mixer.out.{p}",
    "bert.encoder.layer.{i}.output.LayerNorm.{p}": "encoder.blocks.{i}.ffn.norm_out.{p}",
    "bert.pooler.dense.{p}": "head.hidden.{p}",
    "classifier.{p}": "head.out.{p}",
}
LLAMA: Table = {
    "model.embed_tokens.weight": "frontend.tokens.weight",
    "model.layers.{i}.input_layernorm.weight": "decoder.blocks.{i}.attn.norm_in.weight",
    "model.layers.{i}.self_attn.q_proj.weight": "decoder.blocks.{i}.attn.mixer.q.weight",
    "model.layers.{i}.self_attn.k_proj.weight": "decoder.blocks.{i}.attn.mixer.k.weight",
    "model.layers.{i}.self_attn.v_proj.weight": "decoder.blocks.{i}.attn.mixer.v.weight",
    "model.layers.{i}.self_attn.o_proj.weight": "decoder.blocks.{i}.attn.mixer.out.weight",
    "model.layers.{i}.post_attention_layernorm.weight": "decoder.blocks.{i}.ffn.norm_in.weight",
    "model.layers.{i}.mlp.gate_proj.weight": "decoder.blocks.{i}.ffn.mixer.gate.weight",
    "model.layers.{i}.mlp.up_proj.weight": "decoder.blocks.{i}.ffn.mixer.up.weight",
    "model.layers.{i}.mlp.down_proj.weight": "decoder.blocks.{i}.ffn.mixer.out.weight",
    "model.norm.weight": "decoder.norm.weight",
    "lm_head.weight": "head.linear.weight",
}


def _t5_stack(stack: str, sublayers: Mapping[str, str]) -> Table:
    """`sublayers`: our name of each sublayer, and the class that T5 names it by."""
    rows: dict[str, str | tuple[str, ...]] = {
        f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight": f"{stack}.bias.table.weight",
        f"{stack}.final_layer_norm.weight": f"{stack}.norm.weight",
    }
    for number, (ours, theirs) in enumerate(sublayers.items()):
        layer, mine = f"{stack}.block.{{i}}.layer.{number}", f"{stack}.blocks.{{i}}.{ours}"
        rows[f"{layer}.layer_norm.weight"] = f"{mine}.norm_in.weight"
        parts = {"wi": "up", "wo": "out"} if ours == "ffn" else {"q": "q", "k": "k", "v": "v", "o": "out"}
        rows |= {f"{layer}.{theirs}.{part}.weight": f"{mine}.mixer.{own}.weight" for part, own in parts.items()}
    return rows


T5: Table = {
    "shared.weight": "frontend.tokens.weight",
    **_t5_stack("encoder", {"attn": "SelfAttention", "ffn": "DenseReluDense"}),
    **_t5_stack("decoder", {"attn": "SelfAttention", "cross": "EncDecAttention", "ffn": "DenseReluDense"}),
}


def saved(folder: Path, table: Table, layers: int, *, transposed: bool = False) -> dict[str, Tensor]:
    """Our tensors from a saved model; every tensor of the file must be in the table. `transposed`: GPT-2's (in, out) matrices."""
    theirs = load_file(folder / "model.safetensors")
    ours: dict[str, Tensor] = {}
    for pattern, names in table.items():
        for i in range(layers):
            for p in ("weight", "bias"):
                if (tensor := theirs.pop(pattern.format(i=i, p=p), None)) is None:
                    continue
                if transposed and tensor.ndim == 2 and "wte" not in pattern and "wpe" not in pattern:
                    tensor = tensor.T
                parts = (names,) if isinstance(names, str) else names
                ours |= {name.format(i=i, p=p): part for name, part in zip(parts, tensor.chunk(len(parts)), strict=True)}
    assert not theirs, f"not in the table: {', '.join(theirs)}"
    return ours
