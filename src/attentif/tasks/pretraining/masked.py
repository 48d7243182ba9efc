"""Masked language modelling: hidden tokens, from those on both sides (Devlin et al. 2019; Liu et al. 2019 without the pairs).

L = mean over hidden tokens of −log p(x_t | x̃)        and with `next_sentence`, + mean over pairs of −log p(the second follows, or not)
"""

from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from attentif.models import Batch, Model, ModelConfig, eval_mode
from attentif.models.frontends import TokensConfig
from attentif.models.heads import LanguageHead, LanguageHeadConfig
from attentif.nn.norm import LayerNormConfig
from attentif.nn.seq import Seq
from attentif.tasks.answers import Baseline, EvalOptions, Evaluation, Prediction
from attentif.tasks.attention import readable_tokens
from attentif.tasks.base import TASKS, Inputs, Loss, Prepared, Say, TaskState, Tokenizers
from attentif.tasks.batches import as_examples, iterate_batches
from attentif.tasks.metrics import mean_interval, perplexity, share
from attentif.tasks.narrow import labels_of, narrow
from attentif.tasks.pretraining.base import PretrainingTask, ReadingConfig, Spoiled
from attentif.tasks.pretraining.fill import Filled, fill, probabilities
from attentif.tasks.pretraining.masked_report import HiddenPassage, MaskedDetails, masked_baselines, masked_sections
from attentif.tasks.pretraining.masking import Vocabulary, choose, hide
from attentif.tasks.pretraining.passages import Noise, NoisyBatch, PassagePairs, Passages
from attentif.tasks.ragged import UNSCORED
from attentif.tasks.token_loss import select_scored
from attentif.text import Tokenizer
from attentif.view.blocks import Section
from attentif.view.words import IN_TOKENS, Text

GUESSES = 5  # for each hidden token
SHOWN = 3  # passages in the report


@TASKS.register
class MaskedConfig(ReadingConfig):
    """Hidden tokens, from those on both sides of them."""

    kind: Literal["masked"] = Field("masked", description="masked language modelling")
    next_sentence: bool = Field(False, description="next-sentence prediction on pairs of texts (BERT)")

    def build(self) -> "Masked":
        return Masked(self)


class Masked(PretrainingTask):
    config: MaskedConfig
    offers = ("fill",)
    evaluates_by_block = True
    metric = "accuracy"
    unit, scored_unit = Text("passages", "passages"), IN_TOKENS

    def adapt(self, model: ModelConfig) -> ModelConfig:
        """BERT's head where the model has another one; segments where there are pairs."""
        head, frontend = model.head, model.frontend
        if not isinstance(head, LanguageHeadConfig):
            head = LanguageHeadConfig(bias=True, transform=LayerNormConfig())
        if self.config.next_sentence != head.follows:
            head = head.replace(follows=self.config.next_sentence)
        if self.config.next_sentence and isinstance(frontend, TokensConfig) and frontend.segments < 2:
            frontend = frontend.replace(segments=2)
        return model if (head, frontend) == (model.head, model.frontend) else model.replace(head=head, frontend=frontend)

    @property
    def rows(self) -> type[Passages]:
        return PassagePairs if self.config.next_sentence else Passages

    def noise(self, train: Passages) -> Noise:
        vocabulary, config = Vocabulary(train.tokenizer), self.config

        def mask(ids: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
            chosen = choose(ids, vocabulary, config.share, whole_words=config.whole_words, generator=generator)
            return hide(ids, chosen, vocabulary, generator=generator)

        return mask

    def hidden_states(self, model: Model, batch: Batch) -> tuple[Tensor, Seq]:
        """The vectors from which tokens are told."""
        return model.hidden(batch)

    def step(self, model: Model, batch: Batch) -> Loss:
        head = narrow(model.head, LanguageHead)
        x, seq = self.hidden_states(model, batch)
        found, wanted, _ = select_scored(x, labels_of(batch))
        total = head.loss(found, wanted)
        if not self.config.next_sentence:
            return Loss(total, len(wanted))
        scores, strange = head.follow_scores(x, seq), narrow(narrow(batch, NoisyBatch).strange, Tensor).to(x.device)
        per_pair = len(wanted) / len(strange)  # the mean over pairs counts as much as the mean over hidden tokens
        right = (scores.detach().argmax(-1) == strange).sum()
        return Loss(total + per_pair * F.cross_entropy(scores, strange, reduction="sum"), len(wanted), {"follows": per_pair * right})

    def score(self, model: Model, state: TaskState, dataset: Passages, options: EvalOptions) -> Evaluation:
        spoiled = self.corrupt(dataset, options.quick)
        sums = np.zeros((4, len(spoiled)))  # nats, tokens found, tokens asked for, pairs found
        head = narrow(model.head, LanguageHead)
        with eval_mode(model):
            for batch in iterate_batches(model, spoiled, options):
                x, seq = self.hidden_states(model, batch)
                found, wanted, places = select_scored(x, labels_of(batch))
                logits = head(found, seq)
                rows = np.array(batch.rows)[seq.row.flatten()[places].cpu().numpy()]
                nats = F.cross_entropy(logits, wanted, reduction="none").double().cpu().numpy()
                right = (logits.argmax(-1) == wanted).double().cpu().numpy()
                for row, values in enumerate((nats, right, np.ones_like(nats))):
                    np.add.at(sums[row], rows, values)
                if spoiled.strange is not None:
                    answers = head.follow_scores(x, seq).argmax(-1).cpu().numpy()
                    sums[3, list(batch.rows)] = answers == spoiled.strange[list(batch.rows)]
        nats, right, asked, _ = sums
        asked_for = max(float(asked.sum()), 1.0)
        scores = {"accuracy": float(right.sum()) / asked_for, "loss": float(nats.sum()) / asked_for}
        scores["perplexity"] = perplexity(scores["loss"])
        if spoiled.strange is not None:
            scores["follows"] = float(sums[3].mean())
        if options.quick:
            return Evaluation(scores, examples=int(asked_for), split=dataset.name)
        low, high = mean_interval(nats, asked)
        intervals = {"accuracy": mean_interval(right, asked), "loss": (low, high), "perplexity": (perplexity(low), perplexity(high))}
        if spoiled.strange is not None:
            intervals["follows"] = share(int(sums[3].sum()), len(spoiled))[1]
        shown = [self._show_row(model, dataset.tokenizer, spoiled, row) for row in spoiled.pick_readable(SHOWN)]
        return Evaluation(scores, intervals, int(asked_for), MaskedDetails(hidden=shown), dataset.name)

    def _show_row(self, model: Model, tokenizer: Tokenizer, spoiled: Spoiled, row: int) -> HiddenPassage:
        """A passage, what is hidden of it, and what the model guesses."""
        labels = spoiled.labels[row]
        places = np.flatnonzero(labels != UNSCORED)
        p = probabilities(model, spoiled.batch([row]), places.tolist(), self.hidden_states)
        best, names = p.topk(SHOWN), lambda ids: readable_tokens(tokenizer, ids)
        return {
            "tokens": readable_tokens(tokenizer, spoiled.ids[row]),
            "places": places.tolist(),
            "true": names(labels[places]),
            "probability": p[range(len(places)), labels[places]].tolist(),
            "guesses": [names(ids) for ids in best.indices.tolist()],
            "probabilities": best.values.tolist(),
        }

    def baselines(self, prepared: Prepared[TaskState, Passages], say: Say) -> list[Baseline]:
        return masked_baselines(prepared.train, self.corrupt(prepared.test, quick=False), Vocabulary(prepared.train.tokenizer), say)

    def predict(self, model: Model, state: TaskState, tokenizers: Tokenizers, inputs: Inputs, **options: Any) -> list[Prediction]:
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
        return fill(model, tokenizers["tokenizer"], text, count, self._context(model.config), self.hidden_states)

    def sections(self, evaluation: Evaluation) -> list[Section]:
        return masked_sections(evaluation)
