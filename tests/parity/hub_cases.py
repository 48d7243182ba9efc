"""The families of `test_hub.py`: classes of transformers, each with the sizes of a small one."""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers

VOCAB = 97


@dataclass(frozen=True)
class Case:
    """A class of transformers and the sizes of a small one."""

    architecture: str
    config: str
    sizes: dict[str, Any] = field(default_factory=dict)
    kind: str = "decoder"
    spread: float = 8.0  # of the weights, beside the initial ones
    double: bool = True  # False: the reference works out its angles, or its norms, in float32 whatever it is asked for
    marked: int = 0  # tokens of a question, at the beginning, that a task marks
    single: bool = True  # False: in float32 the reference draws other directions, and a rounding may move a token to another bucket

    @property
    def writes(self) -> bool:
        """Whether it goes on from a text."""
        return self.kind == "decoder" and self.architecture.endswith(("ForCausalLM", "LMHeadModel", "WithLMHead"))

    def build(self, folder: Path, dtype: torch.dtype) -> Any:
        torch.manual_seed(0)
        special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
        text = {} if self.kind in ("image", "pair") else {"vocab_size": VOCAB} | special
        config = getattr(transformers, self.config)(**text | self.sizes)
        model = getattr(transformers, self.architecture)(config).eval().to(dtype)
        learned = [parameter for parameter in model.parameters() if parameter.requires_grad]  # Marian's sinusoids are not
        for name, buffer in model.named_buffers():
            if name.endswith(("running_mean", "running_var")):
                torch.nn.init.uniform_(buffer, 0.5, 2)
        for parameter in learned:  # an initial model is nearly linear, and its biases are zero
            if parameter.ndim == 1 or not parameter.any():
                torch.nn.init.normal_(parameter, std=0.3)
            else:
                parameter.data *= self.spread
        model.save_pretrained(folder)
        return model


GPT2 = {"n_positions": 80, "n_embd": 32, "n_layer": 2, "n_head": 4}
LLAMA = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
MAMBA = {"hidden_size": 32, "num_hidden_layers": 2, "tie_word_embeddings": True}
MAMBA2 = MAMBA | {"state_size": 16, "num_heads": 8, "head_dim": 8, "n_groups": 2}
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
DINO = {key: value for key, value in VIT.items() if key != "intermediate_size"}
BEIT_SHARED = {"use_shared_relative_position_bias": True, "use_absolute_position_embeddings": True, "use_mean_pooling": False}
BART = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 40,
    "max_position_embeddings": 80,
    "scale_embedding": True,
}
FEW = {"num_experts_per_tok": 2, "head_dim": 8, "norm_topk_prob": True}
QWEN_MOE = LLAMA | FEW | {"num_experts": 4, "moe_intermediate_size": 24}
QWEN2_MOE = LLAMA | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 12, "shared_expert_intermediate_size": 24}
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
WHISPER = {
    "num_mel_bins": 20,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 40,
    "max_source_positions": 50,
    "max_target_positions": 80,
    "decoder_start_token_id": 1,
}
CONFORMER = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "hidden_act": "swish",
    "conv_dim": [8, 12, 16],
    "conv_stride": [3, 2, 2],
    "conv_kernel": [5, 3, 2],
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
    "conv_depthwise_kernel_size": 7,
    "classifier_proj_size": 20,
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
GEMMA3 = LLAMA | {
    "num_hidden_layers": 4,
    "head_dim": 12,
    "query_pre_attn_scalar": 10,
    "sliding_window": 6,
    "sliding_window_pattern": 3,
    "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
        "full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 5000.0},
    },
}
STRETCHED = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.5}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 16}
DYNAMIC = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}
LONG = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0, 1.2, 1.5, 2.0], "long_factor": [1.0, 2.0, 4.0, 8.0]}
rotary = partial(Case, double=False)
BERT = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 40,
}
ROBERTA = BERT | {"max_position_embeddings": 42, "type_vocab_size": 1, "layer_norm_eps": 1e-5, "pad_token_id": 1}
WRITES = {"is_decoder": True, "max_position_embeddings": 82}
BIGBIRD = BERT | {"block_size": 2, "num_random_blocks": 1, "rescale_embeddings": True}  # texts of more than 14 are not read whole
ESM = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "token_dropout": False}
ESM |= {"position_embedding_type": "rotary", "emb_layer_norm_before": False, "mask_token_id": 3}
DISTILBERT = {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "max_position_embeddings": 40}
REFORMER = {
    "hidden_size": 32,
    "attn_layers": ["local", "lsh", "lsh", "local", "lsh"],
    "num_attention_heads": 4,
    "attention_head_size": 6,
    "feed_forward_size": 48,
    "axial_pos_shape": [8, 16],
    "axial_pos_embds_dim": [8, 24],
    "local_attn_chunk_length": 4,
    "lsh_attn_chunk_length": 4,
    "num_hashes": 2,
    "num_buckets": [2, 4],
    "hash_seed": 3,
    "use_cache": False,
}
T5 = {"d_model": 32, "d_kv": 6, "d_ff": 48, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 4}
FLAN = T5 | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "scale_decoder_outputs": False}


MBART = BART | {"decoder_start_token_id": 1}
OPT = {
    "hidden_size": 32,
    "word_embed_proj_dim": 32,
    "num_hidden_layers": 2,
    "ffn_dim": 48,
    "num_attention_heads": 4,
    "max_position_embeddings": 80,
}
BLOOM = {"hidden_size": 32, "n_layer": 2, "n_head": 4}
GPTJ = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 80, "rotary_dim": 8}
FALCON = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_hidden_size": 48}
# as many heads as have slopes that bfloat16 rounds
RW = FALCON | {
    "num_attention_heads": 16,
    "alibi": True,
    "parallel_attn": False,
    "multi_query": False,
    "bias": True,
}
MODERN = {
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "local_attention": 8,
    "pad_token_id": 0,
    "cls_token_id": 1,
    "sep_token_id": 2,
}
DEBERTA = BERT | {
    "relative_attention": True,
    "position_buckets": 4,
    "pos_att_type": ["p2c", "c2p"],
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "position_biased_input": False,
    "max_relative_positions": -1,
}
WAV2VEC = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "conv_dim": [8, 12, 16],
    "conv_stride": [3, 2, 2],
    "conv_kernel": [5, 3, 2],
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
    "classifier_proj_size": 20,
}
LARGE = WAV2VEC | {"do_stable_layer_norm": True, "feat_extract_norm": "layer", "conv_bias": True, "num_conv_pos_embeddings": 5}


SINKS = LLAMA | {"head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 6}
CHUNKS = LLAMA | {
    "num_hidden_layers": 5,
    "head_dim": 8,
    "intermediate_size_mlp": 40,
    "num_local_experts": 4,
    "attention_chunk_size": 4,
    "floor_scale": 3,
    "attn_scale": 0.5,
}
JAMBA = LLAMA | {
    "num_hidden_layers": 5,
    "num_experts": 4,
    "attn_layer_period": 3,
    "attn_layer_offset": 1,
    "mamba_d_state": 8,
    "mamba_dt_rank": 3,
}
LED = BART | {"attention_window": 4, "max_encoder_position_embeddings": 80, "max_decoder_position_embeddings": 80}
LED = {key: value for key, value in LED.items() if key not in ("max_position_embeddings", "scale_embedding")}


TOWER = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "hidden_act": "quick_gelu"}
READER = {"max_position_embeddings": 40, "vocab_size": VOCAB + 1, "bos_token_id": 1, "eos_token_id": VOCAB, "pad_token_id": 0} | TOWER
SEER = {"image_size": 12, "patch_size": 4, "num_channels": 3} | TOWER
WIDER = {"hidden_size": 48, "num_hidden_layers": 3, "hidden_act": "gelu"}  # one tower than the other
CLIP = {"text_config": READER, "vision_config": SEER | WIDER, "projection_dim": 20}
SIGLIP = {"text_config": READER | {"projection_size": 48}, "vision_config": SEER | WIDER}


def labels(head: str) -> dict[str, int]:
    return {} if head == "ForQuestionAnswering" else {"num_labels": 3}


def heads(name: str, config: str, sizes: dict[str, Any], which: str, **more: Any) -> dict[str, Case]:
    """Several classes of one family, by the endings of their names."""
    return {f"{name} {head.removeprefix('For')}": Case(f"{name}{head}", config, sizes | labels(head), **more) for head in which.split()}


CLASSIFY, TAG, ANSWER = "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"
encoder = partial(Case, kind="encoder")
CASES = {
    **{
        f"bert {head}": encoder(f"Bert{head}", "BertConfig", BERT | labels(head))
        for head in (
            *("ForMaskedLM", "ForPreTraining", "ForNextSentencePrediction", "ForSequenceClassification"),
            *("ForTokenClassification", "ForQuestionAnswering", "Model"),
        )
    },
    "bert relu": encoder("BertForMaskedLM", "BertConfig", BERT | {"hidden_act": "relu"}),
    **heads("BigBird", "BigBirdConfig", BIGBIRD, f"ForMaskedLM ForPreTraining {CLASSIFY} {TAG} {ANSWER} Model", kind="encoder"),
    "big_bird full": encoder("BigBirdForMaskedLM", "BigBirdConfig", BIGBIRD | {"attention_type": "original_full"}),
    **{
        f"roberta {head}": encoder(f"Roberta{head}", "RobertaConfig", ROBERTA | labels(head))
        for head in ("ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "Model")
    },
    "camembert": encoder("CamembertForMaskedLM", "CamembertConfig", ROBERTA),
    "camembert classify": encoder("CamembertForSequenceClassification", "CamembertConfig", ROBERTA),
    **{
        f"electra {head}": encoder(f"Electra{head}", "ElectraConfig", BERT | {"embedding_size": 24} | labels(head))
        for head in (
            "ForPreTraining",
            "ForMaskedLM",
            "ForSequenceClassification",
            "ForTokenClassification",
            "ForQuestionAnswering",
            "Model",
        )
    },
    "electra base": encoder("ElectraForMaskedLM", "ElectraConfig", BERT | {"embedding_size": 32}),
    **{
        f"distilbert {head}": encoder(f"DistilBert{head}", "DistilBertConfig", DISTILBERT | labels(head))
        for head in ("ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "Model")
    },
    **heads("XLMRoberta", "XLMRobertaConfig", ROBERTA, f"ForMaskedLM {CLASSIFY} {TAG} {ANSWER} Model", kind="encoder"),
    "xlm-roberta writes": Case("XLMRobertaForCausalLM", "XLMRobertaConfig", ROBERTA | WRITES),
    "bert gelu_fast": encoder("BertForMaskedLM", "BertConfig", BERT | {"hidden_act": "gelu_fast"}),
    "phi3": rotary("Phi3ForCausalLM", "Phi3Config", LLAMA),
    "phi3 partial": rotary(
        "Phi3ForCausalLM",
        "Phi3Config",
        LLAMA
        | {
            "rope_parameters": {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5},
            "tie_word_embeddings": True,
            "sliding_window": 6,
        },
    ),
    "phi3 long": rotary(
        "Phi3ForCausalLM", "Phi3Config", LLAMA | {"original_max_position_embeddings": 80, "rope_parameters": LONG | {"factor": 4.0}}
    ),
    **heads("Phi3", "Phi3Config", LLAMA, f"{CLASSIFY} {TAG} Model", double=False),
    "llama dynamic": rotary("LlamaForCausalLM", "LlamaConfig", LLAMA | {"max_position_embeddings": 80, "rope_parameters": DYNAMIC}),
    "llama longrope": rotary(
        "LlamaForCausalLM",
        "LlamaConfig",
        LLAMA | {"max_position_embeddings": 160, "rope_parameters": LONG | {"original_max_position_embeddings": 80}},
    ),
    **{
        f"esm {head}": encoder(f"Esm{head}", "EsmConfig", ESM | labels(head), double=False)
        for head in ("ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "Model")
    },
    "esm hides": encoder("EsmForMaskedLM", "EsmConfig", ESM | {"token_dropout": True, "mask_token_id": 5}, double=False),
    "esm 1b": encoder(
        "EsmForMaskedLM",
        "EsmConfig",
        ESM
        | {"token_dropout": True, "mask_token_id": 5, "position_embedding_type": "absolute", "emb_layer_norm_before": True}
        | {"pad_token_id": 1, "max_position_embeddings": 42},
    ),
    "bert writes": Case("BertLMHeadModel", "BertConfig", BERT | WRITES),
    "big_bird writes": Case("BigBirdForCausalLM", "BigBirdConfig", BIGBIRD | WRITES | {"attention_type": "original_full"}),
    "camembert writes": Case("CamembertForCausalLM", "CamembertConfig", ROBERTA | WRITES),
    "roberta writes": Case("RobertaForCausalLM", "RobertaConfig", ROBERTA | WRITES),
    "electra writes": Case("ElectraForCausalLM", "ElectraConfig", BERT | WRITES | {"embedding_size": 24}),
    "t5": Case("T5ForConditionalGeneration", "T5Config", T5, kind="seq2seq", double=False),
    **heads("T5", "T5Config", T5, f"{CLASSIFY} {ANSWER}", kind="seq2seq", double=False),
    **heads("T5", "T5Config", FLAN, f"{TAG} EncoderModel", kind="encoder", double=False, spread=3.0),
    "mt5": Case(
        "MT5ForConditionalGeneration", "MT5Config", T5 | {"feed_forward_proj": "gated-gelu"}, kind="seq2seq", double=False, spread=3.0
    ),
    **heads("MT5", "MT5Config", T5, f"{CLASSIFY} {ANSWER}", kind="seq2seq", double=False, spread=3.0),
    **heads("MT5", "MT5Config", T5, f"{TAG} EncoderModel", kind="encoder", double=False, spread=3.0),
    "flan": Case("T5ForConditionalGeneration", "T5Config", FLAN, kind="seq2seq", double=False, spread=3.0),
    "mamba": Case("MambaForCausalLM", "MambaConfig", MAMBA | {"state_size": 8, "time_step_rank": 3, "use_bias": True}, double=False),
    "mamba2": Case("Mamba2ForCausalLM", "Mamba2Config", MAMBA2, double=False),
    "mamba2 bare": Case("Mamba2Model", "Mamba2Config", MAMBA2, double=False),
    "rwkv": Case("RwkvForCausalLM", "RwkvConfig", RWKV, double=False),
    "rwkv bare": Case("RwkvModel", "RwkvConfig", RWKV, double=False),
    "mamba bare": Case("MambaModel", "MambaConfig", MAMBA, double=False),
    "vit": Case("ViTForImageClassification", "ViTConfig", VIT | {"num_labels": 3}, kind="image"),
    "vit oblong": Case("ViTForImageClassification", "ViTConfig", VIT | {"image_size": [8, 12], "num_channels": 1}, kind="image"),
    "vit bare": Case("ViTModel", "ViTConfig", VIT, kind="image"),
    "deit": Case("DeiTForImageClassification", "DeiTConfig", VIT | {"num_labels": 3}, kind="image"),
    "deit distilled": Case("DeiTForImageClassificationWithTeacher", "DeiTConfig", VIT | {"num_labels": 3}, kind="image"),
    "deit bare": Case("DeiTModel", "DeiTConfig", VIT, kind="image"),
    "dinov2": Case("Dinov2ForImageClassification", "Dinov2Config", DINO | {"num_labels": 3}, kind="image"),
    "dinov2 gated": Case("Dinov2Model", "Dinov2Config", DINO | {"use_swiglu_ffn": True}, kind="image"),
    "dinov2 registers": Case(
        "Dinov2WithRegistersForImageClassification", "Dinov2WithRegistersConfig", DINO | {"num_labels": 3}, kind="image"
    ),
    "dinov2 registers bare": Case("Dinov2WithRegistersModel", "Dinov2WithRegistersConfig", DINO, kind="image"),
    "beit": Case("BeitForImageClassification", "BeitConfig", VIT | {"num_labels": 3, "use_relative_position_bias": True}, kind="image"),
    "beit bare": Case("BeitModel", "BeitConfig", VIT | BEIT_SHARED, kind="image"),
    "longformer": encoder("LongformerForMaskedLM", "LongformerConfig", ROBERTA | {"attention_window": [4, 4]}, double=False),
    "longformer classify": encoder(
        "LongformerForSequenceClassification", "LongformerConfig", ROBERTA | {"attention_window": [4, 4], "num_labels": 3}, double=False
    ),
    "reformer": Case("ReformerModelWithLMHead", "ReformerConfig", REFORMER | {"is_decoder": True}, single=False),
    **heads("Reformer", "ReformerConfig", REFORMER, f"ForMaskedLM {CLASSIFY} {ANSWER} Model", kind="encoder", single=False),
    "longformer answer": encoder(
        "LongformerForQuestionAnswering", "LongformerConfig", ROBERTA | {"attention_window": [4, 4]}, double=False, marked=3
    ),
    **heads("Longformer", "LongformerConfig", ROBERTA | {"attention_window": [4, 4]}, f"{TAG} Model", kind="encoder", double=False),
    **heads("Camembert", "CamembertConfig", ROBERTA, f"{TAG} {ANSWER} Model", kind="encoder"),
    **heads("Bart", "BartConfig", BART, f"{CLASSIFY} {ANSWER} Model", kind="seq2seq"),
    "marian": Case("MarianMTModel", "MarianConfig", MARIAN, kind="seq2seq", double=False),
    "whisper": Case("WhisperForConditionalGeneration", "WhisperConfig", WHISPER, kind="frames"),
    "whisper classify": Case("WhisperForAudioClassification", "WhisperConfig", WHISPER | {"num_labels": 3}, kind="frames"),
    **heads(
        "Wav2Vec2Conformer",
        "Wav2Vec2ConformerConfig",
        CONFORMER,
        f"ForCTC {CLASSIFY} ForAudioFrameClassification Model",
        kind="waves",
        double=False,
    ),
    "conformer rotary": Case(
        "Wav2Vec2ConformerForCTC",
        "Wav2Vec2ConformerConfig",
        CONFORMER | {"position_embeddings_type": "rotary", "feat_extract_norm": "layer", "conv_bias": True},
        kind="waves",
        double=False,
    ),
    "conformer gelu": Case(
        "Wav2Vec2ConformerForCTC",
        "Wav2Vec2ConformerConfig",
        CONFORMER | {"position_embeddings_type": None, "hidden_act": "gelu"},
        kind="waves",
    ),
    "conformer without places": Case(
        "Wav2Vec2ConformerForCTC", "Wav2Vec2ConformerConfig", CONFORMER | {"position_embeddings_type": None}, kind="waves"
    ),
    "bart": Case("BartForConditionalGeneration", "BartConfig", BART, kind="seq2seq"),
    "gpt2": Case("GPT2LMHeadModel", "GPT2Config", GPT2),
    **heads("GPT2", "GPT2Config", GPT2, f"{CLASSIFY} {TAG} {ANSWER} Model"),
    "llama": rotary("LlamaForCausalLM", "LlamaConfig", LLAMA),
    "llama 3.1": rotary("LlamaForCausalLM", "LlamaConfig", LLAMA | {"rope_parameters": STRETCHED, "tie_word_embeddings": True}),
    "llama linear": rotary("LlamaForCausalLM", "LlamaConfig", LLAMA | {"rope_parameters": LINEAR}),
    "llama yarn": rotary("LlamaForCausalLM", "LlamaConfig", LLAMA | {"rope_parameters": YARN}),
    "llama yarn sharper": rotary("LlamaForCausalLM", "LlamaConfig", LLAMA | {"rope_parameters": YARN | {"attention_factor": 1.5}}),
    "deepseek v3 yarn": rotary(
        "DeepseekV3ForCausalLM",
        "DeepseekV3Config",
        DEEPSEEK | {"n_group": 1, "topk_group": 1, "rope_parameters": YARN | {"mscale": 1.0, "mscale_all_dim": 0.7}},
    ),
    "qwen2 windows": rotary(
        "Qwen2ForCausalLM", "Qwen2Config", LLAMA | {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 0}
    ),
    "qwen2 some windows": rotary(
        "Qwen2ForCausalLM",
        "Qwen2Config",
        LLAMA | {"num_hidden_layers": 3, "use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1},
    ),
    "llama biased": rotary("LlamaForCausalLM", "LlamaConfig", LLAMA | {"attention_bias": True, "mlp_bias": True, "head_dim": 12}),
    **heads("Llama", "LlamaConfig", LLAMA, f"{CLASSIFY} {TAG} {ANSWER} Model", double=False),
    "mistral": rotary("MistralForCausalLM", "MistralConfig", LLAMA | {"sliding_window": 6, "head_dim": 8}),
    **heads("Mistral", "MistralConfig", LLAMA, f"{CLASSIFY} {TAG} {ANSWER} Model", double=False),
    **heads("Qwen2", "Qwen2Config", LLAMA, f"{CLASSIFY} {TAG} {ANSWER} Model", double=False),
    **heads("Qwen3", "Qwen3Config", LLAMA, f"{CLASSIFY} {TAG} {ANSWER} Model", double=False),
    **heads("Qwen3Moe", "Qwen3MoeConfig", QWEN_MOE, f"{CLASSIFY} {TAG} {ANSWER} Model", double=False),
    "qwen2": rotary("Qwen2ForCausalLM", "Qwen2Config", LLAMA),
    "qwen3": rotary("Qwen3ForCausalLM", "Qwen3Config", LLAMA | {"head_dim": 16}),
    "qwen3 moe": rotary("Qwen3MoeForCausalLM", "Qwen3MoeConfig", QWEN_MOE),
    "gpt_neox": rotary("GPTNeoXForCausalLM", "GPTNeoXConfig", NEOX),
    "gpt_neox in order": rotary("GPTNeoXForCausalLM", "GPTNeoXConfig", NEOX | {"use_parallel_residual": False, "attention_bias": False}),
    **heads("GPTNeoX", "GPTNeoXConfig", NEOX, f"{CLASSIFY} {TAG} {ANSWER} Model", double=False),
    "deepseek v2": rotary("DeepseekV2ForCausalLM", "DeepseekV2Config", DEEPSEEK | {"n_group": 2, "topk_group": 1, **GROUPED}),
    "deepseek v2 lite": rotary("DeepseekV2ForCausalLM", "DeepseekV2Config", DEEPSEEK | {"q_lora_rank": None}),
    "deepseek v3": rotary(
        "DeepseekV3ForCausalLM", "DeepseekV3Config", DEEPSEEK | {"n_group": 2, "topk_group": 1, "num_nextn_predict_layers": 0}
    ),
    "gemma": rotary("GemmaForCausalLM", "GemmaConfig", LLAMA | {"head_dim": 12}),
    **heads("Gemma", "GemmaConfig", LLAMA | {"head_dim": 12}, f"{CLASSIFY} {TAG} Model", double=False),
    "gemma2": rotary("Gemma2ForCausalLM", "Gemma2Config", GEMMA),
    **heads("Gemma2", "Gemma2Config", GEMMA, f"{CLASSIFY} {TAG} Model", double=False),
    "gemma3": rotary("Gemma3ForCausalLM", "Gemma3TextConfig", GEMMA3 | {"final_logit_softcapping": 5.0}),
    **heads("Gemma3Text", "Gemma3TextConfig", GEMMA3, f"{CLASSIFY} Model", double=False),
    **heads("DeepseekV2", "DeepseekV2Config", DEEPSEEK, f"{CLASSIFY} Model", double=False),
    **heads("DeepseekV3", "DeepseekV3Config", DEEPSEEK | {"n_group": 2, "topk_group": 1}, f"{CLASSIFY} {TAG} Model", double=False),
    **heads("Mixtral", "MixtralConfig", LLAMA | {"num_local_experts": 4}, f"{CLASSIFY} {TAG} {ANSWER} Model", double=False),
    "mixtral": rotary("MixtralForCausalLM", "MixtralConfig", LLAMA | {"num_local_experts": 4, "sliding_window": None, "head_dim": 8}),
    **heads("MPNet", "MPNetConfig", ROBERTA, f"ForMaskedLM {CLASSIFY} {TAG} {ANSWER} Model", kind="encoder"),
    "mbart": Case("MBartForConditionalGeneration", "MBartConfig", MBART, kind="seq2seq"),
    **heads("MBart", "MBartConfig", MBART, f"{CLASSIFY} {ANSWER} Model", kind="seq2seq"),
    "m2m_100": Case("M2M100ForConditionalGeneration", "M2M100Config", MBART | {"pad_token_id": 1}, kind="seq2seq", double=False),
    "m2m_100 bare": Case("M2M100Model", "M2M100Config", MBART | {"pad_token_id": 1}, kind="seq2seq", double=False),
    "pegasus": Case("PegasusForConditionalGeneration", "PegasusConfig", MBART, kind="seq2seq", double=False),
    "pegasus bare": Case("PegasusModel", "PegasusConfig", MBART, kind="seq2seq", double=False),
    "opt": Case("OPTForCausalLM", "OPTConfig", OPT),
    "opt without biases": Case("OPTForCausalLM", "OPTConfig", OPT | {"enable_bias": False, "activation_function": "gelu"}),
    "opt 350m": Case("OPTForCausalLM", "OPTConfig", OPT | {"word_embed_proj_dim": 24, "do_layer_norm_before": False}),
    "opt narrow": Case("OPTForSequenceClassification", "OPTConfig", OPT | {"word_embed_proj_dim": 24, "num_labels": 3}),
    "opt narrow bare": Case("OPTModel", "OPTConfig", OPT | {"word_embed_proj_dim": 24, "_remove_final_layer_norm": True}),
    **heads("OPT", "OPTConfig", OPT, f"{CLASSIFY} {ANSWER} Model"),
    "bloom": Case("BloomForCausalLM", "BloomConfig", BLOOM, double=False),
    "bloom six heads": Case("BloomForCausalLM", "BloomConfig", BLOOM | {"n_head": 6, "hidden_size": 36}, double=False),
    **heads("Bloom", "BloomConfig", BLOOM, f"{CLASSIFY} {TAG} {ANSWER} Model", double=False),
    "gptj": rotary("GPTJForCausalLM", "GPTJConfig", GPTJ),
    **heads("GPTJ", "GPTJConfig", GPTJ, f"{CLASSIFY} {ANSWER} Model", double=False),
    "falcon": rotary("FalconForCausalLM", "FalconConfig", FALCON),
    "falcon grouped": rotary(
        "FalconForCausalLM", "FalconConfig", FALCON | {"new_decoder_architecture": True, "num_kv_heads": 2, "bias": True}
    ),
    "falcon 11b": rotary(
        "FalconForCausalLM", "FalconConfig", FALCON | {"new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1}
    ),
    "falcon rw": rotary("FalconForCausalLM", "FalconConfig", RW),
    "falcon alibi": rotary("FalconForCausalLM", "FalconConfig", FALCON | {"num_attention_heads": 16, "alibi": True}),
    "falcon rw classify": rotary("FalconForSequenceClassification", "FalconConfig", RW | {"num_labels": 3}),
    **heads("Falcon", "FalconConfig", FALCON | {"multi_query": False}, f"{CLASSIFY} {TAG} {ANSWER} Model", double=False),
    "stablelm": rotary("StableLmForCausalLM", "StableLmConfig", LLAMA | {"use_qkv_bias": True}),
    "stablelm 2 12b": rotary(
        "StableLmForCausalLM", "StableLmConfig", LLAMA | {"qk_layernorm": True, "use_parallel_residual": True, "use_qkv_bias": False}
    ),
    "stablelm norms": rotary("StableLmForSequenceClassification", "StableLmConfig", LLAMA | {"qk_layernorm": True, "num_labels": 3}),
    **heads("StableLm", "StableLmConfig", LLAMA, f"{CLASSIFY} {TAG} Model", double=False),
    "olmo2": rotary("Olmo2ForCausalLM", "Olmo2Config", LLAMA),
    **heads("Olmo2", "Olmo2Config", LLAMA, f"{CLASSIFY} Model", double=False),
    "granite": rotary(
        "GraniteForCausalLM",
        "GraniteConfig",
        LLAMA | {"embedding_multiplier": 3.0, "attention_multiplier": 0.2, "residual_multiplier": 0.4, "logits_scaling": 6.0},
    ),
    "granite bare": rotary("GraniteModel", "GraniteConfig", LLAMA),
    "smollm3": rotary("SmolLM3ForCausalLM", "SmolLM3Config", LLAMA | {"num_hidden_layers": 5}),
    "smollm3 windows": rotary(
        "SmolLM3ForCausalLM",
        "SmolLM3Config",
        LLAMA | {"num_hidden_layers": 3, "no_rope_layer_interval": 2, "use_sliding_window": True, "sliding_window": 6},
    ),
    **heads("SmolLM3", "SmolLM3Config", LLAMA, f"{CLASSIFY} {TAG} {ANSWER} Model", double=False),
    **heads("ModernBert", "ModernBertConfig", MODERN, f"ForMaskedLM {CLASSIFY} {TAG} {ANSWER} Model", kind="encoder", double=False),
    "modernbert biased": encoder(
        "ModernBertForSequenceClassification",
        "ModernBertConfig",
        MODERN
        | {
            "norm_bias": True,
            "attention_bias": True,
            "mlp_bias": True,
            "classifier_bias": True,
            "classifier_pooling": "mean",
            "num_labels": 3,
        },
        double=False,
    ),
    **heads("DebertaV2", "DebertaV2Config", DEBERTA, f"ForMaskedLM {CLASSIFY} {TAG} {ANSWER} Model", kind="encoder", double=False),
    "deberta apart": encoder(
        "DebertaV2ForMaskedLM",
        "DebertaV2Config",
        DEBERTA
        | {"share_att_key": False, "position_buckets": -1, "norm_rel_ebd": "none", "position_biased_input": True, "type_vocab_size": 2}
        | {"max_relative_positions": 9, "pos_att_type": "c2p"},
        double=False,
    ),
    **heads("Wav2Vec2", "Wav2Vec2Config", WAV2VEC, f"ForCTC {CLASSIFY} ForAudioFrameClassification Model", kind="waves"),
    "wav2vec2 large": Case("Wav2Vec2ForCTC", "Wav2Vec2Config", LARGE, kind="waves"),
    **heads("Hubert", "HubertConfig", WAV2VEC, f"ForCTC {CLASSIFY} Model", kind="waves"),
    "hubert large": Case("HubertForCTC", "HubertConfig", LARGE, kind="waves"),
    **heads("Albert", "AlbertConfig", BERT | {"embedding_size": 24}, f"ForMaskedLM {CLASSIFY} {TAG} {ANSWER} Model", kind="encoder"),
    "albert as wide": encoder("AlbertForMaskedLM", "AlbertConfig", BERT | {"embedding_size": 32, "num_hidden_layers": 3}),
    "qwen2 moe": rotary("Qwen2MoeForCausalLM", "Qwen2MoeConfig", QWEN2_MOE),
    **heads("Qwen2Moe", "Qwen2MoeConfig", QWEN2_MOE, f"{CLASSIFY} {TAG} {ANSWER} Model", double=False),
    "gpt_oss": rotary("GptOssForCausalLM", "GptOssConfig", SINKS),
    "gpt_oss full": rotary(
        "GptOssForCausalLM",
        "GptOssConfig",
        SINKS | {"layer_types": ["full_attention"] * 2, "attention_bias": False, "rope_parameters": YARN},
    ),
    **heads("GptOss", "GptOssConfig", SINKS, f"{CLASSIFY} {TAG} Model", double=False),
    "llama4": rotary("Llama4ForCausalLM", "Llama4TextConfig", CHUNKS),
    "llama4 maverick": rotary(
        "Llama4ForCausalLM",
        "Llama4TextConfig",
        CHUNKS | {"interleave_moe_layer_step": 2, "use_qk_norm": False, "attn_temperature_tuning": False, "num_experts_per_tok": 2},
    ),
    "llama4 bare": rotary("Llama4TextModel", "Llama4TextConfig", CHUNKS),
    "jamba": Case("JambaForCausalLM", "JambaConfig", JAMBA, double=False),
    "jamba dense": Case("JambaForCausalLM", "JambaConfig", JAMBA | {"num_experts": 1, "mamba_proj_bias": True}, double=False),
    **heads("Jamba", "JambaConfig", JAMBA, f"{CLASSIFY} Model", double=False),
    "clip": Case("CLIPModel", "CLIPConfig", CLIP, kind="pair"),
    "clip classes": Case("CLIPForImageClassification", "CLIPConfig", CLIP | {"num_labels": 3}, kind="image"),
    "clip texts": Case("CLIPTextModel", "CLIPTextConfig", READER),
    "clip texts projected": Case("CLIPTextModelWithProjection", "CLIPTextConfig", READER | {"projection_dim": 20}),
    "clip pictures": Case("CLIPVisionModel", "CLIPVisionConfig", SEER, kind="image"),
    "clip pictures projected": Case("CLIPVisionModelWithProjection", "CLIPVisionConfig", SEER | {"projection_dim": 20}, kind="image"),
    "siglip": Case("SiglipModel", "SiglipConfig", SIGLIP, kind="pair"),
    "siglip classes": Case("SiglipForImageClassification", "SiglipConfig", SIGLIP | {"num_labels": 3}, kind="image"),
    "siglip texts": Case("SiglipTextModel", "SiglipTextConfig", READER | {"projection_size": 20}),
    "siglip pictures": Case("SiglipVisionModel", "SiglipVisionConfig", SEER, kind="image"),
    "siglip pictures headless": Case("SiglipVisionModel", "SiglipVisionConfig", SEER | {"vision_use_head": False}, kind="image"),
    "led": Case("LEDForConditionalGeneration", "LEDConfig", LED, kind="seq2seq", double=False),
    **heads("LED", "LEDConfig", LED, f"{ANSWER} Model", kind="seq2seq", double=False),
}
