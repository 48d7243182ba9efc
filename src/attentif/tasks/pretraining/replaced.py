"""Replaced-token detection: which tokens are not the author's? (ELECTRA, Clark et al. 2020)

    L = mean over all tokens of −log p(replaced, or not | x̃)

Every token gives something to learn from, not the hidden 15 % alone, and the head has one row instead of a vocabulary: of the ways to
pre-train this is the cheapest step on a processor. ELECTRA draws its replacements from a small masked language model trained beside; here
they are drawn from counts of the training text (`neighbours.py`: what was seen between the two neighbours, or beside one of them), which
cost nothing to train and next to nothing to draw. A draw that is the author's own token is drawn again from a coarser context; if it is
his again, it counts as not replaced.

That small model does one thing more: it shares its table of tokens with the discriminator, and its guessing fills it (section 3.2, where
a discriminator that starts behind its generator may learn nothing at all). With counts, one bit a token would have to fill it, and on real
texts the discriminator stays where it began. So the table begins as word vectors, which take seconds (`vectors`).
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from attentif.data import DataConfig
from attentif.models import Batch, Input, Model, ModelConfig, eval_mode
from attentif.models.heads import TokensHeadConfig
from attentif.nn.seq import Seq
from attentif.tasks.answers import Baseline, EvalOptions, Evaluation, Prediction
from attentif.tasks.attention import readable_tokens
from attentif.tasks.base import TASKS, Inputs, Loss, Prepared, Say, TaskState, Tokenizers
from attentif.tasks.batches import as_examples, device_of, iterate_batches
from attentif.tasks.narrow import labels_of, narrow
from attentif.tasks.pretraining.base import PretrainingTask, ReadingConfig, Spoiled
from attentif.tasks.pretraining.masking import Vocabulary, choose
from attentif.tasks.pretraining.neighbours import Neighbours
from attentif.tasks.pretraining.passages import Passages
from attentif.tasks.pretraining.replaced_report import (
    ReplacedDetails,
    ReplacedPassage,
    detection_scores,
    replaced_baselines,
    replaced_sections,
)
from attentif.tasks.ragged import UNSCORED
from attentif.tasks.skip_gram_init import init_from_skip_gram
from attentif.tasks.token_loss import select_scored
from attentif.text import Tokenizer
from attentif.view.blocks import Section
from attentif.view.words import IN_TOKENS, Text

SHOWN = 3  # passages in the report
SUSPECTS = 5  # tokens that an answer names


@TASKS.register
class ReplacedConfig(ReadingConfig):
    """Which tokens were replaced by plausible others."""

    kind: Literal["replaced"] = Field("replaced", description="replaced-token detection (ELECTRA)")
    vectors: bool = Field(
        True, description="initialise embeddings with skip-gram vectors of the training texts, unless loaded from a run or a file"
    )

    def build(self) -> "Replaced":
        return Replaced(self)


class Replaced(PretrainingTask):
    config: ReplacedConfig
    metric = "auc"
    unit, scored_unit = Text("passages", "passages"), IN_TOKENS

    def adapt(self, model: ModelConfig) -> ModelConfig:
        """One score for each token, by ELECTRA's head where the model has another one."""
        if isinstance(model.head, TokensHeadConfig) and model.head.classes == 1:
            return model
        return model.with_head(TokensHeadConfig(classes=1, hidden=True))

    def noise(self, train: Passages) -> "Replacements":
        vocabulary = Vocabulary(train.tokenizer)
        special = vocabulary.special.nonzero().squeeze(1).numpy()
        return Replacements(self.config, vocabulary, Neighbours(train.running_text(), train.tokenizer.vocab, special))

    def read(self, state: TaskState, data: DataConfig, tokenizers: Tokenizers, model: ModelConfig, say: Say) -> Passages:
        """Read other texts, whose own counts give the replacements, as the training text is not available."""
        passages = super().read(state, data, tokenizers, model, say)
        say("replacements are drawn from the counts of these texts")
        return passages

    def init_weights(self, model: Model, prepared: Prepared[TaskState, Passages], say: Say) -> None:
        train = prepared.train
        if self.config.vectors:
            init_from_skip_gram(model, train.texts, say)

    def step(self, model: Model, batch: Batch) -> Loss:
        x, seq = model.hidden(batch)
        found, wanted, _ = select_scored(x, labels_of(batch))
        logits = model.head(found, seq).squeeze(-1)
        total = F.binary_cross_entropy_with_logits(logits, wanted.to(logits.dtype), reduction="sum")
        return Loss(total, len(wanted), {"accuracy": ((logits.detach() > 0) == wanted).sum()})

    def score(self, model: Model, state: TaskState, dataset: Passages, options: EvalOptions) -> Evaluation:
        spoiled = self.corrupt(dataset, options.quick)
        logits = np.zeros(len(spoiled.labels.flat))
        with eval_mode(model):
            for batch in iterate_batches(model, spoiled, options):
                x, seq = model.hidden(batch)
                found, _, places = select_scored(x, labels_of(batch))
                rows, within = seq.row.flatten()[places].cpu().numpy(), seq.pos.flatten()[places].cpu().numpy()
                logits[spoiled.ids.starts[np.array(batch.rows)[rows]] + within] = model.head(found, seq).squeeze(-1).double().cpu().numpy()
        scores, intervals = detection_scores(logits, spoiled)
        asked = int((spoiled.labels.flat != UNSCORED).sum())
        if options.quick:
            return Evaluation(scores, examples=asked, split=dataset.name)
        shown = [_show_row(dataset.tokenizer, logits, spoiled, row) for row in spoiled.pick_readable(SHOWN)]
        return Evaluation(scores, intervals, asked, ReplacedDetails(replaced=shown), dataset.name)

    def baselines(self, prepared: Prepared[TaskState, Passages], say: Say) -> list[Baseline]:
        counts = narrow(prepared.test.noise, Replacements).counts
        return replaced_baselines(counts, self.corrupt(prepared.test, quick=False), say)

    def predict(self, model: Model, state: TaskState, tokenizers: Tokenizers, inputs: Inputs, **options: Any) -> list[Prediction]:
        """The tokens of a text that are the likeliest not to be its author's, the first of them as the answer."""
        vocabulary = Vocabulary(tokenizers["tokenizer"])
        return [self._suspects(model, vocabulary, example["text"]) for example in as_examples(inputs, "text")]

    def _suspects(self, model: Model, vocabulary: Vocabulary, text: str) -> Prediction:
        tokenizer = vocabulary.tokenizer
        ids = torch.tensor(self.ids_of(model, tokenizer, text))
        with eval_mode(model):
            logits, _ = model(Batch(Input(ids[None], Seq.from_padded([len(ids)]))).to(device_of(model)))
        p = logits[0, :, 0].sigmoid().cpu().masked_fill(vocabulary.special[ids], 0.0)
        likely = p.topk(min(SUSPECTS, len(p)))
        names = readable_tokens(tokenizer, ids[likely.indices].tolist())
        scores = {
            f"{name} ({place})": value for name, place, value in zip(names, likely.indices.tolist(), likely.values.tolist(), strict=True)
        }
        return Prediction(text, names[0], float(likely.values[0]), scores)

    def sections(self, evaluation: Evaluation) -> list[Section]:
        return replaced_sections(evaluation)


@dataclass(frozen=True)
class Replacements:
    """Noise drawn from counts of a text; see `passages.Noise`."""

    config: ReplacedConfig
    vocabulary: Vocabulary
    counts: Neighbours

    def __call__(self, ids: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        chosen = choose(ids, self.vocabulary, self.config.share, whole_words=self.config.whole_words, generator=generator)
        flat = ids.flatten()
        places = chosen.flatten().nonzero().squeeze(1)  # a special token stands on either side of every text
        numbers = torch.rand(len(places), 2, generator=generator).double().numpy()
        left, own, right = (flat[places + step].numpy() for step in (-1, 0, 1))
        spoiled = flat.clone()
        spoiled[places] = torch.from_numpy(self.counts.draw(left, own, right, numbers))
        labels = torch.where(self.vocabulary.special[flat], UNSCORED, (spoiled != flat).long())
        return spoiled.view_as(ids), labels.view_as(ids)


def _show_row(tokenizer: Tokenizer, logits: np.ndarray[Any, np.dtype[np.float64]], spoiled: Spoiled, row: int) -> ReplacedPassage:
    """A passage, which of its tokens were replaced, and what the model thinks of each."""
    start, length = int(spoiled.ids.starts[row]), int(spoiled.ids.lengths[row])
    labels = spoiled.labels[row]
    p = np.where(labels == UNSCORED, 0.0, 1 / (1 + np.exp(-logits[start : start + length])))
    names = lambda ids: readable_tokens(tokenizer, ids)
    replaced = np.flatnonzero(labels == 1)
    return {
        "tokens": names(spoiled.ids[row]),
        "probability": [round(float(value), 4) for value in p],
        "places": replaced.tolist(),
        "true": names(spoiled.true[row][replaced]),
    }
