"""The tokenizer classes of transformers as a table: their files, what is made of them, their special tokens."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tokenizers import Tokenizer as Rust
from tokenizers.normalizers import Normalizer

from attentif.hub import pair_tokenizers as pairs
from attentif.hub import slow_tokenizers as slow
from attentif.hub.slow_tokenizers import Source

SPM = "spm.model"
VOCAB_TXT, VOCAB_JSON, MERGES = "vocab.txt", "vocab.json", "merges.txt"
SPIECE, SPM_BPE, LLAMA_MODEL = "spiece.model", "sentencepiece.bpe.model", "tokenizer.model"
Around = tuple[tuple[str, ...], tuple[str, ...]]  # around one text (A) and two (A and B), by part; ":1" marks the second text's


@dataclass(frozen=True)
class Style:
    """One class: its files, what is made of them, its special tokens where no file names them, and what it puts around a text."""

    files: tuple[str, ...]
    make: Callable[[Source, Sequence[Path]], Rust]
    names: Mapping[str, str] = field(default_factory=dict)
    frame: Around | None = None  # None: add_bos_token and add_eos_token decide
    trims: bool = False  # blanks at a token's edges are not counted as its characters (RoBERTa)
    swallows: frozenset[str] = frozenset()  # special tokens that take the blanks before them along: "le <mask>"
    language: str | None = None  # of a text whose files name none (`src_lang`): what "lang" stands for in the frame
    more: tuple[str, ...] = ()  # special tokens that play no part of their own
    before: Callable[[Source], list[Normalizer]] | None = None  # done to a text first, whether or not tokenizer.json says so
    normalised: bool = False  # special tokens are looked for in the text once it is brought to one form


BERT_FRAME: Around = ("cls", "A", "sep"), ("cls", "A", "sep", "B:1", "sep:1")
FAIRSEQ_FRAME: Around = ("bos", "A", "eos"), ("bos", "A", "eos", "eos", "B", "eos")
EOS_FRAME: Around = ("A", "eos"), ("A", "eos", "B", "eos")
ONE_END: Around = ("A", "eos"), ("A", "B", "eos")
LANGUAGE_FIRST: Around = ("lang", "A", "eos"), ("lang", "A", "B", "eos")
WHISPER_FRAME: Around = (
    ("<|startoftranscript|>", "<|notimestamps|>", "A", "eos"),
    ("<|startoftranscript|>", "<|notimestamps|>", "A", "B:1", "eos"),
)

BERT_NAMES = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}
FAIRSEQ_NAMES = {"bos": "<s>", "eos": "</s>", "sep": "</s>", "cls": "<s>", "unk": "<unk>", "pad": "<pad>", "mask": "<mask>"}
GPT_NAMES = dict.fromkeys(("bos", "eos", "unk"), "<|endoftext|>")
CLIP_NAMES = GPT_NAMES | {"bos": "<|startoftext|>", "pad": "<|endoftext|>"}
ALBERT_NAMES = BERT_NAMES | {"bos": "[CLS]", "eos": "[SEP]", "unk": "<unk>", "pad": "<pad>"}
T5_NAMES = {"eos": "</s>", "unk": "<unk>", "pad": "<pad>"}

STYLES: dict[str, Style] = {
    "BertTokenizer": Style((VOCAB_TXT,), slow.wordpiece, BERT_NAMES, BERT_FRAME),
    "GPT2Tokenizer": Style((VOCAB_JSON, MERGES), slow.byte_level, GPT_NAMES),
    "GPTNeoXTokenizer": Style((VOCAB_JSON, MERGES), slow.neox, GPT_NAMES | {"pad": "<|padding|>"}),
    "RobertaTokenizer": Style((VOCAB_JSON, MERGES), slow.byte_level, FAIRSEQ_NAMES, FAIRSEQ_FRAME, trims=True),
    "Qwen2Tokenizer": Style((VOCAB_JSON, MERGES), slow.qwen, dict.fromkeys(("unk", "eos", "pad"), "<|endoftext|>")),
    "WhisperTokenizer": Style((VOCAB_JSON, MERGES), slow.byte_level, GPT_NAMES, WHISPER_FRAME),
    "T5Tokenizer": Style((SPIECE,), slow.t5, T5_NAMES, EOS_FRAME),
    "CamembertTokenizer": Style((SPM_BPE,), slow.camembert, FAIRSEQ_NAMES, FAIRSEQ_FRAME, swallows=frozenset({"mask"})),
    "XLMRobertaTokenizer": Style((SPM_BPE,), slow.xlm_roberta, FAIRSEQ_NAMES, FAIRSEQ_FRAME),
    "BigBirdTokenizer": Style(
        (SPIECE,),
        slow.big_bird,
        FAIRSEQ_NAMES | {"sep": "[SEP]", "mask": "[MASK]", "cls": "[CLS]"},
        BERT_FRAME,
        swallows=frozenset({"mask"}),
        normalised=True,
    ),
    "AlbertTokenizer": Style((SPIECE,), slow.albert, ALBERT_NAMES, BERT_FRAME),
    "DebertaV2Tokenizer": Style((SPM,), slow.deberta, BERT_NAMES | {"bos": "[CLS]", "eos": "[SEP]"}, BERT_FRAME),
    "PegasusTokenizer": Style(
        (SPIECE,),
        slow.pegasus,
        T5_NAMES | {"mask": "<mask_2>"},
        ONE_END,
        more=("<mask_1>", *(f"<unk_{number}>" for number in range(2, 103))),
    ),
    "MBartTokenizer": Style(
        (SPM_BPE,),
        slow.mbart,
        FAIRSEQ_NAMES,
        (("A", "eos", "lang"), ("A", "B", "eos", "lang")),
        swallows=frozenset({"mask"}),
        language="en_XX",
        more=tuple(slow.MBART),
    ),
    "MBart50Tokenizer": Style(
        (SPM_BPE,),
        slow.mbart_50,
        FAIRSEQ_NAMES,
        LANGUAGE_FIRST,
        swallows=frozenset({"mask"}),
        language="en_XX",
        more=tuple(slow.MBART_50),
    ),
    "NllbTokenizer": Style((SPM_BPE,), slow.nllb, FAIRSEQ_NAMES, LANGUAGE_FIRST, swallows=frozenset({"mask"}), language="eng_Latn"),
    "MPNetTokenizer": Style(
        (VOCAB_TXT,), slow.wordpiece, FAIRSEQ_NAMES | {"unk": "[UNK]"}, FAIRSEQ_FRAME, trims=True, swallows=frozenset({"mask"})
    ),
    "LlamaTokenizer": Style((LLAMA_MODEL,), slow.llama, {"unk": "<unk>", "bos": "<s>", "eos": "</s>"}),
    "GemmaTokenizer": Style((LLAMA_MODEL,), slow.gemma, {"unk": "<unk>", "bos": "<bos>", "eos": "<eos>", "pad": "<pad>", "mask": "<mask>"}),
    "ReformerTokenizer": Style((SPIECE,), slow.reformer, {"eos": "</s>", "unk": "<unk>"}),
    "MarianTokenizer": Style(("source.spm", VOCAB_JSON), slow.marian, T5_NAMES, ONE_END),
    "CLIPTokenizer": Style((VOCAB_JSON, MERGES), pairs.clip, CLIP_NAMES, FAIRSEQ_FRAME),
    "SiglipTokenizer": Style((SPIECE,), pairs.siglip, T5_NAMES | {"pad": "</s>"}, EOS_FRAME, before=pairs.canonical),
    "Wav2Vec2CTCTokenizer": Style((VOCAB_JSON,), slow.characters, {"bos": "<s>", "eos": "</s>", "unk": "<unk>", "pad": "<pad>"}),
}

# Other classes that dress a vocabulary the same way, and the class of a model where no file names one.
SAME = {
    "DistilBertTokenizer": "BertTokenizer",
    "ElectraTokenizer": "BertTokenizer",
    "BartTokenizer": "RobertaTokenizer",
    "LongformerTokenizer": "RobertaTokenizer",
    "LEDTokenizer": "RobertaTokenizer",
}
OF_MODEL = {
    **dict.fromkeys(("bert", "distilbert", "electra"), "BertTokenizer"),
    **dict.fromkeys(("roberta", "bart", "longformer", "led"), "RobertaTokenizer"),
    **dict.fromkeys(("gpt_neox", "mamba", "mamba2", "rwkv"), "GPTNeoXTokenizer"),
    **dict.fromkeys(("qwen2", "qwen3", "qwen3_moe"), "Qwen2Tokenizer"),
    **dict.fromkeys(("llama", "mistral", "mixtral", "deepseek_v2", "deepseek_v3"), "LlamaTokenizer"),
    **dict.fromkeys(("gemma", "gemma2", "gemma3", "gemma3_text"), "GemmaTokenizer"),
    **dict.fromkeys(("wav2vec2", "wav2vec2-conformer", "hubert"), "Wav2Vec2CTCTokenizer"),
    **dict.fromkeys(("clip", "clip_text_model"), "CLIPTokenizer"),
    **dict.fromkeys(("siglip", "siglip_text_model"), "SiglipTokenizer"),
    "gpt2": "GPT2Tokenizer",
    "gptj": "GPT2Tokenizer",
    "albert": "AlbertTokenizer",
    "deberta-v2": "DebertaV2Tokenizer",
    "pegasus": "PegasusTokenizer",
    "mbart": "MBartTokenizer",
    "mpnet": "MPNetTokenizer",
    "camembert": "CamembertTokenizer",
    "xlm-roberta": "XLMRobertaTokenizer",
    **dict.fromkeys(("t5", "mt5"), "T5Tokenizer"),
    "marian": "MarianTokenizer",
    "whisper": "WhisperTokenizer",
    "big_bird": "BigBirdTokenizer",
    "reformer": "ReformerTokenizer",
}
