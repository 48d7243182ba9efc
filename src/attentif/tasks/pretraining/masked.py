"""Masked language modelling: hidden tokens, from those on both sides (Devlin et al. 2019; Liu et al. 2019 without the pairs).

L = mean over hidden tokens of −log p(x_t | x̃)        and with `next_sentence`, + mean over pairs of −log p(the second follows, or not)
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from attentif.models import Batch, Model, ModelConfig, evaluating
from attentif.models.frontends import TokensConfig
from attentif.models.heads import LanguageHead, LanguageHeadConfig
from attentif.nn.norm import LayerNormConfig
from attentif.nn.seq import Seq
from attentif.tasks.feed import as_examples, each_batch
from attentif.tasks.looking import shown_tokens
from attentif.tasks.metrics import mean_interval, perplexity, share
from attentif.tasks.pretraining.fill import Filled, fill, probabilities
from attentif.tasks.pretraining.masked_report import masked_baselines, masked_sections
from attentif.tasks.pretraining.masking import choose, hide
from attentif.tasks.pretraining.passages import Pairs, Passages
from attentif.tasks.pretraining.reading import Reading, ReadingConfig, Spoiled
from attentif.tasks.ragged import UNSCORED
from attentif.tasks.task import TASKS, Baseline, Dataset, Evaluation, Example, Loss, Prediction, Prepared, Progress, Say, Tokenizers
from attentif.tasks.tokens import scored
from attentif.text import Tokenizer
from attentif.view.blocks import Section

GUESSES = 5  # for each hidden token
SHOWN = 3  # passages in the report


@TASKS.register
class MaskedConfig(ReadingConfig):
    """Hidden tokens, from those on both sides of them."""

    kind: Literal["masked"] = Field("masked", description="hidden tokens, from those on both sides of them")
    next_sentence: bool = Field(False, description="read pairs of texts, and tell whether the second follows the first (BERT)")

    def build(self) -> "Masked":
        return Masked(self)


class Masked(Reading):
    config: MaskedConfig
    offers = ("fill",)
    metric = "accuracy"

    def adapt(self, model: ModelConfig) -> ModelConfig:
        """BERT's head where the model has another one; segments where there are pairs."""
        head, frontend = model.head, model.frontend
        if not isinstance(head, LanguageHeadConfig):
            head = LanguageHeadConfig(bias=True, transform=LayerNormConfig())
        if self.config.next_sentence != head.follows:
            head = head.changed(follows=self.config.next_sentence)
        if self.config.next_sentence and isinstance(frontend, TokensConfig) and frontend.segments < 2:
            frontend = frontend.changed(segments=2)
        return model if (head, frontend) == (model.head, model.frontend) else model.changed(head=head, frontend=frontend)

    @property
    def rows(self) -> type[Passages]:
        return Pairs if self.config.next_sentence else Passages

    def spoil(self, ids: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        chosen = choose(ids, self.vocabulary, self.config.share, whole_words=self.config.whole_words, generator=generator)
        return hide(ids, chosen, self.vocabulary, generator=generator)

    def seen(self, model: Model, batch: Batch) -> tuple[Tensor, Seq]:
        """The vectors from which tokens are told."""
        return model.hidden(batch)

    def step(self, model: Model, batch: Batch) -> Loss:
        assert isinstance(model.head, LanguageHead)  # what `adapt` gives every model
        source, labels = self.spoiled_input(batch.source)
        x, seq = self.seen(model, Batch(source))
        found, wanted, _ = scored(x, labels)
        total = model.head.loss(found, wanted)
        if not self.config.next_sentence:
            return Loss(total, len(wanted))
        assert batch.labels is not None
        scores = model.head.follow_scores(x, seq)
        per_pair = len(wanted) / len(batch.labels)  # the mean over pairs counts as much as the mean over hidden tokens
        right = (scores.detach().argmax(-1) == batch.labels).sum()
        return Loss(total + per_pair * F.cross_entropy(scores, batch.labels, reduction="sum"), len(wanted), {"follows": per_pair * right})

    def evaluate(
        self, model: Model, dataset: Dataset, *, budget: int = 8192, quick: bool = False, progress: Progress | None = None
    ) -> Evaluation:
        spoiled = self.spoiled(dataset, quick)
        sums = np.zeros((4, len(spoiled)))  # nats, tokens found, tokens asked for, pairs found
        assert isinstance(model.head, LanguageHead)
        with evaluating(model):
            for batch in each_batch(model, spoiled, budget, progress):
                assert batch.labels is not None
                x, seq = self.seen(model, batch)
                found, wanted, places = scored(x, batch.labels)
                logits = model.head(found, seq)
                rows = np.array(batch.rows)[seq.row.flatten()[places].cpu().numpy()]
                nats = F.cross_entropy(logits, wanted, reduction="none").double().cpu().numpy()
                right = (logits.argmax(-1) == wanted).double().cpu().numpy()
                for row, values in enumerate((nats, right, np.ones_like(nats))):
                    np.add.at(sums[row], rows, values)
                if spoiled.strange is not None:
                    answers = model.head.follow_scores(x, seq).argmax(-1).cpu().numpy()
                    sums[3, list(batch.rows)] = answers == spoiled.strange[list(batch.rows)]
        nats, right, asked, _ = sums
        asked_for = max(float(asked.sum()), 1.0)
        scores = {"accuracy": float(right.sum()) / asked_for, "loss": float(nats.sum()) / asked_for}
        scores["perplexity"] = perplexity(scores["loss"])
        if spoiled.strange is not None:
            scores["follows"] = float(sums[3].mean())
        if quick:
            return Evaluation(scores, examples=int(asked_for), split=dataset.name)
        low, high = mean_interval(nats, asked)
        intervals = {"accuracy": mean_interval(right, asked), "loss": (low, high), "perplexity": (perplexity(low), perplexity(high))}
        if spoiled.strange is not None:
            intervals["follows"] = share(int(sums[3].sum()), len(spoiled))[1]
        tokenizer = self.vocabulary.tokenizer
        shown = [self._shown(model, tokenizer, spoiled, row) for row in spoiled.worth_showing(SHOWN)]
        return Evaluation(scores, intervals, int(asked_for), {"hidden": shown}, dataset.name)

    def _shown(self, model: Model, tokenizer: Tokenizer, spoiled: Spoiled, row: int) -> dict[str, Any]:
        """A passage, what is hidden of it, and what the model guesses."""
        labels = spoiled.labels[row]
        places = np.flatnonzero(labels != UNSCORED)
        p = probabilities(model, spoiled.batch([row]), places.tolist(), self.seen)
        best, names = p.topk(SHOWN), lambda ids: shown_tokens(tokenizer, ids)
        return {
            "tokens": shown_tokens(tokenizer, spoiled.ids[row]),
            "places": places.tolist(),
            "true": names(labels[places]),
            "probability": p[range(len(places)), labels[places]].tolist(),
            "guesses": [names(ids) for ids in best.indices.tolist()],
            "probabilities": best.values.tolist(),
        }

    def baselines(self, prepared: Prepared, say: Say) -> list[Baseline]:
        assert isinstance(prepared.train, Passages)
        return masked_baselines(prepared.train, self.spoiled(prepared.test, quick=False), self.vocabulary, say)

    def predict(self, model: Model, tokenizers: Tokenizers, inputs: Sequence[str | Example], **options: Any) -> list[Prediction]:
        """The text with its [MASK] filled in, the likeliest token at each; the scores are those of the first one."""
        found = []
        for example in as_examples(inputs, "text"):
            filled = self.fill(model, tokenizers, example["text"])
            guesses = filled.places[0]
            scores = {guess.word: guess.probability for guess in guesses}
            found.append(Prediction(filled.input, filled.text, guesses[0].probability, scores))
        return found

    def fill(self, model: Model, tokenizers: Tokenizers, text: str, count: int = GUESSES) -> Filled:
        """The likeliest tokens at each hidden place of a text."""
        return fill(model, tokenizers["tokenizer"], text, count, self._context(model.config), self.seen)

    def sections(self, evaluation: Evaluation) -> list[Section]:
        return masked_sections(evaluation)
