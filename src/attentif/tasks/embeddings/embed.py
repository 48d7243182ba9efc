"""Sentence embeddings: a vector for a text, near those of texts that mean the same (Reimers & Gurevych 2019).

v = pool(encoder(x)),  of length 1 where the head says so: a product of two is then their cosine.

Nothing is trained here: it is what an imported encoder without a head is for. `model.from` trains one on another task.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn

from pydantic import Field

from attentif.data import DataConfig
from attentif.data.images import DATA_URI
from attentif.errors import UsageError
from attentif.models import Batch, Model, ModelConfig
from attentif.models.frontends import TokenFrontend
from attentif.models.heads.embed import EmbedHead, EmbedHeadConfig
from attentif.tasks.answers import EvalOptions, Evaluation, Prediction
from attentif.tasks.attention import attention_maps, map_title, readable_tokens
from attentif.tasks.base import BUDGET, TASKS, Example, Inputs, Loss, Prepared, Progress, Say, Task, TaskState, Tokenizers
from attentif.tasks.batches import as_examples, check_one_stack, min_limit
from attentif.tasks.classification.data import LabelledTexts, encode_inputs
from attentif.tasks.details import VectorAnswer
from attentif.tasks.embeddings.pictures import embed_inputs
from attentif.tasks.embeddings.sentences import Vectors, read_texts, refuse_no_words, sentence_vectors
from attentif.tasks.narrow import narrow
from attentif.tasks.tokenizers import TokenizerSource
from attentif.tasks.vision.frame import StandardisedConfig
from attentif.text import Tokenizer
from attentif.view.blocks import AttentionMaps

SHOWN = 4  # components in one line of an answer


@TASKS.register
class EmbedConfig(StandardisedConfig):
    """Embed texts, or pictures, with a model without a head."""

    kind: Literal["embed"] = Field("embed", description="sentence embeddings: similar texts have near vectors")
    max_len: int = Field(512, gt=2, description="maximum tokens of a text; longer ones are truncated")
    pad_to: int | None = Field(None, gt=0, description="fill texts up with [PAD] to so many tokens, which the model reads too (SigLIP)")

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
        self.config.check_frame()

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
        """The vector of each text or picture, in `details`; what a model of pictures alone is given are their paths or data URIs."""
        role = "text" if isinstance(model.frontend, TokenFrontend) else "image"
        pictured = [not isinstance(one, str) and "image" in one for one in inputs]
        examples = [as_examples([one], "image" if shown else role)[0] for one, shown in zip(inputs, pictured, strict=True)]
        given = [picture_of(example) if "image" in example else example["text"] for example in examples]
        found = embed_inputs(self, model, tokenizers, given, normalise=narrow(model.head, EmbedHead).normalise).tolist()
        shown = [", ".join(f"{value:.3f}" for value in vector[:SHOWN]) for vector in found]
        return [
            Prediction(str(one), f"[{some}, ...]", details=VectorAnswer(vector=own))
            for one, some, own in zip(given, shown, found, strict=True)
        ]

    def _read_inputs(self, model: Model, tokenizer: Tokenizer, examples: Sequence[Example]) -> LabelledTexts:
        return encode_inputs(tokenizer, examples, min_limit(self.config.max_len, model.config.max_len), pairs=False)

    def maps(self, model: Model, state: TaskState, tokenizers: Tokenizers, inputs: Inputs) -> list[AttentionMaps]:
        refuse_no_words(model, tokenizers)
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


def picture_of(example: Example) -> str | Path:
    """A picture by its path, or by its content as a data URI."""
    return given if (given := example["image"]).startswith(DATA_URI) else Path(given)


def _refuse() -> NoReturn:
    raise UsageError("embed gives vectors, and is neither trained nor scored; train another task from this model (model.from)")
