"""Pictures from words: a decoder reads "un sept" and writes the tokens of a picture, patch by patch, from the top left.

    [BOS] un sept gras [PAD] [SEP] t_1 … t_n        P(t_i | words, t_1 … t_{i-1})        t_i the number of a patch in a codebook

The words take as many places in every row, so that each patch has a place of its own (Ramesh et al. 2021, DALL·E, at the size of a digit).
What is asked for are the classes of labelled pictures, in French and in English, and how much ink: "gras", "fin"; "bold", "thin".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field

from attentif.data import DataConfig
from attentif.data.builtin.numbers import english, french
from attentif.data.images import Frame, Pictures, as_shown, data_uri, load_picture_rows, load_pictures
from attentif.data.picture_files import Bytes
from attentif.decode import GenerateOptions, generate
from attentif.errors import ConfigError, DataError, UsageError
from attentif.models import Batch, Input, Model, ModelConfig, eval_mode
from attentif.models.frontends import TokensConfig
from attentif.models.heads import LanguageHeadConfig
from attentif.nn.seq import Seq
from attentif.tasks.answers import Baseline, EvalOptions, Evaluation, Prediction
from attentif.tasks.attention import attention_maps, map_title, readable_tokens
from attentif.tasks.base import TASKS, Example, Inputs, Loss, Prepared, Say, Sizes, Task, TaskState, Tokenizers
from attentif.tasks.batches import as_examples, build_meta, iterate_batches, pick_evenly, say_all
from attentif.tasks.language.language import generate_options
from attentif.tasks.metrics import Interval, mean_interval, share
from attentif.tasks.narrow import narrow
from attentif.tasks.token_loss import scored_logits, token_loss
from attentif.tasks.tokenizers import TokenizerSource, fit_tokenizer
from attentif.tasks.vision.codebook import Codebook
from attentif.tasks.vision.frame import FramedConfig
from attentif.tasks.vision.paint_data import Drawable, ink_of, thirds_of_ink
from attentif.tasks.vision.paint_report import ClassDrawings, PaintDetails, RealPictures, distances, paint_baselines, paint_sections, sheet
from attentif.text import Tokenizer
from attentif.view.blocks import AttentionMaps, Section

SIDE_BY_SIDE = 128  # pictures drawn at once
MOST_WATCHED = 1_000  # pictures whose tokens are scored during training
MOST_COMPARED = 1_000  # real pictures whose distance to the nearest training picture is worked out
SHOWN = 8  # drawings of each class in the report
PROMPTS = {"fr": ("un {it}", "un {it} fin", "un {it} gras"), "en": ("{a} {it}", "a thin {it}", "a bold {it}")}
PLAIN, THIN, BOLD = 0, 1, 2

Language = Literal["fr", "en"]


@TASKS.register
class PaintConfig(FramedConfig):
    """A picture of what words ask for."""

    kind: Literal["paint"] = Field("paint", description="image generation from a text prompt")
    labels: list[str] = Field([], description="classes that can be prompted for; by default those of the training data")
    languages: list[Language] = Field(["fr", "en"], min_length=1, description="languages of the prompts: fr, en")
    patch: int = Field(2, gt=0, description="side in pixels of a patch, which is a token; 1: grey levels of pixels")
    codes: int = Field(128, gt=1, description="size of the codebook")
    words: int = Field(0, ge=0, description="tokens of the prompt, padded; 0: the longest training prompt")
    temperature: float = Field(1.0, gt=0, description="sampling temperature")
    draws: int = Field(40, gt=0, description="pictures of each class sampled for evaluation; a fifth of them during training")

    def build(self) -> "Paint":
        return Paint(self)


@dataclass(frozen=True)
class PaintState(TaskState):
    """What can be asked for, the places that words take, and the codebook of patches."""

    labels: tuple[str, ...]
    words: int
    codebook: Codebook


class Paint(Task[PaintState, Drawable]):
    config: PaintConfig
    state_type = PaintState
    offers = ("paint",)
    metric = "recognised"

    # ------------------------------------------------------------------------------------------------------------- model

    def adapt(self, model: ModelConfig) -> ModelConfig:
        return model if isinstance(model.head, LanguageHeadConfig) else model.with_head(LanguageHeadConfig())

    def check(self, model: ModelConfig) -> None:
        if model.decoder is None or model.encoder is not None or not isinstance(model.frontend, TokensConfig):
            raise ConfigError("model: paint writes a picture's tokens after the words with one stack; use for example paint-tiny")
        if not build_meta(model).caps.causal:
            raise ConfigError("model: paint predicts the next token, and this model would see it; use a causal one, for example paint-tiny")
        self.config.check_frame()

    def migrate_state(self, folder: Path, table: Mapping[str, Any]) -> PaintState:
        return PaintState(tuple(table["labels"]), table["words"], Codebook.load(folder))

    # -------------------------------------------------------------------------------------------------------------- data

    def prepare(
        self, data: DataConfig, text: TokenizerSource, model: ModelConfig, say: Say, state: PaintState | None = None
    ) -> Prepared[PaintState, Drawable]:
        splits = load_pictures(data, self.config.frame(), say)
        notes, config = list(splits.notes), self.config
        for key, pixels in (("height", splits.train.shape[1]), ("width", splits.train.shape[2])):
            if pixels % config.patch:
                raise ConfigError(f"task.patch: patches of {config.patch} pixels do not divide the pictures' {key} of {pixels}")
        labels = tuple(config.labels or splits.labels)
        asked = [prompt for label in labels for prompts in self.prompts(label).values() for prompt in prompts]
        tokenizer = fit_tokenizer(text, "tokenizer", asked, say)
        longest = max(len(ids) for ids in tokenizer.ids_batch(asked, wrap="none")) + 2
        if state is None:
            say(f"fitting a codebook of {config.codes} patches of {config.patch} × {config.patch} pixels")
            state = PaintState(labels, config.words or longest, Codebook.fit(splits.train.pixels, config.patch, config.codes))
        book, real = state.codebook, RealPictures(splits.train)
        lost = np.abs(book.decode(book.encode(splits.valid.pixels)).astype(np.float64) - splits.valid.pixels).mean() / 255
        tokens = book.grid[0] * book.grid[1]
        notes.append(f"a picture is {tokens} tokens of a codebook of {len(book)}; on valid, a pixel is off by {100 * lost:.1f} % of white")
        ink = thirds_of_ink(splits.train)
        train, valid, test = (
            self._drawable(state, part, tokenizer, ink, model, real) for part in (splits.train, splits.valid, splits.test)
        )
        say_all(notes, say)
        sizes = Sizes(tokenizer.vocab + len(book), max_len=state.words + tokens)
        return Prepared(state, train, valid, test, {"tokenizer": tokenizer}, sizes, splits.digest, notes)

    def read(self, state: PaintState, data: DataConfig, tokenizers: Tokenizers, model: ModelConfig, say: Say) -> Drawable:
        pictures, notes = load_picture_rows(data, Frame(*state.codebook.shape, self.config.fit), say)
        say_all(notes, say)
        for row, label in enumerate(pictures.table["label"]):
            if label not in state.labels:
                raise DataError(f"{pictures.place(row)}: the label {label!r} is none of the model's classes")
        return self._drawable(state, pictures, tokenizers["tokenizer"], thirds_of_ink(pictures), model)

    def prompts(self, label: str) -> dict[Language, list[str]]:
        """What asks for a class: plainly, thin, bold. A digit is asked for in words."""
        found: dict[Language, list[str]] = {}
        for language in self.config.languages:
            it = {"fr": french, "en": english}[language](int(label)) if label.isdecimal() and len(label) < 10 else label
            article = "an" if it[:1] in "aeio" and not it.startswith("one") else "a"
            found[language] = [form.format(it=it, a=article) for form in PROMPTS[language]]
        return found

    def _drawable(
        self,
        state: PaintState,
        pictures: Pictures,
        tokenizer: Tokenizer,
        ink: dict[str, tuple[float, float]],
        model: ModelConfig,
        real: RealPictures | None = None,
    ) -> Drawable:
        texts = [prompt for label in state.labels for own in self.prompts(label).values() for prompt in own]
        forms, languages = len(PROMPTS["fr"]), len(self.config.languages)
        first = {label: place * forms * languages for place, label in enumerate(state.labels)}
        rows = []
        for picture, (label, amount) in enumerate(zip(pictures.table["label"], ink_of(pictures.pixels), strict=True)):
            low, high = ink.get(label, (0.0, np.inf))
            fitting = [PLAIN] + ([THIN] if amount < low else []) + ([BOLD] if amount > high else [])
            rows += [(picture, first[label] + language * forms + form) for language in range(languages) for form in fitting]
        tokens = state.codebook.encode(pictures.pixels) + tokenizer.vocab
        prompts = np.array([self._ids(state, tokenizer, text) for text in texts], dtype=np.int64)
        limit = prompts.shape[1] + tokens.shape[1]
        if model.max_len is not None and model.max_len < limit:
            raise ConfigError(f"model.frontend.position: it ends at {model.max_len}, and words and picture take {limit} places")
        return Drawable(pictures, tokens, prompts, np.array(rows, dtype=np.int64), real)

    def _ids(self, state: PaintState, tokenizer: Tokenizer, text: str) -> list[int]:
        """[BOS] words [PAD] … [SEP]: as many places for every text. A word that is unknown as it is written is read in lower case."""
        written, lower = (ids.tolist() for ids in tokenizer.ids_batch([text, text.lower()], wrap="none"))
        ids = [low if own == tokenizer.unk else own for own, low in zip(written, lower, strict=False)]
        if unknown := [word for word, own in zip(text.split(), ids, strict=False) if own == tokenizer.unk]:
            known = ", ".join(repr(forms[form]) for form, forms in enumerate(self.prompts(state.labels[-1]).values()))
            raise UsageError(f"{unknown[0]!r} was never asked for in training; ask for such as {known}")
        room = state.words - 2
        if not 0 < len(ids) <= room:
            raise UsageError(f"{text!r} has {len(ids)} words, and this model reads 1 to {room}")
        return [tokenizer.bos, *ids, *[tokenizer.pad] * (room - len(ids)), tokenizer.sep]

    # ---------------------------------------------------------------------------------------------------- training, scores

    def step(self, model: Model, batch: Batch) -> Loss:
        return Loss(*token_loss(model, batch))

    def score(self, model: Model, state: PaintState, dataset: Drawable, options: EvalOptions) -> Evaluation:
        bits, around = self._bits(model, dataset, options)
        scores = {"bits_per_token": bits}
        if dataset.real is None:  # another file: without the training pictures nothing can be judged
            return Evaluation(scores, {"bits_per_token": around}, len(dataset), {}, dataset.name)
        each = max(1, self.config.draws // 5) if options.quick else self.config.draws
        drawn, wanted = self._draw_classes(model, state, dataset, each)
        found = dataset.real.judge.labels(drawn)
        right = np.array([a == b for a, b in zip(found, wanted, strict=True)])
        recognised, interval = share(int(right.sum()), len(right))
        scores = {"recognised": recognised} | scores
        if options.quick:
            return Evaluation(scores, examples=len(right), split=dataset.name)
        details = self._details(model, state, dataset, dataset.real.pictures, drawn, wanted, right)
        return Evaluation(scores, {"recognised": interval, "bits_per_token": around}, len(right), details, dataset.name)

    def _bits(self, model: Model, dataset: Drawable, options: EvalOptions) -> tuple[float, Interval]:
        """Bits per token of pictures, each with its plain prompt; of some of them if quick. The interval resamples pictures."""
        most = MOST_WATCHED if options.quick else len(dataset)
        plain = np.unique(dataset.rows[:, 0], return_index=True)[1]
        rows = plain[np.unique(np.linspace(0, len(plain) - 1, most).astype(np.int64))] if len(plain) > most else plain
        bits: list[NDArray[np.float64]] = []
        with eval_mode(model):
            for batch in iterate_batches(model, dataset, options, rows):
                logits, labels, _, _ = scored_logits(model, batch)
                nats = F.cross_entropy(logits, labels, reduction="none").double().cpu().numpy()
                bits.append(nats.reshape(len(batch.rows), -1).mean(1) / np.log(2))
        each = np.concatenate(bits)
        return float(each.mean()), mean_interval(each, np.ones(len(each)))

    def _draw_classes(self, model: Model, state: PaintState, dataset: Drawable, each: int, form: int = PLAIN) -> tuple[Bytes, list[str]]:
        """`each` pictures of every class, asked for in the languages in turn; and the classes."""
        forms, languages = len(PROMPTS["fr"]), len(self.config.languages)
        numbers = [(place * languages + count % languages) * forms + form for place in range(len(state.labels)) for count in range(each)]
        options = GenerateOptions(max_tokens=dataset.tokens.shape[1], temperature=self.config.temperature, seed=form)
        pixels = self.draw(model, state.codebook, dataset.prompts[numbers].tolist(), options)
        return pixels, [label for label in state.labels for _ in range(each)]

    def draw(self, model: Model, codebook: Codebook, prompts: Sequence[Sequence[int]], options: GenerateOptions) -> Bytes:
        """(N, C, H, W). A word in a picture's place, which only an untrained model writes, is drawn as the darkest patch."""
        vocab = narrow(narrow(model.config.frontend, TokensConfig).vocab, int)
        first = vocab - len(codebook)  # codes come after the words of the vocabulary
        tokens = []
        for start in range(0, len(prompts), SIDE_BY_SIDE):
            seed = None if options.seed is None else options.seed * 1_000_003 + start
            some = generate(model, prompts[start : start + SIDE_BY_SIDE], options.replace(seed=seed))
            tokens += [answer.tokens for answer in some]
        return codebook.decode(np.maximum(np.array(tokens, dtype=np.int64) - first, 0))

    def _details(
        self,
        model: Model,
        state: PaintState,
        dataset: Drawable,
        train: Pictures,
        drawn: Bytes,
        wanted: list[str],
        right: NDArray[np.bool_],
    ) -> PaintDetails:
        near, nearest = distances(drawn, train.pixels)
        some = pick_evenly(len(dataset.pictures), MOST_COMPARED)
        usual, _ = distances(dataset.pictures.pixels[some], train.pixels)
        by_class: list[ClassDrawings] = []
        for label in state.labels:
            rows = np.flatnonzero(np.array(wanted) == label)
            value, around = share(int(right[rows].sum()), len(rows))
            shown = rows[:SHOWN]
            by_class.append(
                {
                    "label": label,
                    "prompt": next(iter(self.prompts(label).values()))[PLAIN],
                    "recognised": value,
                    "interval": [*around],
                    "examples": len(rows),
                    "drawn": data_uri(sheet([*map(as_shown, drawn[shown])])),
                    "nearest": data_uri(sheet([*map(as_shown, train.pixels[nearest[shown]])])),
                }
            )
        ink = lambda form: float(ink_of(self._draw_classes(model, state, dataset, 8, form)[0]).mean())
        return {
            "by_class": by_class,
            "copying": {
                "drawn": float(np.median(near)),
                "real": float(np.median(usual)),
                "copies": float((near == 0).mean()),
                "closer": float((near < np.quantile(usual, 0.01)).mean()),
            },
            "ink": {"thin": ink(THIN), "plain": float(ink_of(drawn).mean()), "bold": ink(BOLD)},
            "temperature": self.config.temperature,
        }

    def baselines(self, prepared: Prepared[PaintState, Drawable], say: Say) -> list[Baseline]:
        train, test = prepared.train, prepared.test
        assert train.real is not None
        first = int(min(train.tokens.min(), test.tokens.min()))
        known, asked = ((split.pictures, split.tokens - first) for split in (train, test))
        return paint_baselines(known, asked, prepared.state.codebook, train.real.judge, self.config.draws, say)

    def sections(self, evaluation: Evaluation) -> list[Section]:
        return paint_sections(evaluation)

    # ------------------------------------------------------------------------------------------------------------- answers

    def paint(self, model: Model, state: PaintState, tokenizers: Tokenizers, text: str, count: int, **options: Any) -> Bytes:
        """`count` pictures (N, H, W) or (N, H, W, 3) of what the text asks for; the options are those of `GenerateOptions`."""
        tokens = state.codebook.grid[0] * state.codebook.grid[1]
        chosen = generate_options({"temperature": self.config.temperature} | options).replace(max_tokens=tokens)
        prompt = self._ids(state, tokenizers["tokenizer"], text)
        pixels = self.draw(model, state.codebook, [prompt] * count, chosen)
        return np.stack([as_shown(one) for one in pixels])

    def predict(self, model: Model, state: PaintState, tokenizers: Tokenizers, inputs: Inputs, **options: Any) -> list[Prediction]:
        """A picture of each text, as a PNG inside a data URI."""
        texts = [example["text"] for example in as_examples(inputs, "text")]
        return [Prediction(text, data_uri(self.paint(model, state, tokenizers, text, 1, **options)[0])) for text in texts]

    def examples(self, prepared: Prepared[PaintState, Drawable], count: int = 3) -> list[Example]:
        labels = prepared.state.labels
        chosen = [labels[place] for place in pick_evenly(len(labels), count)]
        return [{"text": next(iter(self.prompts(label).values()))[PLAIN]} for label in chosen]

    def maps(self, model: Model, state: PaintState, tokenizers: Tokenizers, inputs: Inputs) -> list[AttentionMaps]:
        """What each patch looks at while it is drawn: the words, and the patches before it."""
        tokenizer, found = tokenizers["tokenizer"], []
        rows, columns = state.codebook.grid
        places = [f"{row}·{column}" for row in range(1, rows + 1) for column in range(1, columns + 1)]
        for example in as_examples(inputs, "text"):
            prompt = self._ids(state, tokenizer, example["text"])
            options = GenerateOptions(max_tokens=len(places), temperature=self.config.temperature, seed=0)
            written = generate(model, [prompt], options)[0].tokens
            batch = Batch(Input(torch.tensor([[*prompt, *written]]), Seq.from_padded([len(prompt) + len(written)])))
            found += attention_maps(model, batch, [*readable_tokens(tokenizer, prompt), *places], title=map_title(example["text"]))
        return found
