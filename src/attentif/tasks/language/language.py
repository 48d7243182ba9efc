"""Language modelling: the next token, from those before it.

A corpus is one stream of tokens, cut into windows of `context` tokens: every token is predicted exactly once, the first of a window
from the last of the window before. [EOS] ends each document, and stands before the first: a prompt therefore begins with it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field, ValidationError

from attentif.config import problems_of
from attentif.data import DataConfig, TokenStream
from attentif.decode import Generated, GenerateOptions, Token, generate, stream
from attentif.decode.session import Session
from attentif.errors import ConfigError, UsageError
from attentif.models import Batch, Input, Model, ModelConfig, eval_mode
from attentif.models.heads import LanguageHeadConfig
from attentif.nn.seq import Seq
from attentif.nn.state import StateTree
from attentif.tasks.answers import Baseline, EvalOptions, Evaluation, Prediction
from attentif.tasks.attention import attention_maps, map_title, readable_tokens
from attentif.tasks.base import TASKS, Example, Inputs, Loss, Prepared, Say, Sizes, Task, TaskConfig, TaskState, Tokenizers
from attentif.tasks.baselines import MOST_NGRAM_TOKENS, language_baselines
from attentif.tasks.batches import as_examples, build_meta, map_batches, min_limit, pick_evenly, say_all
from attentif.tasks.language.report import Excerpt, LanguageDetails, Sample, language_sections
from attentif.tasks.metrics import Slice, bits_per_byte, mean_interval, perplexity
from attentif.tasks.narrow import labels_of
from attentif.tasks.ragged import UNSCORED, Ints, Rows
from attentif.tasks.streams import note_ends, note_unknown, read_stream, read_streams
from attentif.tasks.token_loss import scored_logits, token_loss
from attentif.tasks.tokenizers import TokenizerSource
from attentif.text import Tokenizer
from attentif.view.blocks import AttentionMaps, Section
from attentif.view.words import IN_TOKENS

SAMPLES = 3  # continuations in the report
PROMPT, CONTINUATION = 24, 80  # their tokens
EXCERPT = 200  # tokens of the text shaded by surprise
SIDE_BY_SIDE = 16  # prompts continued at once: as many as a fused step takes


@TASKS.register
class LanguageConfig(TaskConfig):
    """The next token."""

    kind: Literal["language"] = Field("language", description="language modelling: predict the next token")
    context: int = Field(256, gt=1, description="tokens of a window, at most the model's limit")
    truncate: int | None = Field(
        None,
        gt=0,
        description="tokens that gradients go back through: windows are learned in pieces of so many, the state carried on",
    )
    eval_tokens: int = Field(
        200_000, ge=0, description="validation tokens scored during training (0: all); the whole split is scored at the end"
    )
    prompt: Literal["eos", "frame"] = Field(
        "eos", description="what precedes a text: [EOS], or the special tokens that the tokenizer's own file adds (frame)"
    )
    decode: GenerateOptions | None = Field(None, description="default decoding options; by default greedy")

    def build(self) -> "Language":
        return Language(self)


@dataclass(frozen=True)
class TextWindows:
    """One split, a window a row."""

    name: str
    stream: TokenStream
    tokenizer: Tokenizer
    context: int

    def __len__(self) -> int:
        return -(-len(self.stream) // self.context)

    @cached_property
    def lengths(self) -> Ints:
        sizes = np.full(len(self), self.context, dtype=np.int64)
        sizes[-1] = len(self.stream) - (len(self) - 1) * self.context
        return sizes

    def tokens(self, row: int) -> Ints:
        """A window and the token before it."""
        start, length = row * self.context, int(self.lengths[row])
        if start:
            return self.stream.window(start - 1, length + 1).astype(np.int64)
        return np.concatenate([[self.tokenizer.eos], self.stream.window(0, length)]).astype(np.int64)

    def batch(self, rows: Rows, *, packed: bool = False) -> Batch:
        chosen = np.asarray(rows, dtype=np.int64)
        lengths = self.lengths[chosen]
        own = [self.tokens(row) for row in chosen.tolist()]
        if packed:
            data, labels = (np.concatenate([window[part] for window in own]) for part in (slice(-1), slice(1, None)))
        else:
            data = np.full((len(own), int(lengths.max())), self.tokenizer.pad, dtype=np.int64)
            labels = np.full_like(data, UNSCORED)
            for place, window in enumerate(own):
                data[place, : len(window) - 1], labels[place, : len(window) - 1] = window[:-1], window[1:]
        seq = Seq.from_packed(lengths.tolist()) if packed else Seq.from_padded(lengths.tolist())
        return Batch(Input(torch.from_numpy(data), seq), labels=torch.from_numpy(labels), rows=tuple(chosen.tolist()))

    def place(self, row: int) -> str:
        start = row * self.context
        return f"{self.name}, tokens {start:,} to {start + int(self.lengths[row]):,}"


class Language(Task[TaskState, TextWindows]):
    config: LanguageConfig
    offers = ("generate", "chat")
    metric = "bits_per_byte"
    unit = IN_TOKENS
    begins_texts = True
    scores_by_batch = True
    evaluates_by_block = True

    def count(self, part: TextWindows) -> int:
        return len(part.stream)

    def adapt(self, model: ModelConfig) -> ModelConfig:
        return model if isinstance(model.head, LanguageHeadConfig) else model.with_head(LanguageHeadConfig())

    def check(self, model: ModelConfig) -> None:
        if model.encoder is not None and model.decoder is not None:
            raise ConfigError("model: language reads and writes with one stack, and this one has two; use for example decoder-tiny")
        if not build_meta(model).caps.causal:
            raise ConfigError(
                "model: language predicts the next token, and this model would see it; use a causal one, for example decoder-tiny"
            )
        if self.config.truncate and build_meta(model).caps.streaming != "exact":
            raise ConfigError("task.truncate: pieces are read with a state, and this model's is only approximate")

    def prepare(
        self, data: DataConfig, text: TokenizerSource, model: ModelConfig, say: Say, state: TaskState | None = None
    ) -> Prepared[TaskState, TextWindows]:
        streams = read_streams(data, text, say)
        context = min_limit(self.config.context, model.max_len)
        notes = [*streams.notes, *note_unknown(streams.test, streams.tokenizer)]
        if context < self.config.context:
            notes.append(f"windows of {context} tokens, the longest that the model can read (task.context asks for {self.config.context})")
        tokenizer = streams.tokenizer
        train, valid, test = (TextWindows(name, getattr(streams, name), tokenizer, context) for name in ("train", "valid", "test"))
        say_all(notes, say)
        return Prepared(
            state or TaskState(),
            train,
            valid,
            test,
            {"tokenizer": tokenizer},
            Sizes(tokenizer.vocab, max_len=context),
            streams.digest,
            notes,
        )

    def read(self, state: TaskState, data: DataConfig, tokenizers: Tokenizers, model: ModelConfig, say: Say) -> "TextWindows":
        stream = read_stream(data, tokenizers["tokenizer"], say)
        for note in (*note_ends(stream, tokenizers["tokenizer"]), *note_unknown(stream, tokenizers["tokenizer"])):
            say(note)
        return TextWindows("test", stream, tokenizers["tokenizer"], min_limit(self.config.context, model.max_len))

    def step(self, model: Model, batch: Batch) -> Loss:
        if self.config.truncate is None or batch.source.seq.max_len <= self.config.truncate:
            return Loss(*token_loss(model, batch))
        losses = [token_loss(model, piece, state=state) for piece, state in self._read_pieces(model, batch, self.config.truncate)]
        return Loss(torch.stack([total for total, _ in losses]).sum(), sum(count for _, count in losses))

    def _read_pieces(self, model: Model, batch: Batch, size: int) -> Iterator[tuple[Batch, StateTree]]:
        """Truncated back-propagation through time: pieces of all windows, and the state without its history."""
        source, labels = batch.source, labels_of(batch)
        if source.seq.is_packed:
            raise ConfigError("task.truncate: windows are cut side by side; leave train.packed out")
        lengths = source.seq.lengths
        state = model.init_state(len(lengths), source.seq.max_len)
        for begin in range(0, source.seq.max_len, size):
            part = slice(begin, min(begin + size, source.seq.max_len))
            left = (lengths - begin).clamp(0, part.stop - begin)
            seq = Seq.from_padded(left, part.stop - begin, torch.minimum(lengths, lengths.new_tensor(begin)) if begin else 0)
            yield Batch(Input(source.data[:, part], seq), labels=labels[:, part]), state
            state = state.detach()

    def score(self, model: Model, state: TaskState, dataset: TextWindows, options: EvalOptions) -> Evaluation:
        rows = np.arange(len(dataset))
        if options.quick and 0 < self.config.eval_tokens < len(dataset.stream):
            rows = pick_evenly(len(dataset), max(1, self.config.eval_tokens // dataset.context))
        totals, by_place = self._nats(model, dataset, rows, options)
        counts = dataset.lengths[rows]
        loss = float(totals.sum() / counts.sum())
        # of a part of the text the bytes are not known: it is taken to have as many a token as the whole
        to_bits = bits_per_byte(1.0, dataset.stream.text_bytes) * len(dataset.stream)
        scores = {"bits_per_byte": loss * to_bits, "loss": loss, "perplexity": perplexity(loss)}
        if options.quick:
            return Evaluation(scores, examples=int(counts.sum()), split=dataset.name)
        low, high = mean_interval(totals, counts)
        intervals = {
            "bits_per_byte": (low * to_bits, high * to_bits),
            "loss": (low, high),
            "perplexity": (perplexity(low), perplexity(high)),
        }
        details: LanguageDetails = {
            "tokens": len(dataset.stream),
            "bytes": dataset.stream.text_bytes,
            "by_place": by_place,
            "excerpt": self._excerpt(model, dataset),
            "samples": self._samples(model, dataset),
        }
        return Evaluation(scores, intervals, int(counts.sum()), details, dataset.name)

    def _nats(
        self, model: Model, dataset: TextWindows, rows: Ints, options: EvalOptions
    ) -> tuple[np.ndarray[Any, np.dtype[np.float64]], list[Slice]]:
        """The summed loss of each window, and the mean loss after few and after many tokens of context."""
        totals = torch.zeros(len(dataset), dtype=torch.float64)
        places = torch.zeros(2, dataset.context, dtype=torch.float64)  # sums and counts by place in the window
        with eval_mode(model):
            for own, (nats, of_row, of_place) in map_batches(_batch_nats, model, dataset, options, rows):
                nats, of_place = torch.from_numpy(nats), torch.from_numpy(of_place)
                totals.index_add_(0, torch.tensor(own)[torch.from_numpy(of_row)], nats)
                places[0].index_add_(0, of_place, nats)
                places[1].index_add_(0, of_place, torch.ones_like(nats))
        edges = [0, *(2**power for power in range(2, 20, 2) if 2**power < dataset.context), dataset.context]
        spans = [(low, high, *places[:, low:high].sum(1).tolist()) for low, high in pairwise(edges)]
        by_place: list[Slice] = [
            {"low": low + 1, "high": high, "value": s / n, "interval": [], "examples": int(n)} for low, high, s, n in spans if n
        ]
        return totals.numpy()[rows], by_place

    def _excerpt(self, model: Model, dataset: TextWindows) -> Excerpt:
        """A piece of the text, and how surprised the model is by each token of it, in bits."""
        batch = dataset.batch([len(dataset) // 2])
        with eval_mode(model):
            logits, labels, _, _ = scored_logits(model, batch.to(next(model.parameters()).device))
            bits = (F.cross_entropy(logits, labels, reduction="none") / np.log(2)).tolist()
        tokens = readable_tokens(dataset.tokenizer, labels.tolist()[:EXCERPT])
        return {"tokens": [_space_tokens(token) for token in tokens], "bits": [round(value, 3) for value in bits[:EXCERPT]]}

    def _samples(self, model: Model, dataset: TextWindows) -> list[Sample]:
        """Pieces of the split, and what the model writes after them."""
        if model.caps.streaming == "none":
            return []
        rows = np.unique(np.linspace(0, len(dataset) - 1, SAMPLES + 2).astype(np.int64)[1:-1])
        prompts = [dataset.tokens(row)[:PROMPT].tolist() for row in rows.tolist()]
        options = GenerateOptions(max_tokens=CONTINUATION, temperature=0.8, top_p=0.95, seed=0)
        written = generate(model, prompts, options, stop_tokens=dataset.tokenizer.ends)
        decode = dataset.tokenizer.decode
        return [{"prompt": decode(prompt), "written": decode(found.tokens)} for prompt, found in zip(prompts, written, strict=True)]

    def baselines(self, prepared: Prepared[TaskState, TextWindows], say: Say) -> list[Baseline]:
        train, test = prepared.train, prepared.test
        known = min(len(train.stream), MOST_NGRAM_TOKENS)
        if known < len(train.stream):
            say(f"n-grams are counted in the first {known:,} tokens of {len(train.stream):,}")
        streams = (split.stream.window(0, size).astype(np.int64) for split, size in ((train, known), (test, len(test.stream))))
        vocab = test.tokenizer.vocab
        return language_baselines(*streams, vocab=vocab, end=test.tokenizer.eos, text_bytes=test.stream.text_bytes, say=say)

    def prompt(self, tokenizers: Tokenizers, text: str) -> list[int]:
        """The ids that a continuation of `text` starts from."""
        tokenizer = tokenizers["tokenizer"]
        if self.config.prompt == "frame":
            return tokenizer.ids_batch([text])[0].tolist() or [tokenizer.bos]
        return [tokenizer.eos, *tokenizer.ids_batch([text], wrap="none")[0].tolist()]

    def options(self, given: dict[str, Any]) -> GenerateOptions:
        """Decoding options: those given, over the task's own."""
        return generate_options(given, self.config.decode)

    def generate(
        self, model: Model, tokenizers: Tokenizers, prompt: str, options: GenerateOptions, alternatives: int | None = None
    ) -> Generated:
        """The continuation of a prompt."""
        tokenizer, ids = tokenizers["tokenizer"], [self.prompt(tokenizers, prompt)]
        return generate(model, ids, options, alternatives=alternatives, stop_tokens=tokenizer.ends, decode=tokenizer.decode)[0]

    def stream(
        self, model: Model, tokenizers: Tokenizers, prompt: str, options: GenerateOptions, alternatives: int | None = None
    ) -> Iterator[Token]:
        """Stream the same token by token."""
        tokenizer, ids = tokenizers["tokenizer"], [self.prompt(tokenizers, prompt)]
        return stream(model, ids, options, alternatives=alternatives, stop_tokens=tokenizer.ends, decode=tokenizer.decode)

    def session(self, model: Model, ids: Sequence[int], room: int) -> Session:
        return Session(model, [ids], room)

    def predict(self, model: Model, state: TaskState, tokenizers: Tokenizers, inputs: Inputs, **options: Any) -> list[Prediction]:
        """Continuations; the options are those of `GenerateOptions`."""
        chosen, tokenizer = self.options(options), tokenizers["tokenizer"]
        texts = [example["text"] for example in as_examples(inputs, "text")]
        found: list[Prediction] = []
        for start in range(0, len(texts), SIDE_BY_SIDE):
            some = texts[start : start + SIDE_BY_SIDE]
            prompts = [self.prompt(tokenizers, text) for text in some]
            written = generate(model, prompts, chosen, stop_tokens=tokenizer.ends, decode=tokenizer.decode)
            found += [Prediction(text, answer.text or "") for text, answer in zip(some, written, strict=True)]
        return found

    def sections(self, evaluation: Evaluation) -> list[Section]:
        return language_sections(evaluation)

    def examples(self, prepared: Prepared[TaskState, TextWindows], count: int = 3) -> list[Example]:
        test = prepared.test
        rows = np.linspace(0, len(test) - 1, count + 2).astype(np.int64)[1:-1]
        return [{"text": test.tokenizer.decode(test.tokens(row)[1 : PROMPT + 1])} for row in rows.tolist()]

    def maps(self, model: Model, state: TaskState, tokenizers: Tokenizers, inputs: Inputs) -> list[AttentionMaps]:
        tokenizer = tokenizers["tokenizer"]
        found = []
        for example in as_examples(inputs, "text"):
            ids = self.prompt(tokenizers, example["text"])[: min_limit(self.config.context, model.config.max_len)]
            batch = Batch(Input(torch.tensor([ids]), Seq.from_padded([len(ids)])))
            found += attention_maps(model, batch, readable_tokens(tokenizer, ids), title=map_title(example["text"]))
        return found


DRAWING = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")


def generate_options(options: dict[str, Any], usual: GenerateOptions | None = None) -> GenerateOptions:
    """Options given by name, over the usual ones as far as these go with them; a wrong one is a UsageError."""
    beneath = usual.model_dump(exclude_defaults=True) if usual is not None else {}
    if options.get("beams", 1) > 1 or options.get("temperature") == 0:  # nothing is drawn
        beneath = {key: value for key, value in beneath.items() if key not in DRAWING}
    if options.get("temperature") or any(key in options for key in DRAWING[1:]):
        beneath.pop("beams", None)
    try:
        return GenerateOptions.model_validate(beneath | options)
    except ValidationError as error:
        path, message = problems_of(error, GenerateOptions)[0]
        raise UsageError(": ".join([*map(str, path), message])) from None


def _space_tokens(token: str) -> str:
    """A readable token as running text: spaces are spaces again, line ends are shown and kept."""
    return token.replace("␣", " ").replace("⏎", "⏎\n").replace("⇥", "\t")


def _batch_nats(model: Model, _: TextWindows, batch: Batch) -> tuple[np.ndarray[Any, np.dtype[np.float64]], Ints, Ints]:
    """The loss of each token, its row in the batch and its place in the window."""
    logits, labels, scored, seq = scored_logits(model, batch)
    nats = F.cross_entropy(logits, labels, reduction="none").double().cpu().numpy()
    return nats, seq.row.flatten()[scored].cpu().numpy(), seq.pos.flatten()[scored].cpu().numpy()
