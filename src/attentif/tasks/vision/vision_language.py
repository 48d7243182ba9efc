"""Answers to questions about pictures, by either of two designs, on the same data and with the same scores.

    cross-attention   an encoder reads the patches y; a decoder reads [BOS] question [SEP] x, looks at them, and writes answer [EOS]:
                      softmax(Q(x) K(y)ᵀ / √d) V(y) for each word; the loss is that of the answer's tokens alone
    one encoder       patches and [CLS] question [SEP] in one sequence, read by one stack; the answer is chosen among those of training

A batch holds pictures with all their questions: a picture is encoded once, and each of its questions looks at what was made of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field

from attentif.data import DataConfig, Table
from attentif.data.images import as_shown, data_uri, open_picture
from attentif.data.labels import refuse_one
from attentif.data.questions import Questions, load_question_rows, load_questions, read_questions
from attentif.decode import GenerateOptions, generate
from attentif.errors import ConfigError
from attentif.models import Batch, Model, ModelConfig, eval_mode
from attentif.models.frontends import TokensConfig
from attentif.models.frontends.joined import JoinedConfig
from attentif.models.frontends.pictures import PictureConfig
from attentif.models.heads import ClassifyHeadConfig, LanguageHeadConfig
from attentif.tasks.answers import Baseline, EvalOptions, Evaluation, Prediction
from attentif.tasks.attention import attention_maps, map_title, readable_tokens
from attentif.tasks.base import TASKS, Example, Inputs, Loss, Prepared, Progress, Say, Sizes, Task, TaskState, Tokenizers
from attentif.tasks.batches import build_meta, device_of, format_count, iterate_batches, min_limit, say_all
from attentif.tasks.classification.data import encode_texts
from attentif.tasks.narrow import labels_of
from attentif.tasks.ragged import UNSCORED, Ints, Ragged
from attentif.tasks.token_loss import scored_logits, token_loss
from attentif.tasks.tokenizers import TokenizerSource, fit_tokenizer
from attentif.tasks.vision.augment import AugmentConfig, augment
from attentif.tasks.vision.frame import StandardisedConfig
from attentif.tasks.vision.image import channel_scale, name_input
from attentif.tasks.vision.vision_language_data import AskedPictures, change_pictures, grid_of, patches_of, question_examples
from attentif.tasks.vision.vision_language_report import (
    QuestionDetails,
    answer_baselines,
    by_kind,
    kinds_of,
    over_pictures,
    vision_sections,
    wrong_answers,
)
from attentif.text import Tokenizer
from attentif.view.blocks import AttentionMaps, Picture, Section
from attentif.view.words import Text, quote

LIGHTLY = AugmentConfig(shift=0.02, rotate=4.0, scale=0.05, shear=4.0, elastic=0.02)  # what is left of what must not change
SIDE_BY_SIDE = 64  # pictures whose questions are answered at once


@TASKS.register
class VisionLanguageConfig(StandardisedConfig):
    """Answers, in words, to questions about pictures."""

    kind: Literal["vision-language"] = Field("vision-language", description="visual question answering")
    max_len: int = Field(64, gt=2, description="maximum tokens of a question and of an answer; longer ones are truncated")
    answers: list[str] = Field([], description="one encoder: answers in the order of the logits; by default those of the training data")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="label smoothing")
    augment: AugmentConfig = Field(LIGHTLY, description="data augmentation that leaves the answers true")

    def build(self) -> "VisionLanguage":
        return VisionLanguage(self)


@dataclass(frozen=True)
class VisionLanguageState(TaskState):
    """The mean and deviation of each channel, and the answers that one encoder chooses among."""

    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    answers: tuple[str, ...] = ()


class VisionLanguage(Task[VisionLanguageState, AskedPictures]):
    config: VisionLanguageConfig
    state_type = VisionLanguageState
    offers = ("answer",)
    metric = "exact_match"
    reads = "question"
    unit = Text("images", "pictures")

    # ------------------------------------------------------------------------------------------------------------- model

    def adapt(self, model: ModelConfig) -> ModelConfig:
        if model.encoder is not None and model.decoder is not None:
            return model if isinstance(model.head, LanguageHeadConfig) else model.with_head(LanguageHeadConfig())
        return model if isinstance(model.head, ClassifyHeadConfig) else model.with_head(ClassifyHeadConfig(pool="last"))

    def check(self, model: ModelConfig) -> None:
        self.config.check_frame()
        if self.config.augment.mixup:
            raise ConfigError("task.augment.mixup: a question about two pictures at once has no answer")
        if model.decoder is None:
            if not isinstance(model.frontend, JoinedConfig):
                raise ConfigError('model.frontend: one encoder reads both by a frontend of kind "joined"; use for example one-encoder-tiny')
        elif model.encoder is None or not isinstance(model.frontend, PictureConfig) or not isinstance(model.target, TokensConfig):
            raise ConfigError(
                "model: vision-language needs an encoder of pictures with a decoder of tokens that looks at them (vision-language-tiny), "
                "or one encoder of both (one-encoder-tiny)"
            )
        frame = self.config.frame(model.frontend)
        if frame.sized:
            model = model.with_sizes(frontend={"channels": frame.channels or 1, "height": frame.height, "width": frame.width})
        if model.decoder is not None and not build_meta(model).caps.causal:
            raise ConfigError("model.decoder: an answer is written one token after the other, and this decoder would see those to come")
        build_meta(model)

    # -------------------------------------------------------------------------------------------------------------- data

    def prepare(
        self, data: DataConfig, text: TokenizerSource, model: ModelConfig, say: Say, state: VisionLanguageState | None = None
    ) -> Prepared[VisionLanguageState, AskedPictures]:
        splits = load_questions(data, self.config.frame(model.frontend), say)
        table, notes = splits.train.table, list(splits.notes)
        refuse_one(table, "answer")
        tokenizer = fit_tokenizer(text, "tokenizer", [*table["question"], *table["answer"]], say)
        _, channels, height, width = splits.train.pixels.shape
        frontend = {"channels": channels, "height": height, "width": width}
        filled = model.with_sizes(frontend=frontend)
        mean, std = (self.config.mean, self.config.std) if self.config.mean else channel_scale(splits.train.pixels)
        chosen = self.config.answers or (sorted(set(table["answer"])) if model.decoder is None else [])
        state = state or VisionLanguageState(mean, std, tuple(chosen))
        train, valid, test = (self._encode(state, part, tokenizer, filled, notes) for part in (splits.train, splits.valid, splits.test))
        say_all(notes, say)
        longest = max(int(split.ids.lengths.max()) for split in (train, valid, test))
        longest = max(longest, train.patches)
        vocab, classes = tokenizer.vocab, len(state.answers) or None
        sizes = Sizes(vocab, target_vocab=vocab, classes=classes, max_len=longest, frontend=frontend)
        return Prepared(state, train, valid, test, {"tokenizer": tokenizer}, sizes, splits.digest, notes)

    def read(self, state: VisionLanguageState, data: DataConfig, tokenizers: Tokenizers, model: ModelConfig, say: Say) -> AskedPictures:
        questions, notes = load_question_rows(data, self.config.frame(model.frontend), say)
        encoded = self._encode(state, questions, tokenizers["tokenizer"], model, notes)
        say_all(notes, say)
        return encoded

    def _encode(
        self, state: VisionLanguageState, questions: Questions, tokenizer: Tokenizer, model: ModelConfig, notes: list[str]
    ) -> AskedPictures:
        table = questions.table
        common = (tokenizer, patches_of(model), state.mean, state.std)
        if model.decoder is None:
            ids, cut = encode_texts(tokenizer, table["question"], None, min_limit(self.config.max_len, model.max_len))
            if cut:
                notes.append(f"{table.name}: {format_count(cut, 'question')} cut to the longest that is read (task.max_len)")
            number = {answer: place for place, answer in enumerate(state.answers)}
            answers = np.array([number.get(answer, UNSCORED) for answer in table["answer"]], dtype=np.int64)
            if unknown := int((answers == UNSCORED).sum()):
                notes.append(
                    f"{table.name}: {format_count(unknown, 'question')} with an answer that training never gives: none can be right"
                )
            return AskedPictures(questions, Ragged.of(ids), np.array([len(own) for own in ids]), answers, *common)
        limit = model.max_target_len
        room = self.config.max_len if limit is None else min(self.config.max_len, (limit - 3) // 2)  # beside [BOS], [SEP], [EOS]
        asked, answered = (tokenizer.ids_batch(table[role], wrap="none", max_len=room) for role in ("question", "answer"))
        if long := sum(len(own) == room for own in (*asked, *answered)):
            notes.append(f"{table.name}: {format_count(long, 'text')} of {room} tokens or more, the longest that is read (task.max_len)")
        ids = [np.array([tokenizer.bos, *q, tokenizer.sep, *a, tokenizer.eos], np.int32) for q, a in zip(asked, answered, strict=True)]
        return AskedPictures(questions, Ragged.of(ids), np.array([len(own) + 2 for own in asked]), None, *common)

    # ---------------------------------------------------------------------------------------------------- training, scores

    def step(self, model: Model, batch: Batch) -> Loss:
        if model.training:
            batch = change_pictures(batch, lambda pixels: augment(pixels, self.config.augment))
        if model.decoder is not None:
            return Loss(*token_loss(model, batch, self.config.label_smoothing))
        (logits, _), labels = model(batch), labels_of(batch)
        total = F.cross_entropy(logits, labels, reduction="sum", label_smoothing=self.config.label_smoothing)
        right = (logits.detach().argmax(-1) == labels).sum()
        return Loss(total, int((labels != UNSCORED).sum()), {"exact_match": right})

    def score(self, model: Model, state: VisionLanguageState, dataset: AskedPictures, options: EvalOptions) -> Evaluation:
        right, loss = self._right(model, dataset, options)
        scores = {"exact_match": float(right.mean()), "loss": loss}
        if options.quick:
            return Evaluation(scores, examples=len(right), split=dataset.name)
        questions = dataset.questions
        written = self._answers(model, state, dataset, options.progress)
        right = np.array([a.split() == b.split() for a, b in zip(written, questions.table["answer"], strict=True)])
        details: QuestionDetails = {
            "by_kind": by_kind(questions, right),
            "wrong": wrong_answers(questions, right, written),
            "pictures": len(dataset),
        }
        scores["exact_match"] = float(right.mean())
        return Evaluation(scores, {"exact_match": over_pictures(questions, right)}, len(right), details, dataset.name)

    def _right(self, model: Model, dataset: AskedPictures, options: EvalOptions) -> tuple[NDArray[np.bool_], float]:
        """Which questions are answered exactly, and the loss. An answer whose every token is the likeliest after the true ones before it
        is the one that greedy writing gives: no need to write it while training."""
        right = np.zeros(len(dataset.ids), dtype=bool)
        nats, count = 0.0, 0
        with eval_mode(model):
            for batch in iterate_batches(model, dataset, options):
                rows = dataset.questions_about(batch.rows)
                if model.decoder is None:
                    logits, labels = model(batch)[0], labels_of(batch)
                    wrong = np.flatnonzero((logits.argmax(-1) != labels).cpu().numpy())
                else:
                    logits, labels, places, seq = scored_logits(model, batch)
                    wrong = seq.row.flatten()[places][logits.argmax(-1) != labels].cpu().numpy()
                right[rows] = True
                right[rows[wrong]] = False
                nats += float(F.cross_entropy(logits, labels, reduction="sum"))
                count += int((labels != UNSCORED).sum())
        return right, nats / max(count, 1)

    def _answers(self, model: Model, state: VisionLanguageState, dataset: AskedPictures, progress: Progress | None = None) -> list[str]:
        """What the model says to each question: written token by token, or chosen."""
        found = [""] * len(dataset.ids)
        for start in range(0, len(dataset), SIDE_BY_SIDE):
            pictures = np.arange(start, min(start + SIDE_BY_SIDE, len(dataset)))
            rows = dataset.questions_about(pictures)
            if model.decoder is None:
                with eval_mode(model):
                    numbers = model(dataset.batch(pictures).to(device_of(model)))[0].argmax(-1).tolist()
                said = [state.answers[number] for number in numbers]
            else:
                said = self._write(model, dataset, rows, GenerateOptions(max_tokens=self.config.max_len))
            for row, answer in zip(rows.tolist(), said, strict=True):
                found[row] = answer
            if progress is not None:
                progress(min(start + SIDE_BY_SIDE, len(dataset)), len(dataset))
        return found

    def _write(self, model: Model, dataset: AskedPictures, rows: Ints, options: GenerateOptions) -> list[str]:
        tokenizer = dataset.tokenizer
        prompts = [dataset.ids[row][: dataset.prompts[row]].tolist() for row in rows.tolist()]
        source = dataset.pixels(dataset.questions.picture[rows])
        written = generate(model, prompts, options, source=source, stop_tokens=[tokenizer.eos])
        return [tokenizer.decode(answer.tokens).strip() for answer in written]

    def baselines(self, prepared: Prepared[VisionLanguageState, AskedPictures], say: Say) -> list[Baseline]:
        train, test = prepared.train, prepared.test
        return answer_baselines(train.questions, test.questions, say)

    def sections(self, evaluation: Evaluation) -> list[Section]:
        return vision_sections(evaluation)

    # ------------------------------------------------------------------------------------------------------------- answers

    def inputs(self, file: Path, column: str | None) -> list[str | Example] | None:
        return list(read_questions(file, column))

    def predict(self, model: Model, state: VisionLanguageState, tokenizers: Tokenizers, inputs: Inputs, **options: Any) -> list[Prediction]:
        """Answers to {"image": path, "question": ...}, given as such or as JSON; the options are those of `GenerateOptions`."""
        from attentif.tasks.language.language import generate_options

        examples = question_examples(inputs)
        dataset = self._read_inputs(model, state, tokenizers["tokenizer"], examples)
        names = [f"{name_input(example, number)}: {example['question']}" for number, example in enumerate(examples, 1)]
        if model.decoder is not None:
            chosen = generate_options({"max_tokens": self.config.max_len} | options)
            parts = [np.arange(start, min(start + 256, len(examples))) for start in range(0, len(examples), 256)]
            said = [answer for rows in parts for answer in self._write(model, dataset, rows, chosen)]
            return [Prediction(name, answer) for name, answer in zip(names, said, strict=True)]
        found = []
        with eval_mode(model):
            for row, name in enumerate(names):
                p = model(dataset.batch([row]).to(device_of(model)))[0][0].double().softmax(-1).cpu().numpy()
                found.append(Prediction.of_classes(name, state.answers, p))
        return found

    def _read_inputs(self, model: Model, state: VisionLanguageState, tokenizer: Tokenizer, examples: Sequence[Example]) -> AskedPictures:
        """New questions as a split: one picture each, and the answer that is to be read, if any."""
        frame = self.config.frame(model.config.frontend)
        pixels = np.stack([open_picture(example["image"], frame) for example in examples])
        columns = {"question": [e["question"] for e in examples], "answer": [e.get("answer", "") for e in examples]}
        table = Table.of_inputs(columns | {"image": [str(row) for row in range(len(examples))]})
        return self._encode(state, Questions(table, pixels, np.arange(len(examples))), tokenizer, model.config, [])

    def examples(self, prepared: Prepared[VisionLanguageState, AskedPictures], count: int = 3) -> list[Example]:
        """Questions of different kinds about different test pictures."""
        test = prepared.test
        table, kinds = test.questions.table, kinds_of(test.questions.table)
        first = {kind: row for row, kind in reversed([*enumerate(kinds)])}
        rows = [first[kind] for kind in ("left", "sum", "there") if kind in first] or list(first.values())
        shown = [as_shown(test.questions.pixels[test.questions.picture[row]]) for row in rows[:count]]
        return [{"image": data_uri(pixels), "question": table["question"][row]} for row, pixels in zip(rows, shown, strict=False)]

    def maps(self, model: Model, state: VisionLanguageState, tokenizers: Tokenizers, inputs: Inputs) -> list[AttentionMaps]:
        """Where each word looks in the picture, while the model reads the question and writes its own answer (or the one that is given)."""
        tokenizer, found = tokenizers["tokenizer"], []
        for example in question_examples(inputs):
            answer = example.get("answer") or self.predict(model, state, tokenizers, [example])[0].output
            asked = self._read_inputs(model, state, tokenizer, [{**example, "answer": answer}])
            words, grid = readable_tokens(tokenizer, asked.ids[0]), grid_of(model.config)
            places = [f"{row}·{column}" for row in range(1, grid[0] + 1) for column in range(1, grid[1] + 1)]
            picture = Picture(as_shown(asked.questions.pixels[0]), grid)
            title = map_title(example["question"], quote(answer))
            if model.decoder is None:
                found += _words_over(attention_maps(model, asked.batch([0]), [*places, *words], title=title), picture, places, words)
                continue
            before = int(asked.prompts[0])
            # a question's words as they are read, an answer's as they are written
            looks = [*words[: before - 1], *(f"→ {word}" for word in words[before:])]
            for shown in attention_maps(model, asked.batch([0]), words[:-1], source=places, writes=looks, title=title):
                over = shown.columns is not None or list(shown.rows) == places
                found.append(replace(shown, picture=picture) if over else shown)
        return sorted(found, key=lambda shown: shown.columns is None)  # words over the picture first


def _words_over(maps: Sequence[AttentionMaps], picture: Picture, places: list[str], words: list[str]) -> list[AttentionMaps]:
    """Of one encoder's maps, the words that look at the patches; then the maps themselves."""
    found = []
    for shown in maps:
        looking = {name: weights[:, len(places) :, : len(places)] for name, weights in shown.weights.items()}
        found += [AttentionMaps(words, looking, places, shown.title, picture), shown]
    return found
