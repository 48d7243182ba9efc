"""Tiny random models of transformers, saved to disk, read as ours, written back and loaded by transformers again: the same numbers.

Two programs that add the same numbers in another order differ in their last digits: by some 1e-5 in float32, where the weights are spread
as widely as here, and not by 1e-10 in float64.
"""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file
from torch.testing import assert_close
from transformers.utils import logging

from attentif.decode import GenerateOptions, generate
from attentif.hub import read_folder, write_folder
from attentif.models import Batch, Input, Model
from attentif.nn.seq import Seq

pytestmark = pytest.mark.parity
logging.disable_progress_bar()

VOCAB, LENGTHS = 97, [5, 17, 1, 11]
CLOSE = {torch.float32: {"rtol": 1e-4, "atol": 3e-5}, torch.float64: {"rtol": 1e-10, "atol": 1e-10}}


@dataclass(frozen=True)
class Case:
    """A class of transformers and the sizes of a small one."""

    architecture: str
    config: str
    sizes: dict[str, Any] = field(default_factory=dict)
    kind: str = "decoder"
    spread: float = 8.0  # of the weights, beside the initial ones
    double: bool = True  # False: the reference works out its angles, or its norms, in float32 whatever it is asked for

    def build(self, folder: Path, dtype: torch.dtype) -> Any:
        torch.manual_seed(0)
        special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
        text = {} if self.kind == "image" else {"vocab_size": VOCAB} | special
        config = getattr(transformers, self.config)(**text | self.sizes)
        model = getattr(transformers, self.architecture)(config).eval().to(dtype)
        learned = [parameter for parameter in model.parameters() if parameter.requires_grad]  # Marian's sinusoids are not
        for parameter in learned:  # an initial model is nearly linear, and its biases are zero
            if parameter.ndim == 1:
                torch.nn.init.normal_(parameter, std=0.3)
            else:
                parameter.data *= self.spread
        model.save_pretrained(folder)
        return model


GPT2 = {"n_positions": 40, "n_embd": 32, "n_layer": 2, "n_head": 4}
LLAMA = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
MAMBA = {"hidden_size": 32, "num_hidden_layers": 2, "tie_word_embeddings": True}
RWKV = {"hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 56, "context_length": 64, "rescale_every": 0}
VIT = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": 12,
    "patch_size": 4,
    "num_channels": 3,
}
BART = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 40,
    "max_position_embeddings": 40,
    "scale_embedding": True,
}
FEW = {"num_experts_per_tok": 2, "head_dim": 8, "norm_topk_prob": True}
NEOX = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0, "partial_rotary_factor": 0.25},
}
GROUPED = {"topk_method": "group_limited_greedy"}
DEEPSEEK = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "first_k_dense_replace": 1,
    "intermediate_size": 40,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "q_lora_rank": 12,
    "kv_lora_rank": 10,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 6,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "n_shared_experts": 2,
}
MARIAN = BART | {"decoder_start_token_id": 0, "activation_function": "swish"}
GEMMA = LLAMA | {
    "num_hidden_layers": 3,
    "head_dim": 12,
    "query_pre_attn_scalar": 10,
    "sliding_window": 6,
    "attn_logit_softcapping": 2.0,
    "final_logit_softcapping": 5.0,
    "attn_implementation": "eager",  # the only one of theirs that caps the scores of attention
}
STRETCHED = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
rotary = partial(Case, double=False)
BERT = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 40,
}
ROBERTA = BERT | {"max_position_embeddings": 42, "type_vocab_size": 1, "layer_norm_eps": 1e-5, "pad_token_id": 1}
DISTILBERT = {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "max_position_embeddings": 40}
T5 = {"d_model": 32, "d_kv": 6, "d_ff": 48, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 4}
FLAN = T5 | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "scale_decoder_outputs": False}


def labels(head: str) -> dict[str, int]:
    return {} if head == "ForQuestionAnswering" else {"num_labels": 3}


encoder = partial(Case, kind="encoder")
CASES = {
    **{
        f"bert {head}": encoder(f"Bert{head}", "BertConfig", BERT | labels(head))
        for head in ("ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "Model")
    },
    **{
        f"roberta {head}": encoder(f"Roberta{head}", "RobertaConfig", ROBERTA | labels(head))
        for head in ("ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "Model")
    },
    "camembert": encoder("CamembertForMaskedLM", "CamembertConfig", ROBERTA),
    "camembert classify": encoder("CamembertForSequenceClassification", "CamembertConfig", ROBERTA),
    **{
        f"electra {head}": encoder(f"Electra{head}", "ElectraConfig", BERT | {"embedding_size": 24, "num_labels": 3})
        for head in ("ForPreTraining", "ForMaskedLM", "ForSequenceClassification", "Model")
    },
    "electra base": encoder("ElectraForMaskedLM", "ElectraConfig", BERT | {"embedding_size": 32}),
    **{
        f"distilbert {head}": encoder(f"DistilBert{head}", "DistilBertConfig", DISTILBERT | labels(head))
        for head in ("ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "Model")
    },
    "t5": Case("T5ForConditionalGeneration", "T5Config", T5, kind="seq2seq", double=False),
    "flan": Case("T5ForConditionalGeneration", "T5Config", FLAN, kind="seq2seq", double=False, spread=3.0),
    "mamba": Case("MambaForCausalLM", "MambaConfig", MAMBA | {"state_size": 8, "time_step_rank": 3, "use_bias": True}, double=False),
    "mamba2": Case(
        "Mamba2ForCausalLM", "Mamba2Config", MAMBA | {"state_size": 16, "num_heads": 8, "head_dim": 8, "n_groups": 2}, double=False
    ),
    "rwkv": Case("RwkvForCausalLM", "RwkvConfig", RWKV, double=False),
    "vit": Case("ViTForImageClassification", "ViTConfig", VIT | {"num_labels": 3}, kind="image"),
    "vit oblong": Case("ViTForImageClassification", "ViTConfig", VIT | {"image_size": [8, 12], "num_channels": 1}, kind="image"),
    "vit bare": Case("ViTModel", "ViTConfig", VIT, kind="image"),
    "longformer": encoder("LongformerForMaskedLM", "LongformerConfig", ROBERTA | {"attention_window": [4, 4]}, double=False),
    "longformer classify": encoder(
        "LongformerForSequenceClassification", "LongformerConfig", ROBERTA | {"attention_window": [4, 4], "num_labels": 3}, double=False
    ),
    "marian": Case("MarianMTModel", "MarianConfig", MARIAN, kind="seq2seq", double=False),
    "bart": Case("BartForConditionalGeneration", "BartConfig", BART, kind="seq2seq"),
    "gpt2": Case("GPT2LMHeadModel", "GPT2Config", GPT2),
    "gpt2 classify": Case("GPT2ForSequenceClassification", "GPT2Config", GPT2 | {"num_labels": 3}),
    "llama": rotary("LlamaForCausalLM", "LlamaConfig", LLAMA),
    "llama 3.1": rotary("LlamaForCausalLM", "LlamaConfig", LLAMA | {"rope_parameters": STRETCHED, "tie_word_embeddings": True}),
    "llama biased": rotary("LlamaForCausalLM", "LlamaConfig", LLAMA | {"attention_bias": True, "mlp_bias": True, "head_dim": 12}),
    "llama classify": rotary("LlamaForSequenceClassification", "LlamaConfig", LLAMA | {"num_labels": 3}),
    "mistral": rotary("MistralForCausalLM", "MistralConfig", LLAMA | {"sliding_window": 6, "head_dim": 8}),
    "qwen2": rotary("Qwen2ForCausalLM", "Qwen2Config", LLAMA),
    "qwen3": rotary("Qwen3ForCausalLM", "Qwen3Config", LLAMA | {"head_dim": 16}),
    "qwen3 moe": rotary("Qwen3MoeForCausalLM", "Qwen3MoeConfig", LLAMA | {"num_experts": 4, "moe_intermediate_size": 24, **FEW}),
    "gpt_neox": rotary("GPTNeoXForCausalLM", "GPTNeoXConfig", NEOX),
    "deepseek v2": rotary("DeepseekV2ForCausalLM", "DeepseekV2Config", DEEPSEEK | {"n_group": 2, "topk_group": 1, **GROUPED}),
    "deepseek v2 lite": rotary("DeepseekV2ForCausalLM", "DeepseekV2Config", DEEPSEEK | {"q_lora_rank": None}),
    "deepseek v3": rotary(
        "DeepseekV3ForCausalLM", "DeepseekV3Config", DEEPSEEK | {"n_group": 2, "topk_group": 1, "num_nextn_predict_layers": 0}
    ),
    "gemma2": rotary("Gemma2ForCausalLM", "Gemma2Config", GEMMA),
    "mixtral": rotary("MixtralForCausalLM", "MixtralConfig", LLAMA | {"num_local_experts": 4, "sliding_window": None, "head_dim": 8}),
}


def ours(model: Model, ids: torch.Tensor, lengths: list[int]) -> torch.Tensor:
    """What our model makes of a batch; an encoder-decoder writes what it reads."""
    given = Input(ids, Seq.padded(lengths))
    return model(Batch(given, given if model.target is not None else None))[0].squeeze(-1)


def known(model: Any, ids: torch.Tensor) -> torch.Tensor:
    """The same of theirs, for rows of one length."""
    found = model(input_ids=ids, decoder_input_ids=ids) if model.config.is_encoder_decoder else model(ids)
    if "start_logits" in found:
        return torch.stack([found.start_logits, found.end_logits], -1)
    return found.logits if "logits" in found else found.last_hidden_state.mean(1)


def tokens() -> torch.Tensor:
    torch.manual_seed(3)
    valid = Seq.padded(LENGTHS).valid
    return torch.randint(3, VOCAB, valid.shape) * valid


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.kind != "image"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@torch.no_grad()
def test_logits_agree_and_come_back(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    case = CASES[name]
    if dtype == torch.float64 and not case.double:
        pytest.skip("transformers works out the angles or the norms of this family in float32")
    theirs = case.build(tmp_path / "theirs", dtype)
    found = read_folder(tmp_path / "theirs", dtype=None)
    ids = tokens()
    ragged = ours(found.model, ids, LENGTHS)
    expected = []
    for row, length in enumerate(LENGTHS):
        alone = ids[row : row + 1, :length]
        expected.append(known(theirs, alone))
        assert_close(ours(found.model, alone, [length]), expected[-1], **CLOSE[dtype])
        own = ragged[row : row + 1, :length] if ragged.shape[1] == ids.shape[1] else ragged[row : row + 1]
        assert_close(own, expected[-1], **CLOSE[dtype])
    write_folder(
        tmp_path / "ours", found.model, family=found.family.kind, architecture=case.architecture, labels=found.labels, special=found.special
    )
    again = reloaded(case, tmp_path, dtype)
    assert_close(known(again, ids[1:2]), expected[1], **CLOSE[dtype])


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.kind == "image"])
@torch.no_grad()
def test_pictures_agree_and_come_back(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    theirs = case.build(tmp_path / "theirs", torch.float64)
    found = read_folder(tmp_path / "theirs", dtype=None)
    pictures = torch.randn(3, *found.model.frontend.shape, dtype=torch.float64)
    expected = theirs(pictures)
    expected = expected.logits if "logits" in expected else expected.last_hidden_state[:, 0]
    mine = found.model(Batch(Input(pictures, Seq.padded([1] * 3))))[0]
    assert_close(mine, expected, **CLOSE[torch.float64])
    write_folder(
        tmp_path / "ours", found.model, family=found.family.kind, architecture=case.architecture, labels=found.labels, special=found.special
    )
    again = reloaded(case, tmp_path, torch.float64)(pictures)
    assert_close(again.logits if "logits" in again else again.last_hidden_state[:, 0], expected, **CLOSE[torch.float64])


def reloaded(case: Case, folder: Path, dtype: torch.dtype) -> Any:
    """What transformers makes of our folder: the same tensors to the bit, none missing, none unknown."""
    again, info = getattr(transformers, case.architecture).from_pretrained(folder / "ours", dtype=dtype, output_loading_info=True)
    unused = {"pooler.dense.weight", "pooler.dense.bias"}  # of a bare encoder, which is pooled by its user
    assert set(info["missing_keys"]) <= unused
    assert not info["unexpected_keys"]
    assert not info["mismatched_keys"]
    files = [load_file(folder / side / "model.safetensors") for side in ("theirs", "ours")]
    assert set(files[0]) - unused == set(files[1])
    assert all(torch.equal(files[0][name], tensor) for name, tensor in files[1].items())
    return again.eval()


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.kind == "decoder" and "classify" not in name])
@torch.no_grad()
def test_decoding_agrees_token_by_token(name: str, tmp_path: Path) -> None:
    theirs = CASES[name].build(tmp_path, torch.float32)
    model = read_folder(tmp_path).model
    ids = tokens()[1:2]
    state, whole = model.init_state(1, ids.shape[1]), theirs(ids).logits
    steps = [model(Batch(Input(ids[:, t : t + 1], Seq.padded([1], start=t))), state)[0] for t in range(ids.shape[1])]
    assert_close(torch.cat(steps, 1), whole, **CLOSE[torch.float32])
    prompt, room = ids[0, :8].tolist(), 64 if "gpt2" not in name else 30
    known = theirs.generate(ids[:, :8], max_new_tokens=room, do_sample=False, eos_token_id=None, pad_token_id=0)[0, 8:].tolist()
    written = generate(model, [prompt], GenerateOptions(max_tokens=room, temperature=0.0))[0]
    assert written.tokens == known
