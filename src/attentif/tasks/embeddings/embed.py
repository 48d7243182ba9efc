"""Sentence embeddings: a vector for a text, near those of texts that mean the same (Reimers & Gurevych 2019).

v = pool(encoder(x)),  of length 1 where the head says so: a product of two is then their cosine.

Nothing is trained here: it is what an imported encoder without a head is for. `model.from` trains one on another task.
"""

from collections.abc import Sequence
from typing import Any, Literal, NoReturn

from pydantic import Field

from attentif.data import DataConfig
from attentif.errors import UsageError
from attentif.models import Batch, Model, ModelConfig
from attentif.models.heads.embed import EmbedHead, EmbedHeadConfig
from attentif.tasks.attention import attention_maps, map_title, readable_tokens
from attentif.tasks.base import (
    BUDGET,
    TASKS,
    EvalOptions,
    Evaluation,
    Example,
    Inputs,
    Loss,
    Prediction,
    Prepared,
    Progress,
    Say,
    Task,
    TaskConfig,
    TaskState,
    Tokenizers,
    check_one_stack,
)
from attentif.tasks.batches import as_examples, min_limit
from attentif.tasks.classification.data import LabelledTexts, encode_inputs
from attentif.tasks.details import VectorAnswer
from attentif.tasks.embeddings.sentences import Vectors, read_texts, sentence_vectors
from attentif.tasks.narrow import narrow
from attentif.tasks.tokenizers import TokenizerSource
from attentif.text import Tokenizer
from attentif.view.blocks import AttentionMaps

SHOWN = 4  # components in one line of an answer


@TASKS.register
class EmbedConfig(TaskConfig):
    """Embed texts with a model without a head."""

    kind: Literal["embed"] = Field("embed", description="sentence embeddings: similar texts have near vectors")
    max_len: int = Field(512, gt=2, description="maximum tokens of a text; longer ones are truncated")

    def build(self) -> "Embed":
        return Embed(self)


class Embed(Task[TaskState, LabelledTexts]):
    config: EmbedConfig
    offers = ("embed",)
    metric = "loss"

    def adapt(self, model: ModelConfig) -> ModelConfig:
        return model if isinstance(model.head, EmbedHeadConfig) else model.with_head(EmbedHeadConfig())

    def check(self, model: ModelConfig) -> None:
        check_one_stack(model, "embed")

    # -------------------------------------------------------------------------------------------------------------- answers

    def vectors(
        self, model: Model, tokenizers: Tokenizers, texts: Sequence[str], *, budget: int = 8192, progress: Progress | None = None
    ) -> Vectors:
        """(texts, D), in their order, as the head asks; texts of similar length are read together."""
        head, read = narrow(model.head, EmbedHead), read_texts(self, model, tokenizers, texts)
        return sentence_vectors(model, read, head.pool, normalise=head.normalise, budget=budget, progress=progress)

    def predict(
        self, model: Model, state: TaskState, tokenizers: Tokenizers, inputs: Inputs, *, budget: int = BUDGET, **options: Any
    ) -> list[Prediction]:
        """The vector of each text, in `details`."""
        texts = [example["text"] for example in as_examples(inputs, "text")]
        found = self.vectors(model, tokenizers, texts, budget=budget).tolist()
        shown = [", ".join(f"{value:.3f}" for value in vector[:SHOWN]) for vector in found]
        return [
            Prediction(text, f"[{some}, ...]", details=VectorAnswer(vector=own))
            for text, some, own in zip(texts, shown, found, strict=True)
        ]

    def _read_inputs(self, model: Model, tokenizer: Tokenizer, examples: Sequence[Example]) -> LabelledTexts:
        return encode_inputs(tokenizer, examples, min_limit(self.config.max_len, model.config.max_len), pairs=False)

    def maps(self, model: Model, state: TaskState, tokenizers: Tokenizers, inputs: Inputs) -> list[AttentionMaps]:
        tokenizer, examples = tokenizers["tokenizer"], as_examples(inputs, "text")
        source, found = self._read_inputs(model, tokenizer, examples), []
        for row, example in enumerate(examples):
            title = map_title(example["text"])
            found += attention_maps(model, source.batch([row]), readable_tokens(tokenizer, source.ids[row]), title=title)
        return found

    # ------------------------------------------------------------------------------------------------- what there is nothing to do for

    def prepare(
        self, data: DataConfig, text: TokenizerSource, model: ModelConfig, say: Say, state: TaskState | None = None
    ) -> Prepared[TaskState, LabelledTexts]:
        _refuse()

    def read(self, state: TaskState, data: DataConfig, tokenizers: Tokenizers, model: ModelConfig, say: Say) -> LabelledTexts:
        _refuse()

    def step(self, model: Model, batch: Batch) -> Loss:
        _refuse()

    def score(self, model: Model, state: TaskState, dataset: LabelledTexts, options: EvalOptions) -> Evaluation:
        _refuse()


def _refuse() -> NoReturn:
    raise UsageError("embed gives vectors, and is neither trained nor scored; train another task from this model (model.from)")
