"""Translation: a text in another language, by an encoder and a decoder (Sutskever et al. 2014; Bahdanau et al. 2015)."""

from typing import Literal

from pydantic import Field

from attentif.data import TRANSLATE, Table
from attentif.errors import ConfigError
from attentif.models import ModelConfig
from attentif.tasks.baselines import translation_baselines
from attentif.tasks.feed import fitted
from attentif.tasks.report import written_sections
from attentif.tasks.task import TASKS, Baseline, Evaluation, Prepared, Say, Tokenizers
from attentif.tasks.writing.seq2seq import DRAWS, Pairs, Seq2Seq, Seq2SeqConfig
from attentif.text import TokenizerConfig
from attentif.view.blocks import Section
from attentif.view.words import Text


@TASKS.register
class TranslateConfig(Seq2SeqConfig):
    """A text from another."""

    kind: Literal["translate"] = Field("translate", description="a text from another, by an encoder and a decoder")
    metric: Literal["bleu", "chrf", "exact_match"] = Field("bleu", description="the score that counts: bleu, chrf, exact_match")
    separate_vocab: bool = Field(False, description="a tokenizer of its own for the target")

    def build(self) -> "Translate":
        return Translate(self)


class Translate(Seq2Seq):
    config: TranslateConfig
    optional_inputs = ("target",)
    reads = "source"
    roles = TRANSLATE
    shown = "translations"

    def check(self, model: ModelConfig) -> None:
        if self.config.separate_vocab and model.shared:
            raise ConfigError("task.separate_vocab: the model shares one embedding (model.shared = true); one of them must give way")
        super().check(model)

    def tokenizers(self, train: Table, text: TokenizerConfig | Tokenizers, say: Say) -> Tokenizers:
        if not self.config.separate_vocab:
            return super().tokenizers(train, text, say)
        return {name: fitted(text, name, train[role], say) for name, role in (("tokenizer", "source"), ("target", "target"))}

    def baselines(self, prepared: Prepared, say: Say) -> list[Baseline]:
        train, test = prepared.train, prepared.test
        assert isinstance(train, Pairs)
        assert isinstance(test, Pairs)
        return translation_baselines((train.sources, train.references), (test.sources, test.references), say, draws=DRAWS)

    def sections(self, evaluation: Evaluation) -> list[Section]:
        heads = (Text("source", "source"), Text("traduction du modèle", "the model's translation"), Text("référence", "reference"))
        return written_sections(evaluation, self.shown, Text("Traductions", "Translations"), heads)
