"""Answers to questions about pictures, by either of two designs, on the same data and with the same scores.

    cross-attention   an encoder reads the patches y; a decoder reads [BOS] question [SEP] x, looks at them, and writes answer [EOS]:
                      softmax(Q(x) K(y)ᵀ / √d) V(y) for each word; the loss is that of the answer's tokens alone
    one encoder       patches and [CLS] question [SEP] in one sequence, read by one stack; the answer is chosen among those of training

A batch holds pictures with all their questions: a picture is encoded once, and each of its questions looks at what was made of it.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field

from attentif.data import DataConfig, Table
from attentif.data.images import as_shown, data_uri, open_picture
from attentif.data.labels import refuse_one
from attentif.data.questions import Questions, asked_in, load_question_rows, load_questions
from attentif.decode import GenerateOptions, generate
from attentif.errors import ConfigError
from attentif.models import Batch, Model, ModelConfig, evaluating
from attentif.models.frontends import TokensConfig
from attentif.models.frontends.joined import JoinedConfig
from attentif.models.frontends.patches import PatchesConfig
from attentif.models.heads import ClassifyHeadConfig, LanguageHeadConfig
from attentif.tasks.feed import counted, device_of, each_batch, fitted, limit_of, on_paper
from attentif.tasks.labels.classify_data import encoded
from attentif.tasks.looking import attention_maps, shown_tokens
from attentif.tasks.pictures.augment import AugmentConfig, augmented
from attentif.tasks.pictures.framed import StandardisedConfig
from attentif.tasks.pictures.image import called, spread
from attentif.tasks.pictures.vision_data import AskedPictures, grid_of, patches_of, question_examples, with_pictures
from attentif.tasks.pictures.vision_report import answer_baselines, by_kind, kinds_of, over_pictures, vision_sections, wrong_answers
from attentif.tasks.ragged import UNSCORED, Ints, Ragged
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
from attentif.view.blocks import AttentionMaps, Picture, Section
from attentif.view.words import Text

LIGHTLY = AugmentConfig(shift=0.02, rotate=4.0, scale=0.05, shear=4.0, elastic=0.02)  # what is left of what must not change
SIDE_BY_SIDE = 64  # pictures whose questions are answered at once


@TASKS.register
class VisionLanguageConfig(StandardisedConfig):
    """Answers, in words, to questions about pictures."""

    kind: Literal["vision-language"] = Field("vision-language", description="answers, in words, to questions about pictures")
    max_len: int = Field(64, gt=2, description="longer questions, and longer answers, are cut to so many tokens")
    answers: list[str] = Field([], description="one encoder: the answers to choose among, in the model's order; by default those of train")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="share of the target given to all other tokens, or answers")
    augment: AugmentConfig = Field(LIGHTLY, description="small changes of the pictures in training, after which the answers still hold")

    def build(self) -> "VisionLanguage":
        return VisionLanguage(self)


class VisionLanguage(Task):
    config: VisionLanguageConfig
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
                raise ConfigError('model.frontend: one encoder reads both by a frontend of kind "joined"; take one-encoder-tiny, say')
        elif model.encoder is None or not isinstance(model.frontend, PatchesConfig) or not isinstance(model.target, TokensConfig):
            raise ConfigError(
                "model: vision-language needs an encoder of patches with a decoder of tokens that looks at them (vision-language-tiny), "
                "or one encoder of both (one-encoder-tiny)"
            )
        frame = self.config.frame(model.frontend)
        if frame.sized:
            model = model.with_sizes(frontend={"channels": frame.channels or 1, "height": frame.height, "width": frame.width})
        if model.decoder is not None and not on_paper(model).caps.causal:
            raise ConfigError("model.decoder: an answer is written one token after the other, and this decoder would see those to come")
        on_paper(model)

    # -------------------------------------------------------------------------------------------------------------- data

    def prepare(self, data: DataConfig, text: TokenizerConfig | Tokenizers, model: ModelConfig, say: Say) -> Prepared:
        splits = load_questions(data, self.config.frame(model.frontend), say)
        table, notes = splits.train.table, list(splits.notes)
        refuse_one(table, "answer")
        tokenizer = fitted(text, "tokenizer", [*table["question"], *table["answer"]], say)
        _, channels, height, width = splits.train.pixels.shape
        frontend = {"channels": channels, "height": height, "width": width}
        filled = model.with_sizes(frontend=frontend)
        mean, std = (self.config.mean, self.config.std) if self.config.mean else spread(splits.train.pixels)
        chosen = self.config.answers or (sorted(set(table["answer"])) if model.decoder is None else [])
        self.config = self.config.changed(mean=mean, std=std, answers=chosen)
        train, valid, test = (self._encoded(part, tokenizer, filled, notes) for part in (splits.train, splits.valid, splits.test))
        for note in notes:
            say(note)
        longest = max(int(split.ids.lengths.max()) for split in (train, valid, test))
        longest = max(longest, train.patches)
        vocab, classes = tokenizer.vocab, len(chosen) or None
        sizes = Sizes(vocab, target_vocab=vocab, classes=classes, max_len=longest, frontend=frontend)
        return Prepared(self.config, train, valid, test, {"tokenizer": tokenizer}, sizes, splits.digest, notes)

    def read(self, data: DataConfig, tokenizers: Tokenizers, model: ModelConfig, say: Say) -> AskedPictures:
        questions, notes = load_question_rows(data, self.config.frame(model.frontend), say)
        encoded = self._encoded(questions, tokenizers["tokenizer"], model, notes)
        for note in notes:
            say(note)
        return encoded

    def _encoded(self, questions: Questions, tokenizer: Tokenizer, model: ModelConfig, notes: list[str]) -> AskedPictures:
        table = questions.table
        common = (tokenizer, patches_of(model), self.config.mean, self.config.std)
        if model.decoder is None:
            ids, cut = encoded(tokenizer, table["question"], None, limit_of(self.config.max_len, model.max_len))
            if cut:
                notes.append(f"{table.name}: {counted(cut, 'question')} cut to the longest that is read (task.max_len)")
            number = {answer: place for place, answer in enumerate(self.config.answers)}
            answers = np.array([number.get(answer, UNSCORED) for answer in table["answer"]], dtype=np.int64)
            if unknown := int((answers == UNSCORED).sum()):
                notes.append(f"{table.name}: {counted(unknown, 'question')} with an answer that training never gives: none can be right")
            return AskedPictures(questions, Ragged.of(ids), np.array([len(own) for own in ids]), answers, *common)
        limit = model.max_target_len
        room = self.config.max_len if limit is None else min(self.config.max_len, (limit - 3) // 2)  # beside [BOS], [SEP], [EOS]
        asked, answered = (tokenizer.ids_batch(table[role], wrap="none", max_len=room) for role in ("question", "answer"))
        if long := sum(len(own) == room for own in (*asked, *answered)):
            notes.append(f"{table.name}: {counted(long, 'text')} of {room} tokens or more, the longest that is read (task.max_len)")
        ids = [np.array([tokenizer.bos, *q, tokenizer.sep, *a, tokenizer.eos], np.int32) for q, a in zip(asked, answered, strict=True)]
        return AskedPictures(questions, Ragged.of(ids), np.array([len(own) + 2 for own in asked]), None, *common)

    # ---------------------------------------------------------------------------------------------------- training, scores

    def step(self, model: Model, batch: Batch) -> Loss:
        if model.training:
            batch = with_pictures(batch, lambda pixels: augmented(pixels, self.config.augment))
        if model.decoder is not None:
            return Loss(*token_loss(model, batch, self.config.label_smoothing))
        assert batch.labels is not None
        logits, _ = model(batch)
        total = F.cross_entropy(logits, batch.labels, reduction="sum", label_smoothing=self.config.label_smoothing)
        return Loss(total, int((batch.labels != UNSCORED).sum()), {"exact_match": (logits.detach().argmax(-1) == batch.labels).sum()})

    def evaluate(
        self, model: Model, dataset: Dataset, *, budget: int = 8192, quick: bool = False, progress: Progress | None = None
    ) -> Evaluation:
        assert isinstance(dataset, AskedPictures)
        right, loss = self._right(model, dataset, budget, progress)
        scores = {"exact_match": float(right.mean()), "loss": loss}
        if quick:
            return Evaluation(scores, examples=len(right), split=dataset.name)
        questions = dataset.questions
        written = self._answers(model, dataset, progress)
        right = np.array([a.split() == b.split() for a, b in zip(written, questions.table["answer"], strict=True)])
        details = {"by_kind": by_kind(questions, right), "wrong": wrong_answers(questions, right, written), "pictures": len(dataset)}
        scores["exact_match"] = float(right.mean())
        return Evaluation(scores, {"exact_match": over_pictures(questions, right)}, len(right), details, dataset.name)

    def _right(self, model: Model, dataset: AskedPictures, budget: int, progress: Progress | None) -> tuple[NDArray[np.bool_], float]:
        """Which questions are answered exactly, and the loss. An answer whose every token is the likeliest after the true ones before it
        is the one that greedy writing gives: no need to write it while training."""
        right = np.zeros(len(dataset.ids), dtype=bool)
        nats, count = 0.0, 0
        with evaluating(model):
            for batch in each_batch(model, dataset, budget, progress):
                assert batch.labels is not None
                rows = dataset.asked(batch.rows)
                if model.decoder is None:
                    logits, labels = model(batch)[0], batch.labels
                    wrong = np.flatnonzero((logits.argmax(-1) != labels).cpu().numpy())
                else:
                    logits, labels, places, seq = scored_logits(model, batch)
                    wrong = seq.row.flatten()[places][logits.argmax(-1) != labels].cpu().numpy()
                right[rows] = True
                right[rows[wrong]] = False
                nats += float(F.cross_entropy(logits, labels, reduction="sum"))
                count += int((labels != UNSCORED).sum())
        return right, nats / max(count, 1)

    def _answers(self, model: Model, dataset: AskedPictures, progress: Progress | None = None) -> list[str]:
        """What the model says to each question: written token by token, or chosen."""
        found = [""] * len(dataset.ids)
        for start in range(0, len(dataset), SIDE_BY_SIDE):
            pictures = np.arange(start, min(start + SIDE_BY_SIDE, len(dataset)))
            rows = dataset.asked(pictures)
            if model.decoder is None:
                with evaluating(model):
                    numbers = model(dataset.batch(pictures).to(device_of(model)))[0].argmax(-1).tolist()
                said = [self.config.answers[number] for number in numbers]
            else:
                said = self._written(model, dataset, rows, GenerateOptions(max_tokens=self.config.max_len))
            for row, answer in zip(rows.tolist(), said, strict=True):
                found[row] = answer
            if progress is not None:
                progress(min(start + SIDE_BY_SIDE, len(dataset)), len(dataset))
        return found

    def _written(self, model: Model, dataset: AskedPictures, rows: Ints, options: GenerateOptions) -> list[str]:
        tokenizer = dataset.tokenizer
        prompts = [dataset.ids[row][: dataset.prompts[row]].tolist() for row in rows.tolist()]
        source = dataset.pixels(dataset.questions.picture[rows])
        written = generate(model, prompts, options, source=source, stop_tokens=[tokenizer.eos])
        return [tokenizer.decode(answer.tokens).strip() for answer in written]

    def baselines(self, prepared: Prepared, say: Say) -> list[Baseline]:
        train, test = prepared.train, prepared.test
        assert isinstance(train, AskedPictures)
        assert isinstance(test, AskedPictures)
        return answer_baselines(train.questions, test.questions, say)

    def sections(self, evaluation: Evaluation) -> list[Section]:
        return vision_sections(evaluation)

    # ------------------------------------------------------------------------------------------------------------- answers

    def inputs(self, file: Path, column: str | None) -> list[str | Example] | None:
        return list(asked_in(file, column))

    def predict(self, model: Model, tokenizers: Tokenizers, inputs: Sequence[str | Example], **options: Any) -> list[Prediction]:
        """Answers to {"image": path, "question": ...}, given as such or as JSON; the options are those of `GenerateOptions`."""
        from attentif.tasks.language.language import generate_options

        examples = question_examples(inputs)
        dataset = self._asked(model, tokenizers["tokenizer"], examples)
        names = [f"{called(example, number)}: {example['question']}" for number, example in enumerate(examples, 1)]
        if model.decoder is not None:
            chosen = generate_options({"max_tokens": self.config.max_len} | options)
            parts = [np.arange(start, min(start + 256, len(examples))) for start in range(0, len(examples), 256)]
            said = [answer for rows in parts for answer in self._written(model, dataset, rows, chosen)]
            return [Prediction(name, answer) for name, answer in zip(names, said, strict=True)]
        found = []
        with evaluating(model):
            for row, name in enumerate(names):
                p = model(dataset.batch([row]).to(device_of(model)))[0][0].double().softmax(-1).cpu().numpy()
                order = np.argsort(-p, kind="stable")
                scores = {self.config.answers[place]: float(p[place]) for place in order}
                found.append(Prediction(name, self.config.answers[order[0]], float(p[order[0]]), scores))
        return found

    def _asked(self, model: Model, tokenizer: Tokenizer, examples: Sequence[Example]) -> AskedPictures:
        """New questions as a split: one picture each, and the answer that is to be read, if any."""
        frame = self.config.frame(model.config.frontend)
        pixels = np.stack([open_picture(example["image"], frame) for example in examples])
        columns = {"question": [e["question"] for e in examples], "answer": [e.get("answer", "") for e in examples]}
        places = np.stack([np.zeros(len(examples), np.int64), np.arange(1, len(examples) + 1)], axis=1)
        table = Table("input", columns | {"image": [str(row) for row in range(len(examples))]}, ["input"], places)
        return self._encoded(Questions(table, pixels, np.arange(len(examples))), tokenizer, model.config, [])

    def examples(self, prepared: Prepared, count: int = 3) -> list[Example]:
        """Questions of different kinds about different test pictures."""
        test = prepared.test
        assert isinstance(test, AskedPictures)
        table, kinds = test.questions.table, kinds_of(test.questions.table)
        first = {kind: row for row, kind in reversed([*enumerate(kinds)])}
        rows = [first[kind] for kind in ("left", "sum", "there") if kind in first] or list(first.values())
        shown = [as_shown(test.questions.pixels[test.questions.picture[row]]) for row in rows[:count]]
        return [{"image": data_uri(pixels), "question": table["question"][row]} for row, pixels in zip(rows, shown, strict=False)]

    def maps(self, model: Model, tokenizers: Tokenizers, inputs: Sequence[str | Example]) -> list[AttentionMaps]:
        """Where each word looks in the picture, while the model reads the question and writes its own answer (or the one that is given)."""
        tokenizer, found = tokenizers["tokenizer"], []
        for example in question_examples(inputs):
            answer = example.get("answer") or self.predict(model, tokenizers, [example])[0].output
            asked = self._asked(model, tokenizer, [{**example, "answer": answer}])
            words, grid = shown_tokens(tokenizer, asked.ids[0]), grid_of(model.config)
            places = [f"{row}·{column}" for row in range(1, grid[0] + 1) for column in range(1, grid[1] + 1)]
            picture = Picture(as_shown(asked.questions.pixels[0]), grid)
            title = f"« {example['question']} » → « {answer} »"
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
