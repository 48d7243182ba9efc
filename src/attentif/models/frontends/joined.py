"""A picture and a text in one sequence, read by one stack (ViLT, VisualBERT).

    x = [W · patch_1 + b + p_1 + k_0; … ; W · patch_n + b + p_n + k_0; E[w_1] + q_1 + k_1; … ; E[w_T] + q_T + k_1]

    p, q   places in the picture and in the text, each counted from its own beginning        k_0, k_1   what kind of token this is

The input is the text; the picture is `Input.beside`. Each row's text follows its patches, so padding is at the end of a row. A text without
a picture is read alone: a decoder's later steps.
"""

from typing import ClassVar, Literal, Self

import torch
from pydantic import Field
from torch import Tensor, nn

from attentif.config import Ints
from attentif.kernels.dropout import dropout
from attentif.models.batch import Input
from attentif.models.frontends.base import ANY_SIZE, FRONTENDS, FrontendConfig
from attentif.models.frontends.patches import PatchesConfig
from attentif.models.frontends.tokens import TokensConfig
from attentif.nn.norm import Norm
from attentif.nn.position import Position
from attentif.nn.seq import Seq

PICTURE, TEXT = 0, 1  # rows of the table of kinds


class PictureTextConfig(FrontendConfig):
    """Base of the frontends that read pictures and texts."""

    from_data: ClassVar[tuple[str, ...]] = ("vocab", "channels", "height", "width")
    vocab: int | None = Field(None, gt=0, description="tokens of the vocabulary; by default the tokenizer's")
    size: int = Field(16, gt=0, description="side of a patch in pixels")
    stride: int | None = Field(None, gt=0, description="pixels from a patch to the next; by default its side. It divides height and width")
    stem: Ints = Field((), description="channels of 3 × 3 convolutions before the patches (none: ViT)")
    channels: int | None = Field(None, gt=0, description="1 for grey, 3 for colour; by default the data's")
    height: int | None = Field(None, gt=0, description="of the pictures, in pixels; by default the data's")
    width: int | None = Field(None, gt=0, description="of the pictures, in pixels; by default the data's")
    dropout: float | None = Field(None, ge=0, lt=1, description="dropout; by default the model's")
    position: Position | None = Field(None, description="positions added to the tokens, counted from the start of the text")
    patch_position: Position | None = Field(None, description="positions added to the patches")
    norm: Norm | None = Field(None, description="normalise the sum")

    @property
    def patches(self) -> PatchesConfig:
        """The configuration of the picture frontend."""
        sizes = {key: getattr(self, key) for key in ("size", "stride", "stem", "channels", "height", "width")}
        return PatchesConfig(**sizes, dropout=0.0, position=self.patch_position)

    @property
    def tokens(self) -> TokensConfig:
        return TokensConfig(vocab=self.vocab, dropout=0.0, position=self.position)

    @property
    def limit(self) -> int | None:
        """Limit of the text; the picture has a fixed size."""
        return self.tokens.limit

    def with_any_size(self) -> Self:
        picture = self.patches.with_any_size()
        return self.replace(vocab=self.vocab or ANY_SIZE, channels=picture.channels, height=picture.height, width=picture.width)


@FRONTENDS.register
class JoinedConfig(PictureTextConfig):
    """Patches of a picture followed by tokens of a text, with a learned type vector each."""

    kind: Literal["joined"] = Field("joined", description="a picture and a text in one sequence")

    def build(self, width: int, dropout: float) -> "Joined":
        return Joined(self, width, dropout)


class Joined(nn.Module):
    def __init__(self, config: JoinedConfig, width: int, dropout: float) -> None:
        super().__init__()
        self.picture, self.text = config.patches.build(width, dropout), config.tokens.build(width, dropout)
        self.kinds = nn.Embedding(2, width)
        self.norm = config.norm.build(width) if config.norm else nn.Identity()
        self.dropout = dropout if config.dropout is None else config.dropout

    def forward(self, source: Input) -> tuple[Tensor, Seq]:
        words, seq = self.text(source)
        x = words + self.kinds.weight[TEXT]
        if source.beside is not None:
            pictures, _ = self.picture(source.beside)
            if source.beside.index is not None:
                pictures = pictures.index_select(0, source.beside.index)
            x, seq = concat_picture_text(pictures + self.kinds.weight[PICTURE], x, seq)
        return dropout(self.norm(x), self.dropout, self.training), seq


def concat_picture_text(pictures: Tensor, words: Tensor, seq: Seq) -> tuple[Tensor, Seq]:
    """Append each row of words, (B, T, D) or packed (N, D), to its picture (B, P, D)."""
    patches = pictures.shape[1]
    lengths = seq.lengths + patches
    if seq.cu is None:
        return torch.cat([pictures, words], 1), Seq.from_padded(lengths, patches + words.shape[1])
    joined = Seq.from_packed(lengths)
    is_patch = joined.pos < patches
    order = torch.empty_like(joined.pos)  # index into [all patches; all words]
    order[is_patch] = torch.arange(pictures.shape[0] * patches, device=order.device)
    order[~is_patch] = torch.arange(len(words), device=order.device) + pictures.shape[0] * patches
    return torch.cat([pictures.flatten(0, 1), words]).index_select(0, order), joined
