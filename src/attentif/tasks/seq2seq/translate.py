"""Translation: a text in another language, by an encoder and a decoder (Sutskever et al. 2014; Bahdanau et al. 2015)."""

from typing import Literal

from pydantic import Field

from attentif.data import TRANSLATE, Table
from attentif.errors import ConfigError
from attentif.models import ModelConfig
from attentif.tasks.answers import Baseline, Evaluation
from attentif.tasks.base import TASKS, Prepared, Say, TaskState, Tokenizers
from attentif.tasks.baselines import translation_baselines
from attentif.tasks.seq2seq.base import DRAWS, Pairs, Seq2Seq, Seq2SeqConfig
from attentif.tasks.seq2seq.report import written_sections
from attentif.tasks.tokenizers import TokenizerSource, fit_tokenizer
from attentif.view.blocks import Section
from attentif.view.words import Text


@TASKS.register
class TranslateConfig(Seq2SeqConfig):
    """Write a text from another."""

    kind: Literal["translate"] = Field("translate", description="translation with an encoder and a decoder")
    metric: Literal["bleu", "chrf", "exact_match"] = Field("bleu", description="main score: bleu, chrf, exact_match")
    separate_vocab: bool = Field(False, description="train a separate tokenizer for the target")

    def build(self) -> "Translate":
        return Translate(self)


class Translate(Seq2Seq[TaskState]):
    config: TranslateConfig
    optional_inputs = ("target",)
    reads = "source"
    roles = TRANSLATE

    def check(self, model: ModelConfig) -> None:
        if self.config.separate_vocab and model.shared:
            raise ConfigError("task.separate_vocab: the model shares one embedding (model.shared = true); one of them must give way")
        super().check(model)

    def tokenizers(self, train: Table, text: TokenizerSource, say: Say) -> Tokenizers:
        if not self.config.separate_vocab:
            return super().tokenizers(train, text, say)
        return {name: fit_tokenizer(text, name, train[role], say) for name, role in (("tokenizer", "source"), ("target", "target"))}

    def baselines(self, prepared: Prepared[TaskState, Pairs], say: Say) -> list[Baseline]:
        train, test = prepared.train, prepared.test
        return translation_baselines((train.sources, train.references), (test.sources, test.references), say, draws=DRAWS)

    def sections(self, evaluation: Evaluation) -> list[Section]:
        heads = (Text("source", "source"), Text("traduction du modèle", "the model's translation"), Text("référence", "reference"))
        return written_sections(evaluation, Text("Traductions", "Translations"), heads)
