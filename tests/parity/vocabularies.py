"""Tiny vocabularies in the file formats of transformers' tokenizers, trained here on a page of text in several scripts."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sentencepiece
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

PAGE = [
    "Le film était très bon, mais l'acteur n'a pas joué comme d'habitude.",
    "Qu'est-ce que c'est ? L’été dernier, j’étais à la plage avec l’oncle d’Éléonore.",
    "The quick brown fox doesn't jump over the lazy dog; it's sleeping, isn't it?",
    "Aujourd'hui, 1 234,56 € et 12/03/2024 : combien ça coûte ?",
    "Œuvres complètes, cœur brisé, naïveté, garçon, où es-tu ? Noël à Gruyères.",
    "مرحبا بالعالم، كيف حالك اليوم؟",
    "你好世界。我喜欢看电影。",
    "こんにちは世界。映画が好きです。",
    "👩‍👩‍👧‍👦 family 👍🏽 ok 🇫🇷 drapeau ❤️ cœur",
    "x = f(a, b) + 3 * [1, 2, 3] # comment\n\treturn x",
]
TRAINING = PAGE * 12

# What breaks tokenizers: each of these was chosen because some tokenizer, somewhere, has done it wrong.
TRICKY = [
    "",
    " ",
    "a",
    "L'été où l’on n'a qu'à s'aimer d'un amour d’été.",
    "\u00e9t\u00e9 et e\u0301te\u0301 : compose\u0301 de\u0301compos\u00e9, \u1e69 s\u0323\u0307 s\u0307\u0323",
    "ŒUVRE œuvre Straße STRASSE İstanbul ıi ﬁn ²³ ½ Ⅳ ①",
    "'straight' ‘curly’ “double” «guillemets» ‹simples› ʼmodifier` ´acute",
    "👩‍👩‍👧‍👦👍🏽🇫🇷❤️ a👩b 🏴‍☠️",
    "مرحبا بالعالم، كيفَ حالُكَ؟ لا ﷲ ١٢٣",
    "你好，世界！我喜欢看电影。中文English混合123",
    "こんにちは世界。カタカナ ｶﾀｶﾅ ﾊﾟﾋﾟ １２３ＡＢＣ",
    "null\0byte bell\a esc\x1b del\x7f nel\x85 zw\u200bsp joiner\u200dx bom\ufeffy soft\u00adhyphen rtl\u202edcba",
    "runs   of    blanks \t\t tabs\n\n\nlines\r\nwindows  \u00a0nbsp\u2003em\u3000wide ",
    "  leading and trailing  ",
    "anticonstitutionnellement" * 12,
    "a" * 250,
    "1234567890 3.14159 1,000,000 12h30 007 -5 +7 1e-10",
    'http://exemple.fr/a?b=c&d=é#f prenom.nom@exemple.fr #tag @moi $x_1 <div class="a">&eacute;</div>',
    "It's I'm we're they've he'll she'd DON'T y'all o'clock rock'n'roll",
    "bad bytes \ufffd here: " + b"caf\xe9 \xff\xfe \xc3 ok \xe2\x82".decode("utf-8", errors="replace"),
    "\U0010fffd\ue000 private 𝒳𝓎 𐍈 가가 ไทย हिन्दी",
    "x<unk>y <s> </s> <pad> [UNK] [MASK] un [SEP]deux<mask> <|endoftext|> fin",
    "▁already▁marked ##pieces Ġbyte Ċ <0x41> <extra_id_0> NOTUSED",
]


@dataclass(frozen=True)
class Folder:
    """How one class keeps its vocabulary: `write` makes the old files, `said` is tokenizer_config.json."""

    model_type: str
    write: Callable[[Path], None]
    said: dict[str, Any] = field(default_factory=dict)
    added: dict[str, Any] = field(default_factory=dict)  # other files, JSON

    def make(self, folder: Path) -> dict[str, Any]:
        """Fill the folder; its config.json."""
        folder.mkdir(parents=True)
        self.write(folder)
        config = {"model_type": self.model_type}
        for name, value in {"config.json": config, "tokenizer_config.json": self.said, **self.added}.items():
            if value:
                (folder / name).write_text(json.dumps(value), encoding="utf-8")
        return config


def wordpiece(*, lowercase: bool = True, special: Sequence[str] = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        rust = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        rust.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
        rust.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        rust.train_from_iterator(TRAINING, trainers.WordPieceTrainer(vocab_size=500, special_tokens=list(special), show_progress=False))
        vocab = rust.get_vocab()
        tokens = [*sorted(vocab, key=vocab.__getitem__), *(f"[unused{number}]" for number in range(500 - len(vocab)))]
        (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens), encoding="utf-8")

    return write


def byte_level(*special: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        trained_bytes(list(special)).model.save(str(folder))

    return write


def trained_bytes(special: list[str]) -> Tokenizer:
    rust = Tokenizer(models.BPE())
    rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    rust.decoder = decoders.ByteLevel()
    rust.post_processor = processors.ByteLevel(trim_offsets=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=500, special_tokens=special, initial_alphabet=alphabet, show_progress=False)
    rust.train_from_iterator(TRAINING, trainer)
    return rust


def ends_of_words(folder: Path) -> None:
    """CLIP's: the last letter of a word is a token of its own."""
    rust = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    rust.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    rust.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    trainer = trainers.BpeTrainer(vocab_size=460, end_of_word_suffix="</w>", show_progress=False)
    rust.train_from_iterator(TRAINING, trainer)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    learned = json.loads(rust.to_str())["model"]
    tokens = dict.fromkeys([*letters, *(f"{letter}</w>" for letter in letters), *learned["vocab"]])
    vocab = {token: number for number, token in enumerate([*tokens, "<|startoftext|>", "<|endoftext|>"])}
    (folder / "vocab.json").write_text(json.dumps(vocab), encoding="utf-8")
    merges = [" ".join(pair) if isinstance(pair, list) else pair for pair in learned["merges"]]
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{pair}\n" for pair in merges), encoding="utf-8")


def sentence_pieces(name: str, **options: Any) -> Callable[[Path], None]:
    usual = {"model_type": "unigram", "vocab_size": 330, "character_coverage": 0.995, "minloglevel": 2, "hard_vocab_limit": False}

    def write(folder: Path) -> None:
        with (folder / name).open("wb") as file:
            sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(TRAINING), model_writer=file, **usual | options)

    return write


def two_languages(folder: Path) -> None:
    """Marian's: a vocabulary of the pieces of both languages, in an order of its own."""
    halves = {"source.spm": TRAINING[::2], "target.spm": TRAINING[1::2]}
    pieces: set[str] = set()
    for name, texts in halves.items():
        with (folder / name).open("wb") as file:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(texts), model_writer=file, vocab_size=260, minloglevel=2, hard_vocab_limit=False
            )
        model = sentencepiece.SentencePieceProcessor(model_file=str(folder / name))
        pieces |= {model.IdToPiece(number) for number in range(model.GetPieceSize())}
    ordered = ["</s>", "<unk>", *sorted(pieces - {"<s>", "</s>", "<unk>"}), "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({piece: number for number, piece in enumerate(ordered)}), encoding="utf-8")


def letters(folder: Path) -> None:
    tokens = ["<pad>", "<s>", "</s>", "<unk>", "|", *"ETAONIHSRDLUMWCFGYPBVK'XJQZÉ"]
    (folder / "vocab.json").write_text(json.dumps({token: number for number, token in enumerate(tokens)}), encoding="utf-8")


LLAMA = {
    "model_type": "bpe",
    "byte_fallback": True,
    "normalization_rule_name": "identity",
    "vocab_size": 560,
    "remove_extra_whitespaces": False,
}
ALBERT = {"pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1, "control_symbols": "[CLS],[SEP],[MASK]"}
DEBERTA = {"pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3, "pad_piece": "[PAD]", "bos_piece": "[CLS]", "eos_piece": "[SEP]"}
DEBERTA |= {"unk_piece": "[UNK]"}
GEMMA = {"pad_id": 0, "eos_id": 1, "bos_id": 2, "unk_id": 3, "eos_piece": "<eos>", "bos_piece": "<bos>"}
WHISPER = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|fr|>", "<|transcribe|>", "<|notimestamps|>"]

FOLDERS = {
    "bert": Folder("bert", wordpiece()),
    "bert-cased": Folder("bert", wordpiece(lowercase=False), {"do_lower_case": False, "tokenizer_class": "BertTokenizer"}),
    "bert-no-chinese": Folder("bert", wordpiece(), {"tokenize_chinese_chars": False, "strip_accents": False}),
    "electra": Folder("electra", wordpiece(), {"tokenizer_class": "ElectraTokenizer"}),
    "distilbert": Folder("distilbert", wordpiece(), added={"added_tokens.json": {"[NEW]": 500, "neuf": 501}}),
    "gpt2": Folder("gpt2", byte_level("<|endoftext|>")),
    "gpt2-bos": Folder("gpt2", byte_level("<|endoftext|>"), {"add_bos_token": True, "pad_token": "<|endoftext|>"}),
    "roberta": Folder("roberta", byte_level("<s>", "<pad>", "</s>", "<unk>", "<mask>")),
    "bart": Folder("bart", byte_level("<s>", "<pad>", "</s>", "<unk>", "<mask>"), {"add_prefix_space": True, "trim_offsets": False}),
    "roberta-mask": Folder(
        "roberta",
        byte_level("<s>", "<pad>", "</s>", "<unk>", "<mask>"),
        added={"special_tokens_map.json": {"mask_token": {"content": "<mask>", "lstrip": True, "rstrip": False, "normalized": False}}},
    ),
    "qwen2": Folder(
        "qwen2", byte_level("<|endoftext|>"), {"additional_special_tokens": ["<|im_start|>", "<|im_end|>"], "eos_token": "<|im_end|>"}
    ),
    "whisper": Folder("whisper", byte_level(*WHISPER), {"additional_special_tokens": WHISPER}),
    "t5": Folder("t5", sentence_pieces("spiece.model", pad_id=0, eos_id=1, unk_id=2, bos_id=-1)),
    "t5-few": Folder("t5", sentence_pieces("spiece.model", pad_id=0, eos_id=1, unk_id=2, bos_id=-1), {"extra_ids": 7}),
    "camembert": Folder("camembert", sentence_pieces("sentencepiece.bpe.model")),
    "xlm-roberta": Folder("bert", sentence_pieces("sentencepiece.bpe.model"), {"tokenizer_class": "XLMRobertaTokenizer"}),
    "big_bird": Folder(
        "big_bird", sentence_pieces("spiece.model", pad_id=0, eos_id=1, bos_id=2, unk_id=3, control_symbols="[CLS],[SEP],[MASK]")
    ),
    "llama": Folder("llama", sentence_pieces("tokenizer.model", **LLAMA), {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True}),
    "llama-legacy": Folder(
        "llama",
        sentence_pieces("tokenizer.model", **LLAMA),
        {"tokenizer_class": "LlamaTokenizer", "legacy": True, "add_bos_token": True, "add_eos_token": True},
    ),
    "mistral-no-blank": Folder(
        "llama", sentence_pieces("tokenizer.model", **LLAMA), {"tokenizer_class": "LlamaTokenizer", "add_prefix_space": False}
    ),
    "gemma2": Folder(
        "gemma2",
        sentence_pieces(
            "tokenizer.model", **LLAMA, **GEMMA, user_defined_symbols="<mask>,<start_of_turn>,<end_of_turn>", add_dummy_prefix=False
        ),
        {"add_bos_token": True},
    ),
    "reformer": Folder("reformer", sentence_pieces("spiece.model", model_type="bpe")),
    "albert": Folder("albert", sentence_pieces("spiece.model", **ALBERT)),
    "albert-accents": Folder("albert", sentence_pieces("spiece.model", **ALBERT), {"keep_accents": True, "do_lower_case": False}),
    "deberta": Folder("deberta-v2", sentence_pieces("spm.model", **DEBERTA)),
    "deberta-lower": Folder("deberta-v2", sentence_pieces("spm.model", **DEBERTA), {"do_lower_case": True, "split_by_punct": True}),
    "pegasus": Folder("pegasus", sentence_pieces("spiece.model", pad_id=0, eos_id=1, unk_id=2, bos_id=-1)),
    "mbart": Folder("mbart", sentence_pieces("sentencepiece.bpe.model")),
    "mbart-french": Folder("mbart", sentence_pieces("sentencepiece.bpe.model"), {"src_lang": "fr_XX"}),
    "mbart50": Folder("mbart", sentence_pieces("sentencepiece.bpe.model"), {"tokenizer_class": "MBart50Tokenizer", "src_lang": "fr_XX"}),
    "nllb": Folder(
        "m2m_100",
        sentence_pieces("sentencepiece.bpe.model", model_type="bpe"),
        {"tokenizer_class": "NllbTokenizer", "additional_special_tokens": ["eng_Latn", "fra_Latn"], "src_lang": "fra_Latn"},
    ),
    "mpnet": Folder("mpnet", wordpiece(special=["<s>", "<pad>", "</s>", "[UNK]", "<mask>"])),
    "neox": Folder("gpt_neox", byte_level("<|endoftext|>", "<|padding|>")),
    "neox-bos": Folder("gpt_neox", byte_level("<|endoftext|>", "<|padding|>"), {"add_bos_token": True, "add_eos_token": True}),
    "marian": Folder("marian", two_languages),
    "clip": Folder("clip", ends_of_words),
    "siglip": Folder(
        "siglip", sentence_pieces("spiece.model", pad_id=-1, eos_id=1, unk_id=2, bos_id=-1), {"tokenizer_class": "SiglipTokenizer"}
    ),
    "wav2vec2": Folder("wav2vec2-conformer", letters),
}
