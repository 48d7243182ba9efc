"""Every token from the two sides of it: nothing is hidden, for each direction has read only its own side (Baevski et al. 2019).

    L = mean over tokens of −log p(x_t | →h_{t−1}, ←h_{t+1})        →h has read x_1 … x_{t−1}, ←h has read x_n … x_{t+1}

`masked` hides 15 % of the tokens and learns from those alone; here any token may be asked for, so that a text teaches several times as much
in one reading. It takes a model whose two directions stay apart until the end: one bidirectional layer. `share` of the tokens are asked for
in each reading, for meeting the vocabulary is the dear part.
"""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from attentif.errors import ConfigError
from attentif.models import Batch, Model, ModelConfig
from attentif.nn.mixers.bidirectional import Bidirectional
from attentif.nn.seq import Seq
from attentif.nn.shift import token_shift
from attentif.tasks.answers import Evaluation
from attentif.tasks.base import TASKS
from attentif.tasks.batches import build_meta
from attentif.tasks.pretraining.masked import Masked, MaskedConfig
from attentif.tasks.pretraining.masked_report import masked_sections
from attentif.tasks.pretraining.masking import Vocabulary, choose
from attentif.tasks.pretraining.passages import Noise, Passages
from attentif.tasks.ragged import UNSCORED
from attentif.view.blocks import Section
from attentif.view.words import Text

ABOUT = Text(
    "Des passages du test. Un jeton demandé est d'autant plus foncé que le modèle, qui n'a lu que ce qui est avant lui et ce qui est "
    "après, lui donnait de chances.",
    "Passages of the test. A token that was asked for is the darker, the likelier the model held it, which had read only what stands "
    "before it and what stands after.",
)


@TASKS.register
class ClozeConfig(MaskedConfig):
    """Every token, from what was read before it and after it."""

    kind: Literal["cloze"] = Field("cloze", description="predict each token from its left and right context (Baevski et al. 2019)")  # type: ignore[assignment]
    share: float = Field(0.4, gt=0, lt=1, description="share of the tokens that are predicted in a step")
    next_sentence: Literal[False] = Field(False, description="not available: texts are read one by one")

    def build(self) -> "Cloze":
        return Cloze(self)


class Cloze(Masked):
    config: ClozeConfig

    def check(self, model: ModelConfig) -> None:
        super().check(model)
        if not directions_apart(build_meta(model)):
            raise ConfigError(
                "model: cloze tells a token from what was read on either side of it, so the two directions must stay apart: one "
                'bidirectional layer with join = "concat", and no residual or norm after it; use for example bi-lstm-attention-tiny'
            )

    def noise(self, train: Passages) -> Noise:
        """No corruption: every token is a target."""
        vocabulary, config = Vocabulary(train.tokenizer), self.config

        def ask(ids: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
            asked = choose(ids, vocabulary, config.share, whole_words=config.whole_words, generator=generator)
            return ids, torch.where(asked, ids, UNSCORED)

        return ask

    def hidden_states(self, model: Model, batch: Batch) -> tuple[Tensor, Seq]:
        x, seq = model.hidden(batch)
        return join_neighbours(x, seq), seq

    def sections(self, evaluation: Evaluation) -> list[Section]:
        return masked_sections(evaluation, ABOUT)


def join_neighbours(x: Tensor, seq: Seq) -> Tensor:
    """[→h_{t−1} ; ←h_{t+1}] from [→h_t ; ←h_t], zeros beyond the ends of each sequence."""
    ahead, back = x.chunk(2, -1)
    return torch.cat([token_shift(ahead, seq, None), seq.reverse(token_shift(seq.reverse(back), seq, None))], -1)


def directions_apart(model: Model) -> bool:
    """The last vectors are two halves, of which the first has read no token after its own, and the second none before it."""
    if model.encoder is None or not isinstance(model.encoder.norm, nn.Identity):
        return False
    sublayers = [sublayer for _, sublayer in model.encoder.sublayers()]
    if len(sublayers) != 1:
        return False
    (only,) = sublayers
    apart = isinstance(only.mixer, Bidirectional) and only.mixer.config.join == "concat"
    return apart and not only.residual and isinstance(only.norm_out, nn.Identity)
