"""Summaries: a short text from a long one, by an encoder and a decoder; scored by ROUGE beside the text's first sentences (the lead)."""

import re
from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from attentif.data import SUMMARISE, DataConfig
from attentif.extras import require_extra
from attentif.models import ModelConfig
from attentif.tasks.answers import Baseline, Evaluation
from attentif.tasks.base import TASKS, Prepared, Say, TaskState
from attentif.tasks.baselines import measure_time, nearest
from attentif.tasks.batches import min_limit
from attentif.tasks.metrics import TextScores
from attentif.tasks.seq2seq.base import DRAWS, Pairs, Seq2Seq, Seq2SeqConfig, Slice
from attentif.tasks.seq2seq.report import written_sections
from attentif.tasks.text_metrics import bootstrap_mean, rouge_rows, rouge_scores
from attentif.tasks.tokenizers import TokenizerSource
from attentif.view.blocks import Section
from attentif.view.words import Text

SENTENCE = re.compile(r".+?(?:[.!?…]+(?=\s|$)|$)", re.DOTALL)


@TASKS.register
class SummariseConfig(Seq2SeqConfig):
    """A short text from a long one."""

    kind: Literal["summarise"] = Field("summarise", description="summarisation with an encoder and a decoder")
    metric: Literal["rouge1", "rouge2", "rougeL"] = Field("rougeL", description="main score: rouge1, rouge2, rougeL")
    max_len: int = Field(512, gt=1, description="maximum tokens of a text; longer ones are truncated")
    max_summary: int = Field(
        128, gt=1, description="maximum tokens of a summary; longer ones are dropped from training and truncated elsewhere"
    )

    def build(self) -> "Summarise":
        return Summarise(self)


class Summarise(Seq2Seq[TaskState]):
    config: SummariseConfig
    reads = "text"
    roles = SUMMARISE
    limited_by = "task.max_summary"
    cuts_sources = True

    def prepare(
        self, data: DataConfig, text: TokenizerSource, model: ModelConfig, say: Say, state: TaskState | None = None
    ) -> Prepared[TaskState, Pairs]:
        require_extra("rouge_score")  # before anything is trained that could not be scored
        return super().prepare(data, text, model, say, state)

    def limits(self, model: ModelConfig) -> tuple[int, int]:
        return min_limit(self.config.max_len, model.max_len), min_limit(self.config.max_summary, model.max_target_len)

    def room(self, source: int) -> int:
        return self.config.max_summary

    def score_texts(self, written: Sequence[str], references: Sequence[str], draws: int) -> TextScores:
        return rouge_scores(written, references, draws=draws)

    def slices(self, written: list[str], references: list[str]) -> tuple[str, Slice]:
        rows = rouge_rows(written, references)[self.config.metric]
        return self.config.metric, lambda chosen: (float(rows[chosen].mean()), bootstrap_mean(rows[chosen], 200))

    def group_scores(self, written: list[str], references: list[str]) -> dict[str, float]:
        return rouge_scores(written, references).scores

    def baselines(self, prepared: Prepared[TaskState, Pairs], say: Say) -> list[Baseline]:
        """The lead, of as many sentences as summaries have, and the summary of the most similar training text."""
        train, test = prepared.train, prepared.test
        size = max(1, round(float(np.mean([len(sentences(summary)) for summary in train.references]))))
        systems = [
            (
                Text(f"début du texte ({size} phrase{'s' if size > 1 else ''})", f"lead ({size} sentence{'s' if size > 1 else ''})"),
                lambda: [" ".join(sentences(text)[:size]) for text in test.sources],
            ),
            (
                Text("résumé de l'exemple le plus proche", "summary of the closest example"),
                lambda: [train.references[row] for row in nearest(train.sources, test.sources)],
            ),
        ]
        found = []
        for name, write in systems:
            with measure_time() as clock:
                written = write()
            measured = rouge_scores(written, test.references, draws=DRAWS)
            found.append(Baseline(name, measured.scores, measured.intervals, clock.seconds))
            say(f"baseline {name.en}: ROUGE-L {100 * measured.scores['rougeL']:.1f} ({clock.seconds:.1f} s)")
        return found

    def sections(self, evaluation: Evaluation) -> list[Section]:
        heads = (Text("texte", "text"), Text("résumé du modèle", "the model's summary"), Text("référence", "reference"))
        return written_sections(evaluation, Text("Résumés", "Summaries"), heads)


def sentences(text: str) -> list[str]:
    return [found for match in SENTENCE.finditer(text) if (found := match.group().strip())]
