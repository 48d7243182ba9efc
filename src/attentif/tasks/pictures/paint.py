"""Pictures from words: a decoder reads "un sept" and writes the tokens of a picture, patch by patch, from the top left.

    [BOS] un sept gras [PAD] [SEP] t_1 … t_n        P(t_i | words, t_1 … t_{i-1})        t_i the number of a patch in a codebook

The words take as many places in every row, so that each patch has a place of its own (Ramesh et al. 2021, DALL·E, at the size of a digit).
What is asked for are the classes of labelled pictures, in French and in English, and how much ink: "gras", "fin"; "bold", "thin".
"""

from collections.abc import Sequence
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
from attentif.models import Batch, Input, Model, ModelConfig, evaluating
from attentif.models.frontends import TokensConfig
from attentif.models.heads import LanguageHeadConfig
from attentif.nn.seq import Seq
from attentif.tasks.feed import as_examples, each_batch, fitted, on_paper
from attentif.tasks.language.language import generate_options
from attentif.tasks.looking import attention_maps, shown_tokens
from attentif.tasks.metrics import Interval, mean_interval, share
from attentif.tasks.pictures.codebook import Codebook
from attentif.tasks.pictures.framed import FramedConfig
from attentif.tasks.pictures.paint_data import Drawable, ink_of, thirds_of_ink
from attentif.tasks.pictures.paint_report import Judge, distances, drawn_baselines, drawn_sections, sheet
from attentif.tasks.task import (
    TASKS,
    Baseline,
    Dataset,
    Evaluation,
    Example,
    Loss,
    Prediction,
    Prepared,
    Progress,
    Say,
    Sizes,
    Task,
    Tokenizers,
)
from attentif.tasks.tokens import scored_logits, token_loss
from attentif.text import Tokenizer, TokenizerConfig
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

    kind: Literal["paint"] = Field("paint", description="a picture of what words ask for")
    labels: list[str] = Field([], description="what can be asked for; by default the classes of the training data")
    languages: list[Language] = Field(["fr", "en"], min_length=1, description="what it is asked for in: fr, en")
    patch: int = Field(2, gt=0, description="side of a patch in pixels, each of which is a token; 1: pixels, by their grey level")
    codes: int = Field(128, gt=1, description="patches of the codebook")
    words: int = Field(0, ge=0, description="places that the words take, the same in every row; 0: by the longest that training has")
    temperature: float = Field(1.0, gt=0, description="how freely the report's pictures are drawn")
    draws: int = Field(40, gt=0, description="pictures of each class drawn to be judged; a fifth of them during training")

    def build(self) -> "Paint":
        return Paint(self)


class Paint(Task):
    config: PaintConfig
    offers = ("paint",)
    metric = "recognised"

    def __init__(self, config: PaintConfig) -> None:
        super().__init__(config)
        self.codebook: Codebook | None = None
        self.train: Pictures | None = None  # the real pictures that drawings are compared with
        self.judge: Judge | None = None

    # ------------------------------------------------------------------------------------------------------------- model

    def adapt(self, model: ModelConfig) -> ModelConfig:
        return model if isinstance(model.head, LanguageHeadConfig) else model.with_head(LanguageHeadConfig())

    def check(self, model: ModelConfig) -> None:
        if model.decoder is None or model.encoder is not None or not isinstance(model.frontend, TokensConfig):
            raise ConfigError("model: paint writes a picture's tokens after the words with one stack; take paint-tiny, say")
        if not on_paper(model).caps.causal:
            raise ConfigError("model: paint predicts the next token, and this model would see it; take a causal one: paint-tiny, say")
        self.config.check_frame()

    def keep(self, folder: Path) -> None:
        if self.codebook is not None:
            self.codebook.save(folder)

    def recall(self, folder: Path) -> None:
        self.codebook = Codebook.load(folder)

    # -------------------------------------------------------------------------------------------------------------- data

    def prepare(self, data: DataConfig, text: TokenizerConfig | Tokenizers, model: ModelConfig, say: Say) -> Prepared:
        splits = load_pictures(data, self.config.frame(), say)
        notes, config = list(splits.notes), self.config
        for key, pixels in (("height", splits.train.shape[1]), ("width", splits.train.shape[2])):
            if pixels % config.patch:
                raise ConfigError(f"task.patch: patches of {config.patch} pixels do not divide the pictures' {key} of {pixels}")
        labels = config.labels or splits.labels
        asked = [prompt for label in labels for prompts in self.prompts(label).values() for prompt in prompts]
        tokenizer = fitted(text, "tokenizer", asked, say)
        longest = max(len(ids) for ids in tokenizer.ids_batch(asked, wrap="none")) + 2
        self.config = config = config.changed(labels=labels, words=config.words or longest)
        if self.codebook is None:
            say(f"fitting a codebook of {config.codes} patches of {config.patch} × {config.patch} pixels")
            self.codebook = Codebook.fit(splits.train.pixels, config.patch, config.codes)
        book, self.train = self.codebook, splits.train
        lost = np.abs(book.decode(book.encode(splits.valid.pixels)).astype(np.float64) - splits.valid.pixels).mean() / 255
        tokens = book.grid[0] * book.grid[1]
        notes.append(f"a picture is {tokens} tokens of a codebook of {len(book)}; on valid, a pixel is off by {100 * lost:.1f} % of white")
        ink = thirds_of_ink(splits.train)
        train, valid, test = (self._drawable(part, tokenizer, ink, model) for part in (splits.train, splits.valid, splits.test))
        for note in notes:
            say(note)
        sizes = Sizes(tokenizer.vocab + len(book), max_len=config.words + tokens)
        return Prepared(config, train, valid, test, {"tokenizer": tokenizer}, sizes, splits.digest, notes)

    def read(self, data: DataConfig, tokenizers: Tokenizers, model: ModelConfig, say: Say) -> Drawable:
        assert self.codebook is not None
        pictures, notes = load_picture_rows(data, Frame(*self.codebook.shape, self.config.fit), say)
        for note in notes:
            say(note)
        for row, label in enumerate(pictures.table["label"]):
            if label not in self.config.labels:
                raise DataError(f"{pictures.place(row)}: the label {label!r} is none of the model's classes")
        return self._drawable(pictures, tokenizers["tokenizer"], thirds_of_ink(pictures), model)

    def prompts(self, label: str) -> dict[Language, list[str]]:
        """What asks for a class: plainly, thin, bold. A digit is asked for in words."""
        found: dict[Language, list[str]] = {}
        for language in self.config.languages:
            it = {"fr": french, "en": english}[language](int(label)) if label.isdecimal() and len(label) < 10 else label
            article = "an" if it[:1] in "aeio" and not it.startswith("one") else "a"
            found[language] = [form.format(it=it, a=article) for form in PROMPTS[language]]
        return found

    def _drawable(self, pictures: Pictures, tokenizer: Tokenizer, ink: dict[str, tuple[float, float]], model: ModelConfig) -> Drawable:
        assert self.codebook is not None
        texts = [prompt for label in self.config.labels for own in self.prompts(label).values() for prompt in own]
        forms, languages = len(PROMPTS["fr"]), len(self.config.languages)
        first = {label: place * forms * languages for place, label in enumerate(self.config.labels)}
        rows = []
        for picture, (label, amount) in enumerate(zip(pictures.table["label"], ink_of(pictures.pixels), strict=True)):
            low, high = ink.get(label, (0.0, np.inf))
            fitting = [PLAIN] + ([THIN] if amount < low else []) + ([BOLD] if amount > high else [])
            rows += [(picture, first[label] + language * forms + form) for language in range(languages) for form in fitting]
        tokens = self.codebook.encode(pictures.pixels) + tokenizer.vocab
        prompts = np.array([self._ids(tokenizer, text) for text in texts], dtype=np.int64)
        limit = prompts.shape[1] + tokens.shape[1]
        if model.max_len is not None and model.max_len < limit:
            raise ConfigError(f"model.frontend.position: it ends at {model.max_len}, and words and picture take {limit} places")
        return Drawable(pictures, tokens, prompts, np.array(rows, dtype=np.int64))

    def _ids(self, tokenizer: Tokenizer, text: str) -> list[int]:
        """[BOS] words [PAD] … [SEP]: as many places for every text. A word that is unknown as it is written is read in lower case."""
        written, lower = (ids.tolist() for ids in tokenizer.ids_batch([text, text.lower()], wrap="none"))
        ids = [low if own == tokenizer.unk else own for own, low in zip(written, lower, strict=False)]
        if unknown := [word for word, own in zip(text.split(), ids, strict=False) if own == tokenizer.unk]:
            known = ", ".join(repr(forms[form]) for form, forms in enumerate(self.prompts(self.config.labels[-1]).values()))
            raise UsageError(f"{unknown[0]!r} was never asked for in training; ask for such as {known}")
        room = self.config.words - 2
        if not 0 < len(ids) <= room:
            raise UsageError(f"{text!r} has {len(ids)} words, and this model reads 1 to {room}")
        return [tokenizer.bos, *ids, *[tokenizer.pad] * (room - len(ids)), tokenizer.sep]

    # ---------------------------------------------------------------------------------------------------- training, scores

    def step(self, model: Model, batch: Batch) -> Loss:
        return Loss(*token_loss(model, batch))

    def evaluate(
        self, model: Model, dataset: Dataset, *, budget: int = 8192, quick: bool = False, progress: Progress | None = None
    ) -> Evaluation:
        assert isinstance(dataset, Drawable)
        bits, around = self._bits(model, dataset, budget, MOST_WATCHED if quick else len(dataset), progress)
        scores = {"bits_per_token": bits}
        if self.train is None:  # another file: without the training pictures nothing can be judged
            return Evaluation(scores, {"bits_per_token": around}, len(dataset), {}, dataset.name)
        self.judge = self.judge or Judge.fit(self.train)
        each = max(1, self.config.draws // 5) if quick else self.config.draws
        drawn, wanted = self._drawn(model, dataset, each)
        found = self.judge.labels(drawn)
        right = np.array([a == b for a, b in zip(found, wanted, strict=True)])
        recognised, interval = share(int(right.sum()), len(right))
        scores = {"recognised": recognised} | scores
        if quick:
            return Evaluation(scores, examples=len(right), split=dataset.name)
        details = self._details(model, dataset, drawn, wanted, right)
        return Evaluation(scores, {"recognised": interval, "bits_per_token": around}, len(right), details, dataset.name)

    def _bits(self, model: Model, dataset: Drawable, budget: int, most: int, progress: Progress | None) -> tuple[float, Interval]:
        """Of the tokens of pictures, each asked for plainly (`most` of them, spread over the split); the interval is over pictures."""
        plain = np.unique(dataset.rows[:, 0], return_index=True)[1]
        rows = plain[np.unique(np.linspace(0, len(plain) - 1, most).astype(np.int64))] if len(plain) > most else plain
        bits: list[NDArray[np.float64]] = []
        with evaluating(model):
            for batch in each_batch(model, dataset, budget, progress, rows):
                logits, labels, _, _ = scored_logits(model, batch)
                nats = F.cross_entropy(logits, labels, reduction="none").double().cpu().numpy()
                bits.append(nats.reshape(len(batch.rows), -1).mean(1) / np.log(2))
        each = np.concatenate(bits)
        return float(each.mean()), mean_interval(each, np.ones(len(each)))

    def _drawn(self, model: Model, dataset: Drawable, each: int, form: int = PLAIN) -> tuple[Bytes, list[str]]:
        """`each` pictures of every class, asked for in the languages in turn; and the classes."""
        forms, languages = len(PROMPTS["fr"]), len(self.config.languages)
        numbers = [
            (place * languages + count % languages) * forms + form for place in range(len(self.config.labels)) for count in range(each)
        ]
        options = GenerateOptions(max_tokens=dataset.tokens.shape[1], temperature=self.config.temperature, seed=form)
        first = int(dataset.tokens.min(initial=0)) if self.codebook is None else self._first_code(model)
        pixels = self.draw(model, dataset.prompts[numbers].tolist(), options, first)
        return pixels, [label for label in self.config.labels for _ in range(each)]

    def _first_code(self, model: Model) -> int:
        """The number of the first code in the vocabulary, words before it."""
        assert self.codebook is not None
        assert isinstance(model.config.frontend, TokensConfig)
        assert model.config.frontend.vocab is not None
        return model.config.frontend.vocab - len(self.codebook)

    def draw(self, model: Model, prompts: Sequence[Sequence[int]], options: GenerateOptions, first: int) -> Bytes:
        """(N, C, H, W). A word in a picture's place, which only an untrained model writes, is drawn as the darkest patch."""
        assert self.codebook is not None
        tokens = []
        for start in range(0, len(prompts), SIDE_BY_SIDE):
            seed = None if options.seed is None else options.seed * 1_000_003 + start
            some = generate(model, prompts[start : start + SIDE_BY_SIDE], options.changed(seed=seed))
            tokens += [answer.tokens for answer in some]
        return self.codebook.decode(np.maximum(np.array(tokens, dtype=np.int64) - first, 0))

    def _details(self, model: Model, dataset: Drawable, drawn: Bytes, wanted: list[str], right: NDArray[np.bool_]) -> dict[str, Any]:
        assert self.train is not None
        near, nearest = distances(drawn, self.train.pixels)
        some = np.unique(np.linspace(0, len(dataset.pictures) - 1, MOST_COMPARED).astype(np.int64))
        usual, _ = distances(dataset.pictures.pixels[some], self.train.pixels)
        by_class = []
        for label in self.config.labels:
            rows = np.flatnonzero(np.array(wanted) == label)
            value, around = share(int(right[rows].sum()), len(rows))
            shown = rows[:SHOWN]
            both = {"drawn": drawn[shown], "nearest": self.train.pixels[nearest[shown]]}
            pictures = {key: data_uri(sheet([*map(as_shown, own)])) for key, own in both.items()}
            entry = {"label": label, "prompt": next(iter(self.prompts(label).values()))[PLAIN], "recognised": value}
            by_class.append(entry | {"interval": list(around), "examples": len(rows), **pictures})
        ink = {name: float(ink_of(self._drawn(model, dataset, 8, form)[0]).mean()) for form, name in ((THIN, "thin"), (BOLD, "bold"))}
        copying = {
            "drawn": float(np.median(near)),
            "real": float(np.median(usual)),
            "copies": float((near == 0).mean()),
            "closer": float((near < np.quantile(usual, 0.01)).mean()),
        }
        return {
            "by_class": by_class,
            "copying": copying,
            "ink": ink | {"plain": float(ink_of(drawn).mean())},
            "temperature": self.config.temperature,
        }

    def baselines(self, prepared: Prepared, say: Say) -> list[Baseline]:
        train, test = prepared.train, prepared.test
        assert isinstance(train, Drawable)
        assert isinstance(test, Drawable)
        assert self.codebook is not None
        self.judge = self.judge or Judge.fit(train.pictures)
        first = int(min(train.tokens.min(), test.tokens.min()))
        known, asked = ((split.pictures, split.tokens - first) for split in (train, test))
        return drawn_baselines(known, asked, self.codebook, self.judge, self.config.draws, say)

    def sections(self, evaluation: Evaluation) -> list[Section]:
        return drawn_sections(evaluation)

    # ------------------------------------------------------------------------------------------------------------- answers

    def paint(self, model: Model, tokenizers: Tokenizers, text: str, count: int, **options: Any) -> Bytes:
        """`count` pictures (N, H, W) or (N, H, W, 3) of what the text asks for; the options are those of `GenerateOptions`."""
        assert self.codebook is not None
        tokens = self.codebook.grid[0] * self.codebook.grid[1]
        chosen = generate_options({"temperature": self.config.temperature} | options).changed(max_tokens=tokens)
        prompt = self._ids(tokenizers["tokenizer"], text)
        pixels = self.draw(model, [prompt] * count, chosen, self._first_code(model))
        return np.stack([as_shown(one) for one in pixels])

    def predict(self, model: Model, tokenizers: Tokenizers, inputs: Sequence[str | Example], **options: Any) -> list[Prediction]:
        """A picture of each text, as a PNG inside a data URI."""
        texts = [example["text"] for example in as_examples(inputs, "text")]
        return [Prediction(text, data_uri(self.paint(model, tokenizers, text, 1, **options)[0])) for text in texts]

    def examples(self, prepared: Prepared, count: int = 3) -> list[Example]:
        labels = self.config.labels
        chosen = [labels[place] for place in np.unique(np.linspace(0, len(labels) - 1, count).astype(int))]
        return [{"text": next(iter(self.prompts(label).values()))[PLAIN]} for label in chosen]

    def maps(self, model: Model, tokenizers: Tokenizers, inputs: Sequence[str | Example]) -> list[AttentionMaps]:
        """What each patch looks at while it is drawn: the words, and the patches before it."""
        assert self.codebook is not None
        tokenizer, found = tokenizers["tokenizer"], []
        rows, columns = self.codebook.grid
        places = [f"{row}·{column}" for row in range(1, rows + 1) for column in range(1, columns + 1)]
        for example in as_examples(inputs, "text"):
            prompt = self._ids(tokenizer, example["text"])
            options = GenerateOptions(max_tokens=len(places), temperature=self.config.temperature, seed=0)
            written = generate(model, [prompt], options)[0].tokens
            batch = Batch(Input(torch.tensor([[*prompt, *written]]), Seq.padded([len(prompt) + len(written)])))
            found += attention_maps(model, batch, [*shown_tokens(tokenizer, prompt), *places], title=f"« {example['text']} »")
        return found
