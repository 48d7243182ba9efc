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

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from attentif.data import DataConfig
from attentif.models import Batch, Input, Model, ModelConfig, evaluating
from attentif.models.heads import TokensHeadConfig
from attentif.nn.seq import Seq
from attentif.tasks.feed import as_examples, device_of, each_batch
from attentif.tasks.looking import shown_tokens
from attentif.tasks.pretraining.masking import choose
from attentif.tasks.pretraining.neighbours import Neighbours
from attentif.tasks.pretraining.passages import Passages
from attentif.tasks.pretraining.reading import Reading, ReadingConfig, Spoiled
from attentif.tasks.pretraining.replaced_report import detection_scores, replaced_baselines, replaced_sections
from attentif.tasks.ragged import UNSCORED
from attentif.tasks.task import TASKS, Baseline, Dataset, Evaluation, Example, Loss, Prediction, Prepared, Progress, Say, Tokenizers
from attentif.tasks.tokens import scored
from attentif.tasks.word_vectors import begin_with_skip_gram
from attentif.text import Tokenizer
from attentif.view.blocks import Section

SHOWN = 3  # passages in the report
SUSPECTS = 5  # tokens that an answer names


@TASKS.register
class ReplacedConfig(ReadingConfig):
    """Which tokens were replaced by plausible others."""

    kind: Literal["replaced"] = Field("replaced", description="which tokens were replaced by plausible others")
    vectors: bool = Field(
        True, description="begin with word vectors (skip-gram) of the training texts, where neither a run nor a file brings others"
    )

    def build(self) -> "Replaced":
        return Replaced(self)


class Replaced(Reading):
    config: ReplacedConfig
    metric = "auc"
    counts: Neighbours | None = None  # what replacements are drawn from

    def adapt(self, model: ModelConfig) -> ModelConfig:
        """One score for each token, by ELECTRA's head where the model has another one."""
        if isinstance(model.head, TokensHeadConfig) and model.head.classes == 1:
            return model
        return model.with_head(TokensHeadConfig(classes=1, hidden=True))

    def learn_from(self, train: Passages) -> None:
        special = self.vocabulary.special.nonzero().squeeze(1).numpy()
        self.counts = Neighbours(train.running_text(), self.vocabulary.tokenizer.vocab, special)

    def read(self, data: DataConfig, tokenizers: Tokenizers, model: ModelConfig, say: Say) -> Passages:
        """Other texts: the training text is not at hand, so that replacements are drawn from their own counts."""
        passages = super().read(data, tokenizers, model, say)
        self.learn_from(passages)
        say("replacements are drawn from the counts of these texts")
        return passages

    def begin(self, model: Model, prepared: Prepared, say: Say) -> None:
        train = prepared.train
        assert isinstance(train, Passages)
        if self.config.vectors:
            begin_with_skip_gram(model, train.texts, say)

    def spoil(self, ids: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        assert self.counts is not None
        chosen = choose(ids, self.vocabulary, self.config.share, whole_words=self.config.whole_words, generator=generator)
        flat = ids.flatten()
        places = chosen.flatten().nonzero().squeeze(1)  # a special token stands on either side of every text
        numbers = torch.rand(len(places), 2, generator=generator).double().numpy()
        left, own, right = (flat[places + step].numpy() for step in (-1, 0, 1))
        spoiled = flat.clone()
        spoiled[places] = torch.from_numpy(self.counts.draw(left, own, right, numbers))
        labels = torch.where(self.vocabulary.special[flat], UNSCORED, (spoiled != flat).long())
        return spoiled.view_as(ids), labels.view_as(ids)

    def step(self, model: Model, batch: Batch) -> Loss:
        source, labels = self.spoiled_input(batch.source)
        x, seq = model.hidden(Batch(source))
        found, wanted, _ = scored(x, labels)
        logits = model.head(found, seq).squeeze(-1)
        total = F.binary_cross_entropy_with_logits(logits, wanted.to(logits.dtype), reduction="sum")
        return Loss(total, len(wanted), {"accuracy": ((logits.detach() > 0) == wanted).sum()})

    def evaluate(
        self, model: Model, dataset: Dataset, *, budget: int = 8192, quick: bool = False, progress: Progress | None = None
    ) -> Evaluation:
        spoiled = self.spoiled(dataset, quick)
        logits = np.zeros(len(spoiled.labels.flat))
        with evaluating(model):
            for batch in each_batch(model, spoiled, budget, progress):
                assert batch.labels is not None
                x, seq = model.hidden(batch)
                found, _, places = scored(x, batch.labels)
                rows, within = seq.row.flatten()[places].cpu().numpy(), seq.pos.flatten()[places].cpu().numpy()
                logits[spoiled.ids.starts[np.array(batch.rows)[rows]] + within] = model.head(found, seq).squeeze(-1).double().cpu().numpy()
        scores, intervals = detection_scores(logits, spoiled)
        asked = int((spoiled.labels.flat != UNSCORED).sum())
        if quick:
            return Evaluation(scores, examples=asked, split=dataset.name)
        shown = [self._shown(logits, spoiled, row) for row in spoiled.worth_showing(SHOWN)]
        return Evaluation(scores, intervals, asked, {"replaced": shown}, dataset.name)

    def _shown(self, logits: np.ndarray[Any, np.dtype[np.float64]], spoiled: Spoiled, row: int) -> dict[str, Any]:
        """A passage, which of its tokens were replaced, and what the model thinks of each."""
        start, length = int(spoiled.ids.starts[row]), int(spoiled.ids.lengths[row])
        labels = spoiled.labels[row]
        p = np.where(labels == UNSCORED, 0.0, 1 / (1 + np.exp(-logits[start : start + length])))
        names = lambda ids: shown_tokens(self.vocabulary.tokenizer, ids)
        replaced = np.flatnonzero(labels == 1)
        return {
            "tokens": names(spoiled.ids[row]),
            "probability": [round(float(value), 4) for value in p],
            "places": replaced.tolist(),
            "true": names(spoiled.true[row][replaced]),
        }

    def baselines(self, prepared: Prepared, say: Say) -> list[Baseline]:
        assert self.counts is not None
        return replaced_baselines(self.counts, self.spoiled(prepared.test, quick=False), say)

    def predict(self, model: Model, tokenizers: Tokenizers, inputs: Sequence[str | Example], **options: Any) -> list[Prediction]:
        """The tokens of a text that are the likeliest not to be its author's, the first of them as the answer."""
        self.use(tokenizers)
        return [self._suspects(model, self.vocabulary.tokenizer, example["text"]) for example in as_examples(inputs, "text")]

    def _suspects(self, model: Model, tokenizer: Tokenizer, text: str) -> Prediction:
        ids = torch.tensor(self.ids_of(model, tokenizer, text))
        with evaluating(model):
            logits, _ = model(Batch(Input(ids[None], Seq.padded([len(ids)]))).to(device_of(model)))
        p = logits[0, :, 0].sigmoid().cpu().masked_fill(self.vocabulary.special[ids], 0.0)
        likely = p.topk(min(SUSPECTS, len(p)))
        names = shown_tokens(tokenizer, ids[likely.indices].tolist())
        scores = {
            f"{name} ({place})": value for name, place, value in zip(names, likely.indices.tolist(), likely.values.tolist(), strict=True)
        }
        return Prediction(text, names[0], float(likely.values[0]), scores)

    def sections(self, evaluation: Evaluation) -> list[Section]:
        return replaced_sections(evaluation)
