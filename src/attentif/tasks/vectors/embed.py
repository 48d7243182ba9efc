"""Sentence embeddings: a vector for a text, near those of texts that mean the same (Reimers & Gurevych 2019).

v = pool(encoder(x)),  of length 1 where the head says so: a product of two is then their cosine.

Nothing is trained here: it is what an imported encoder without a head is for. `model.from` trains one on another task.
"""

from collections.abc import Sequence
from typing import Any, Literal, NoReturn

from pydantic import Field

from attentif.data import DataConfig
from attentif.errors import ConfigError, UsageError
from attentif.models import Batch, Model, ModelConfig
from attentif.models.heads.embed import EmbedHead, EmbedHeadConfig
from attentif.tasks.feed import as_examples, limit_of
from attentif.tasks.labels.classify_data import LabelledTexts, asked
from attentif.tasks.looking import attention_maps, shown_tokens
from attentif.tasks.task import TASKS, Dataset, Evaluation, Example, Loss, Prediction, Prepared, Progress, Say, Task, TaskConfig, Tokenizers
from attentif.tasks.vectors.sentences import Vectors, read_texts, sentence_vectors
from attentif.text import Tokenizer, TokenizerConfig
from attentif.view.blocks import AttentionMaps

SHOWN = 4  # components in one line of an answer


@TASKS.register
class EmbedConfig(TaskConfig):
    """A vector for a text: what a model without a head is for."""

    kind: Literal["embed"] = Field("embed", description="a vector for a text, near those of texts that mean the same")
    max_len: int = Field(512, gt=2, description="longer texts are cut to so many tokens")

    def build(self) -> "Embed":
        return Embed(self)


class Embed(Task):
    config: EmbedConfig
    offers = ("embed",)
    metric = "loss"

    def adapt(self, model: ModelConfig) -> ModelConfig:
        return model if isinstance(model.head, EmbedHeadConfig) else model.with_head(EmbedHeadConfig())

    def check(self, model: ModelConfig) -> None:
        if model.encoder is not None and model.decoder is not None:
            raise ConfigError("model: embed reads with one stack, and this model has an encoder and a decoder; take encoder-tiny, say")

    # -------------------------------------------------------------------------------------------------------------- answers

    def vectors(
        self, model: Model, tokenizers: Tokenizers, texts: Sequence[str], *, budget: int = 8192, progress: Progress | None = None
    ) -> Vectors:
        """(texts, D), in their order, as the head asks; texts of similar length are read together."""
        assert isinstance(model.head, EmbedHead)
        read = read_texts(self, model, tokenizers, texts)
        return sentence_vectors(model, read, model.head.pool, normalise=model.head.normalise, budget=budget, progress=progress)

    def predict(
        self, model: Model, tokenizers: Tokenizers, inputs: Sequence[str | Example], *, budget: int = 8192, **options: Any
    ) -> list[Prediction]:
        """The vector of each text, in `details`."""
        texts = [example["text"] for example in as_examples(inputs, "text")]
        found = self.vectors(model, tokenizers, texts, budget=budget).tolist()
        shown = [", ".join(f"{value:.3f}" for value in vector[:SHOWN]) for vector in found]
        return [Prediction(text, f"[{some}, ...]", details={"vector": own}) for text, some, own in zip(texts, shown, found, strict=True)]

    def _asked(self, model: Model, tokenizer: Tokenizer, examples: Sequence[Example]) -> LabelledTexts:
        return asked(tokenizer, examples, limit_of(self.config.max_len, model.config.max_len), pairs=False)

    def maps(self, model: Model, tokenizers: Tokenizers, inputs: Sequence[str | Example]) -> list[AttentionMaps]:
        tokenizer, examples = tokenizers["tokenizer"], as_examples(inputs, "text")
        source, found = self._asked(model, tokenizer, examples), []
        for row, example in enumerate(examples):
            title = f"« {example['text']} »"
            found += attention_maps(model, source.batch([row]), shown_tokens(tokenizer, source.ids[row]), title=title)
        return found

    # ------------------------------------------------------------------------------------------------- what there is nothing to do for

    def prepare(self, data: DataConfig, text: TokenizerConfig | Tokenizers, model: ModelConfig, say: Say) -> Prepared:
        _refuse()

    def read(self, data: DataConfig, tokenizers: Tokenizers, model: ModelConfig, say: Say) -> Dataset:
        _refuse()

    def step(self, model: Model, batch: Batch) -> Loss:
        _refuse()

    def evaluate(
        self, model: Model, dataset: Dataset, *, budget: int = 8192, quick: bool = False, progress: Progress | None = None
    ) -> Evaluation:
        _refuse()


def _refuse() -> NoReturn:
    raise UsageError("embed gives vectors, and is neither trained nor scored; train another task from this model (model.from)")
