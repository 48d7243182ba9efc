"""What published files hold beside their weights: tables and masks that used to be saved, matrices that are shared and saved twice.

transformers passes over all of it when it loads these files, and so do we: the same model is read with it and without.
"""

from pathlib import Path

import pytest
import torch
import transformers
from hub_cases import CASES, VOCAB
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from attentif.errors import ConfigError
from attentif.hub import read_folder
from attentif.models import Batch, Input
from attentif.nn.seq import Seq

pytestmark = pytest.mark.parity

BERT, ROBERTA = "bert.embeddings.word_embeddings.weight", "roberta.embeddings.word_embeddings.weight"
POSITIONS = "encoder.pos_conv_embed.conv"
# names of tensors, and of those that they are copies of
LEFTOVERS: dict[str, dict[str, str | None]] = {
    "bert ForMaskedLM": {
        "bert.embeddings.position_ids": None,
        "bert.pooler.dense.weight": None,
        "bert.pooler.dense.bias": None,
        "cls.seq_relationship.weight": None,
        "cls.seq_relationship.bias": None,
        "cls.predictions.decoder.weight": BERT,
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    "camembert": {
        "roberta.embeddings.position_ids": None,
        "roberta.pooler.dense.weight": None,
        "roberta.pooler.dense.bias": None,
        "lm_head.decoder.weight": ROBERTA,
        "lm_head.decoder.bias": "lm_head.bias",
    },
    "distilbert ForMaskedLM": {"vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight"},
    "electra ForMaskedLM": {
        "electra.embeddings.position_ids": None,
        "generator_lm_head.weight": "electra.embeddings.word_embeddings.weight",
    },
    "longformer": {"longformer.embeddings.position_ids": None, "lm_head.decoder.bias": "lm_head.bias"},
    "gpt2": {"transformer.h.0.attn.bias": None, "transformer.h.1.attn.masked_bias": None, "lm_head.weight": "transformer.wte.weight"},
    "gpt_neox": {
        "gpt_neox.layers.0.attention.bias": None,
        "gpt_neox.layers.0.attention.masked_bias": None,
        "gpt_neox.layers.1.attention.rotary_emb.inv_freq": None,
    },
    "llama": {"model.layers.0.self_attn.rotary_emb.inv_freq": None},
    "llama 3.1": {"lm_head.weight": "model.embed_tokens.weight"},
    "t5": {
        "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight": None,
        "encoder.embed_tokens.weight": "shared.weight",
        "decoder.embed_tokens.weight": "shared.weight",
        "lm_head.weight": "shared.weight",
    },
    "bart": {"model.encoder.version": None, "model.decoder.version": None, "lm_head.weight": "model.shared.weight"},
    "marian": {"lm_head.weight": "model.shared.weight"},
    "m2m_100": {"model.encoder.embed_positions.weights": None, "model.decoder.embed_positions.weights": None},  # which they pass over, too
    "whisper": {"proj_out.weight": "model.decoder.embed_tokens.weight"},
    "conformer rotary": {f"wav2vec2_conformer.{POSITIONS}.weight_g": None, f"wav2vec2_conformer.{POSITIONS}.weight_v": None},
}


@pytest.mark.parametrize("name", LEFTOVERS)
def test_what_is_no_weight_is_passed_over(name: str, tmp_path: Path) -> None:
    case, file = CASES[name], tmp_path / "model.safetensors"
    case.build(tmp_path, torch.float32)
    before = {key: tensor.clone() for key, tensor in read_folder(tmp_path).model.state_dict().items()}  # the file is written anew
    tensors = load_file(file)
    more = {extra: torch.zeros(3) if source is None else tensors[source].clone() for extra, source in LEFTOVERS[name].items()}
    assert more.keys() - tensors.keys()
    save_file(more | tensors, file, {"format": "pt"})
    after = read_folder(tmp_path).model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(tensor, after[key]) for key, tensor in before.items())


@pytest.mark.parametrize("name", ["flan", "gpt2", "llama 3.1"])
@torch.no_grad()
def test_an_output_of_its_own_is_read_where_the_configuration_says_that_it_is_shared(name: str, tmp_path: Path) -> None:
    """FLAN's files, saved by a transformers that always says so: it then takes the file's word, and so do we."""
    case, file = CASES[name], tmp_path / "model.safetensors"
    case.build(tmp_path, torch.float32)
    tensors = load_file(file)
    embedding = next(tensor for tensor in tensors.values() if tensor.shape[0] == VOCAB)
    save_file(tensors | {"lm_head.weight": torch.randn_like(embedding)}, file, {"format": "pt"})
    theirs = getattr(transformers, case.architecture).from_pretrained(tmp_path).eval()
    ids = torch.arange(3, 12)[None]
    given = Input(ids, Seq.from_padded([9]))
    model = read_folder(tmp_path).model
    expected = theirs(input_ids=ids, **({"decoder_input_ids": ids} if case.kind == "seq2seq" else {})).logits
    assert_close(model(Batch(given, given if model.target is not None else None))[0], expected, rtol=1e-4, atol=3e-5)


@pytest.mark.parametrize("name", ["marian", "pegasus"])
def test_tables_of_places_are_the_sinusoids_or_refused(name: str, tmp_path: Path) -> None:
    """transformers reads whatever the file holds; here they are worked out, and a file with others would be read differently."""
    case, file = CASES[name], tmp_path / "model.safetensors"
    theirs = case.build(tmp_path, torch.float32)
    tables = {f"model.{side}.embed_positions.weight": getattr(theirs.model, side).embed_positions.weight for side in ("encoder", "decoder")}
    before, saved = read_folder(tmp_path).model.state_dict(), {key: tensor.clone() for key, tensor in load_file(file).items()}
    for dtype in (torch.float32, torch.bfloat16):
        save_file(saved | {key: table.detach().to(dtype).clone() for key, table in tables.items()}, file, {"format": "pt"})
        after = read_folder(tmp_path).model.state_dict()
        assert all(torch.equal(tensor, after[key]) for key, tensor in before.items())
    save_file(saved | {key: 2 * table.detach() for key, table in tables.items()}, file, {"format": "pt"})
    with pytest.raises(ConfigError, match=r"embed_positions\.weight"):
        read_folder(tmp_path)
