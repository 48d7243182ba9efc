"""Small folders of models that hear, made by transformers itself: Whisper, and wav2vec 2.0 with Conformer blocks."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from attentif.data.builtin.tones import dial

SPECIAL = ["<|startoftranscript|>", "<|en|>", "<|fr|>", "<|translate|>", "<|transcribe|>", "<|nospeech|>", "<|notimestamps|>"]
SECONDS = 2  # of a sound; Whisper's are thirty
CHARACTERS = ["<pad>", "<s>", "</s>", "<unk>", "|", *"0123456789", "E", "T", "A"]


def clip(path: Path, number: str = "407", rate: int = 8000) -> Path:
    """A dialled number over a noisy line."""
    soundfile.write(path, dial(number, np.random.default_rng(len(number)), 20.0), rate)
    return path


def spread(model: Any, seed: int = 0) -> Any:
    """Scores far apart: rounding decides nothing."""
    torch.manual_seed(seed)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.25)
    return model.eval()


def whisper(folder: Path, **customs: Any) -> Any:
    """`customs` are more of generation_config.json."""
    rust = Tokenizer(models.BPE())
    rust.pre_tokenizer, rust.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    rust.train_from_iterator(["zéro un deux trois"], trainers.BpeTrainer(vocab_size=280, initial_alphabet=alphabet, show_progress=False))
    made = json.loads(rust.to_str())["model"]
    tokenizer = transformers.WhisperTokenizer(vocab=made["vocab"], merges=[tuple(pair) for pair in made["merges"]])
    tokenizer.add_special_tokens({"additional_special_tokens": SPECIAL})
    ids = {name: tokenizer.convert_tokens_to_ids(name) for name in ("<|endoftext|>", *SPECIAL)}
    end = ids["<|endoftext|>"]
    config = transformers.WhisperConfig(
        vocab_size=len(tokenizer), d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=48, decoder_ffn_dim=48, max_source_positions=50 * SECONDS, max_target_positions=40, pad_token_id=end,
        bos_token_id=end, eos_token_id=end, decoder_start_token_id=ids[SPECIAL[0]],
    )  # fmt: skip
    model = spread(transformers.WhisperForConditionalGeneration(config))
    decoder = model.model.decoder
    torch.nn.init.normal_(decoder.embed_positions.weight, std=1.0)
    for layer in decoder.layers:  # what is heard, and when, counts for more than the last token
        torch.nn.init.normal_(layer.encoder_attn.out_proj.weight, std=2.0)
    letter = lambda token: tokenizer.decode([token]).strip().isascii() and tokenizer.decode([token]).strip().isalpha()
    usual = {
        "lang_to_id": {name: ids[name] for name in ("<|en|>", "<|fr|>")},
        "task_to_id": {task: ids[f"<|{task}|>"] for task in ("transcribe", "translate")},
        "no_timestamps_token_id": ids["<|notimestamps|>"],
        "is_multilingual": True,
        "suppress_tokens": [token for token in range(len(tokenizer)) if token != end and not letter(token)],  # texts can be compared
        "begin_suppress_tokens": [made["vocab"]["a"], made["vocab"]["b"], end],
        "max_length": 20,
    }
    for key, value in (usual | customs).items():
        setattr(model.generation_config, key, value)
    model.generation_config._from_model_config = False  # what is saved so is not read again
    model.save_pretrained(folder)
    extractor = transformers.WhisperFeatureExtractor(feature_size=80, chunk_length=SECONDS)
    transformers.WhisperProcessor(extractor, tokenizer).save_pretrained(folder)
    return model


def conformer(folder: Path, *, normalise: bool = True) -> Any:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps({token: place for place, token in enumerate(CHARACTERS)}))
    tokenizer = transformers.Wav2Vec2CTCTokenizer(str(folder / "vocab.json"), pad_token="<pad>")
    config = transformers.Wav2Vec2ConformerConfig(
        vocab_size=len(CHARACTERS), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, hidden_act="swish",
        conv_dim=[16, 16, 16], conv_kernel=[10, 8, 4], conv_stride=[8, 8, 4], conv_depthwise_kernel_size=5, num_conv_pos_embeddings=4,
        num_conv_pos_embedding_groups=2, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    model = spread(transformers.Wav2Vec2ConformerForCTC(config))
    with torch.no_grad():
        model.lm_head.bias[1:4] = -100.0  # a text that is heard has no <s> and no <unk>
    model.save_pretrained(folder)
    extractor = transformers.Wav2Vec2FeatureExtractor(do_normalize=normalise, return_attention_mask=True)
    transformers.Wav2Vec2Processor(extractor, tokenizer).save_pretrained(folder)
    return model
