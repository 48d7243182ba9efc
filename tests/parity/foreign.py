"""Small Hugging Face folders, whole: weights, tokenizer, customs. Made by transformers itself."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers.utils import logging

logging.disable_progress_bar()

TEXTS = [
    "Quel film magnifique, vraiment !",
    "Un film ennuyeux et trop long.",
    "The cat sat on the mat.",
    "Il était une fois un roi qui aimait les chats.",
]
ROOM = 40  # tokens of a text
LABELS = {"id2label": {0: "mauvais", 1: "moyen", 2: "très bon"}, "label2id": {"mauvais": 0, "moyen": 1, "très bon": 2}}
TAGS = {"id2label": {0: "O", 1: "B-PER", 2: "I-PER"}, "label2id": {"O": 0, "B-PER": 1, "I-PER": 2}}


def wordpiece() -> Any:
    """BERT's: [CLS] a [SEP] b [SEP], segments."""
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    rust = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    rust.normalizer, rust.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    rust.decoder = decoders.WordPiece()
    rust.train_from_iterator(TEXTS * 20, trainers.WordPieceTrainer(vocab_size=200, special_tokens=names, show_progress=False))
    rust.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    parts = dict(zip(["pad_token", "unk_token", "cls_token", "sep_token", "mask_token"], names, strict=True))
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=rust, **parts, model_max_length=ROOM, model_input_names=["input_ids", "token_type_ids", "attention_mask"]
    )


def bytes_merged(frame: Any = None) -> Any:
    """RoBERTa's names; by default its frame too: <s> a </s></s> b </s>."""
    names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    rust = Tokenizer(models.BPE())
    rust.pre_tokenizer, rust.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=330, special_tokens=names, initial_alphabet=alphabet, show_progress=False)
    rust.train_from_iterator(TEXTS * 20, trainer)
    rust.post_processor = frame or processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    parts = {"bos": "<s>", "eos": "</s>", "pad": "<pad>", "unk": "<unk>", "cls": "<s>", "sep": "</s>", "mask": "<mask>"}
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=rust, **{f"{part}_token": name for part, name in parts.items()}, model_max_length=ROOM
    )


ENDED = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 2)])
BEGUN = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 0)])

SHAPE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
BERT = SHAPE | {"max_position_embeddings": ROOM}
ROBERTA = SHAPE | {"max_position_embeddings": ROOM + 2, "type_vocab_size": 1, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
GPT2 = {"n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "bos_token_id": 0, "eos_token_id": 2}
LLAMA = SHAPE | {"num_key_value_heads": 2, "max_position_embeddings": 64, "bos_token_id": 0, "eos_token_id": [2, 5], "pad_token_id": 1}
STACKS = {f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in {"attention_heads": 4, "ffn_dim": 48}.items()}
BART = STACKS | {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": None,
}
T5 = {
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_heads": 4,
    "pad_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "feed_forward_proj": "gated-gelu",
}
VIT = SHAPE | {"image_size": 32, "patch_size": 8}

Made = tuple[str, dict[str, Any], Callable[[], Any] | None]
FOLDERS: dict[str, Made] = {
    "bert-classes": ("BertForSequenceClassification", BERT | LABELS, wordpiece),
    "bert-masked": ("BertForMaskedLM", BERT, wordpiece),
    "bert-tags": ("BertForTokenClassification", BERT | TAGS, wordpiece),
    "bert-answers": ("BertForQuestionAnswering", BERT, wordpiece),
    "bert-bare": ("BertModel", BERT, wordpiece),
    "roberta-classes": ("RobertaForSequenceClassification", ROBERTA | LABELS, bytes_merged),
    "roberta-several": (
        "RobertaForSequenceClassification",
        ROBERTA | LABELS | {"problem_type": "multi_label_classification"},
        bytes_merged,
    ),
    "roberta-masked": ("RobertaForMaskedLM", ROBERTA, bytes_merged),
    "roberta-answers": ("RobertaForQuestionAnswering", ROBERTA, bytes_merged),
    "camembert-masked": ("CamembertForMaskedLM", ROBERTA, bytes_merged),
    "gpt2": ("GPT2LMHeadModel", GPT2, lambda: bytes_merged(processors.ByteLevel(trim_offsets=False))),
    "gpt2-classes": ("GPT2ForSequenceClassification", GPT2 | LABELS | {"pad_token_id": 1}, lambda: bytes_merged(processors.ByteLevel())),
    "llama": ("LlamaForCausalLM", LLAMA, lambda: bytes_merged(BEGUN)),
    "bart": ("BartForConditionalGeneration", BART, bytes_merged),
    "t5": ("T5ForConditionalGeneration", T5, lambda: bytes_merged(ENDED)),
    "vit": ("ViTForImageClassification", VIT | LABELS, None),
}


def save(name: str, folder: Path) -> Any:
    """One of them, saved; the model itself."""
    architecture, values, vocabulary = FOLDERS[name]
    tokenizer = vocabulary() if vocabulary else None
    kind = getattr(transformers, architecture)
    sizes = {} if tokenizer is None else {"vocab_size": len(tokenizer)}
    torch.manual_seed(0)
    model = kind(kind.config_class(**sizes, **values)).eval()
    for parameter in model.parameters():  # an initial model is nearly linear, and its biases are zero
        torch.nn.init.normal_(parameter, std=0.3) if parameter.ndim == 1 else parameter.data.mul_(6)
    model.save_pretrained(folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
    return model
