"""Language models that count: n-grams, over the tokens of the neural ones and on their scales."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attentif.data import DataConfig, TokenStream
from attentif.decode import Generated, GenerateOptions, Token
from attentif.decode.generate import collect, write
from attentif.errors import UsageError
from attentif.tasks.attention import readable_tokens
from attentif.tasks.base import Baseline, EvalOptions, Evaluation, Prepared, Say, Sizes, TaskState, Tokenizers, say_all
from attentif.tasks.baselines import MOST_NGRAM_TOKENS, language_baselines
from attentif.tasks.details import details_of
from attentif.tasks.fitted import Examples, FittedData, FittedTask, register_fitted
from attentif.tasks.language.language import generate_options
from attentif.tasks.language.report import Excerpt, LanguageDetails, Sample, language_sections
from attentif.tasks.metrics import bits_per_byte, mean_interval, perplexity
from attentif.tasks.streams import note_unknown, read_stream, read_streams
from attentif.tasks.tokenizers import TokenizerSource
from attentif.text import Tokenizer
from attentif.text.ngram import NGram, NGramConfig, TokenText
from attentif.view.blocks import Cell, Section, TableBlock
from attentif.view.words import IN_TOKENS, Text, Words, count

PIECE = 256  # tokens that are drawn together for an interval: within a passage they are not independent
EXCERPT = 200  # tokens of the text shaded by surprise
SAMPLES, PROMPT, CONTINUATION = 3, 24, 80  # what the report lets it write


class NGramDetails(LanguageDetails):
    ngrams: list[tuple[str, int]]  # distinct n-grams by order
    discounts: list[list[float]]


class NGramWriting:
    """Texts in the middle of being written by n-grams; see `decode.session.Writing`."""

    limit: int | None = None
    device = torch.device("cpu")

    def __init__(self, model: NGram, prompts: Sequence[Sequence[int]]) -> None:
        self.model, self.texts = model, [list(prompt) for prompt in prompts]
        self._look()

    def _look(self) -> None:
        self.logits: Tensor = torch.from_numpy(np.log(np.stack([self.model.next(text) for text in self.texts])))

    def read(self, tokens: Tensor) -> None:
        for text, token in zip(self.texts, tokens.tolist(), strict=True):
            text.append(token)
        self._look()

    def extend(self, tokens: Sequence[int]) -> None:
        self.texts[0] += tokens
        self._look()

    def select(self, rows: Sequence[int]) -> None:
        self.texts = [list(self.texts[row]) for row in rows]
        self._look()


@register_fitted("language")
class NGrams(FittedTask):
    config: NGramConfig
    metric = "bits_per_byte"
    unit = IN_TOKENS
    offers = ("generate", "chat")

    def prepare(self, data: DataConfig, text: TokenizerSource, model: Any, say: Say, state: TaskState | None = None) -> FittedData:
        streams = read_streams(data, text, say)
        notes = [*streams.notes, *note_unknown(streams.test, streams.tokenizer)]
        say_all(notes, say)
        train, valid, test = (_examples(name, getattr(streams, name), streams.tokenizer) for name in ("train", "valid", "test"))
        return Prepared(TaskState(), train, valid, test, {"tokenizer": streams.tokenizer}, Sizes(), streams.digest, notes)

    def read(self, state: TaskState, data: DataConfig, tokenizers: Tokenizers, model: Any, say: Say) -> Examples:
        stream = read_stream(data, tokenizers["tokenizer"], say)
        say_all(note_unknown(stream, tokenizers["tokenizer"]), say)
        return _examples("test", stream, tokenizers["tokenizer"])

    def score(self, model: NGram, state: TaskState, dataset: Examples, options: EvalOptions) -> Evaluation:
        nats = -np.log(model.probabilities(dataset.of.ids))
        starts = np.arange(0, len(nats), PIECE)
        sums, sizes = np.add.reduceat(nats, starts), np.diff([*starts, len(nats)])
        loss, (low, high) = float(nats.mean()), mean_interval(sums, sizes)
        to_bits = bits_per_byte(1.0, dataset.beside) * len(nats)
        scores = {"bits_per_byte": loss * to_bits, "loss": loss, "perplexity": perplexity(loss)}
        intervals = {
            "bits_per_byte": (low * to_bits, high * to_bits),
            "loss": (low, high),
            "perplexity": (perplexity(low), perplexity(high)),
        }
        details: NGramDetails = {
            "tokens": len(nats),
            "bytes": dataset.beside,
            "by_place": [],
            "ngrams": list(model.sizes().items()),
            "discounts": [[round(float(d), 4) for d in level.discounts[1:]] for level in model.levels],
            "excerpt": _excerpt(dataset.of.ids, nats, dataset.tokenizers["tokenizer"]),
            "samples": _samples(model, dataset.of.ids, dataset.tokenizers["tokenizer"]),
        }
        return Evaluation(scores, intervals, len(nats), details, dataset.name)

    def prompt(self, tokenizers: Tokenizers, text: str) -> list[int]:
        tokenizer = tokenizers["tokenizer"]
        return [tokenizer.eos, *tokenizer.ids_batch([text], wrap="none")[0].tolist()]

    def options(self, given: dict[str, Any]) -> GenerateOptions:
        chosen = generate_options(given)
        if chosen.beams > 1:
            raise UsageError("n-grams are sampled, or decoded greedily: beams are for neural models")
        return chosen

    def generate(
        self, model: NGram, tokenizers: Tokenizers, prompt: str, options: GenerateOptions, alternatives: int | None = None
    ) -> Generated:
        return collect(self.stream(model, tokenizers, prompt, options, alternatives), 1, with_text=True)[0]

    def stream(
        self, model: NGram, tokenizers: Tokenizers, prompt: str, options: GenerateOptions, alternatives: int | None = None
    ) -> Iterator[Token]:
        tokenizer, ids = tokenizers["tokenizer"], self.prompt(tokenizers, prompt)
        session = self.session(model, ids, options.max_tokens)
        return write(session, [ids], options, stop_tokens={tokenizer.eos}, decode=tokenizer.decode, alternatives=alternatives)

    def session(self, model: NGram, ids: Sequence[int], room: int) -> NGramWriting:
        return NGramWriting(model, [ids])

    def baselines(self, prepared: FittedData, say: Say) -> list[Baseline]:
        train, test = prepared.train.of, prepared.test.of
        orders = [order for order in (1, 2) if order < self.config.order]
        ids = train.ids[:MOST_NGRAM_TOKENS].astype(np.int64)
        return language_baselines(
            ids, test.ids.astype(np.int64), vocab=train.vocab, end=train.end, text_bytes=prepared.test.beside, say=say, orders=orders
        )

    def sections(self, evaluation: Evaluation) -> list[Section]:
        if (details := details_of(evaluation, NGramDetails)) is None:
            return []
        heads: list[Words] = [Text("n-grammes", "n-grams"), Text("différents", "distinct"), "D(1)", "D(2)", "D(≥ 3)"]
        rows: list[list[Cell]] = [
            [name.replace("-grams", ""), count(number), *discounts]
            for (name, number), discounts in zip(details["ngrams"], details["discounts"], strict=True)
        ]
        caption = Text(
            "Ce qui a été compté, et ce que Kneser-Ney retire à chaque compte pour le donner à ce qui n'a pas été vu.",
            "What was counted, and what Kneser-Ney takes from each count to give to what was not seen.",
        )
        return [
            Section(Text("Ce qui a été compté", "What was counted"), [TableBlock(heads, rows, caption)]),
            *language_sections(evaluation),
        ]


def _examples(name: str, stream: TokenStream, tokenizer: Tokenizer) -> Examples:
    ids = stream.window(0, len(stream))
    return Examples(name, TokenText(ids, tokenizer.vocab, tokenizer.eos), len(stream), {"tokenizer": tokenizer}, stream.text_bytes)


def _excerpt(ids: NDArray[Any], nats: NDArray[np.float64], tokenizer: Tokenizer) -> Excerpt:
    """A piece of the text, and how surprising each token of it is, in bits."""
    start = max(0, len(ids) // 2 - EXCERPT // 2)
    chosen = slice(start, start + EXCERPT)
    tokens = [token.replace("␣", " ").replace("⏎", "⏎\n") for token in readable_tokens(tokenizer, ids[chosen].tolist())]
    return {"tokens": tokens, "bits": [round(value / np.log(2), 3) for value in nats[chosen].tolist()]}


def _samples(model: NGram, ids: NDArray[Any], tokenizer: Tokenizer) -> list[Sample]:
    """Pieces of the split, and what the n-grams write after them."""
    places = np.unique(np.linspace(0, max(len(ids) - PROMPT, 0), SAMPLES + 2).astype(np.int64)[1:-1])
    prompts = [ids[place : place + PROMPT].tolist() for place in places.tolist()]
    options = GenerateOptions(max_tokens=CONTINUATION, temperature=0.8, top_p=0.95, seed=0)
    written = collect(write(NGramWriting(model, prompts), prompts, options, stop_tokens=[tokenizer.eos]), len(prompts), False)
    decode = tokenizer.decode
    return [{"prompt": decode(prompt), "written": decode(found.tokens)} for prompt, found in zip(prompts, written, strict=True)]
