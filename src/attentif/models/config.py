"""Configuration of a model: a frontend, one or two stacks of blocks, a head."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from attentif.config import VERSION, Config, Document, Layer, inside
from attentif.errors import ConfigError
from attentif.models.bridge import check_bridge
from attentif.models.frontends import Frontend, FrontendConfig, TokensConfig
from attentif.models.heads import Head, HeadConfig
from attentif.models.presets import preset_layer
from attentif.nn.init import InitConfig, on_meta_device
from attentif.nn.mixer import CrossMixer, Site
from attentif.nn.stack import Stack, StackConfig
from attentif.toml import Keys

Names = Annotated[tuple[str, ...], Field(strict=False)]


class ModelConfig(Config):
    """A model: an encoder, a decoder, or both (the decoder then reads `target` and the encoder's output)."""

    version: int = Field(VERSION, ge=VERSION, le=VERSION, description="of this format")
    base: str | None = Field(None, description="the preset whose values hold where this file says nothing")
    from_: str | None = Field(None, alias="from", description="run to fine-tune: its vocabulary and weights, without the head")
    width: int = Field(gt=0, description="components of each token's vector")
    layers: int = Field(gt=0, description="blocks of each stack that does not say its own number")
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout on each sublayer's output, unless it has its own")
    shared: bool = Field(False, description="source and target share one embedding (and one vocabulary)")
    init: InitConfig = Field(InitConfig(), description="weight initialisation")
    frontend: Frontend = Field(description="from data to vectors")
    target: Frontend | None = Field(None, description="the same for the decoder of an encoder-decoder")
    encoder: StackConfig | None = Field(None, description="the stack that reads")
    decoder: StackConfig | None = Field(None, description="the stack that writes, or reads on")
    bridge: Names = Field((), description="decoder sublayers initialised from the encoder's final states, by name")
    reverse: bool = Field(False, description="the encoder reads the source from its end")
    head: Head = Field(description="from vectors to what is predicted")
    tower: "ModelConfig | None" = Field(
        None, description="a second model whose vectors are compared with this one's: pictures beside texts (CLIP)"
    )

    @model_validator(mode="after")
    def _coherent(self) -> Self:
        if self.encoder is None and self.decoder is None:
            raise ValueError("a model has an encoder, a decoder, or both")
        both = self.encoder is not None and self.decoder is not None
        if both != (self.target is not None):
            raise ValueError("`target` (the decoder's frontend) goes with an encoder and a decoder, and only with both")
        if self.shared and not (isinstance(self.frontend, TokensConfig) and isinstance(self.target, TokensConfig)):
            raise ValueError("`shared` needs a source and a target of tokens")
        if self.decoder is not None and getattr(self.frontend, "mask_dropout", None) and not both:
            raise ValueError("frontend.mask_dropout: counts the whole text, and a decoder reads it from left to right")
        if self.bridge and not both:
            raise ValueError("`bridge` leads from an encoder to a decoder: the model needs both")
        if self.reverse and self.encoder is None:
            raise ValueError("`reverse` is for the source of an encoder")
        if (self.tower is not None) != bool(getattr(self.head, "similarity", None)):
            raise ValueError("`tower` goes with a head that compares its vectors (head.similarity), and only with one")
        if self.tower is not None and self.tower.head.kind != "embed":
            raise ValueError("`tower` gives vectors: its head is one of the kind embed")
        if problems := [*self._contradictions()]:
            raise inside(problems)
        return self

    def _contradictions(self) -> Iterator[tuple[Keys, str]]:
        """Build each mixer without weights and yield its errors with their configuration keys."""
        crosses, refused = False, False
        for name, stack in (("encoder", self.encoder), ("decoder", self.decoder)):
            if stack is None:
                continue
            with on_meta_device():
                site = self._site(stack)
                for path, sublayer in stack.sublayers():
                    try:
                        crosses |= isinstance(sublayer.mixer.build(site), CrossMixer)
                    except ConfigError as error:
                        yield (name, *path, "mixer"), error.message
                        crosses = refused = True  # it may have been one
        if self.encoder and self.decoder and not crosses and not self.bridge:
            yield ("decoder",), "no sublayer reads the encoder's output; add one with a cross mixer, or a bridge, or drop the encoder"
        if self.encoder and self.decoder and self.bridge and not refused:
            try:
                with on_meta_device():
                    encoder = self.stack(self.encoder)
                    check_bridge(encoder, self.stack(self.decoder, encoder.width), self.bridge, encoder.width)
            except ConfigError as error:
                yield ("bridge",), error.message

    def _site(self, stack: StackConfig) -> Site:
        """The site with which mixers of this stack are built to be checked."""
        memory_width = self.encoder.out_width(self.width) if stack is self.decoder and self.encoder is not None else None
        return Site(width=self.width, norm=stack.norm, memory_width=memory_width, bias=stack.bias.build() if stack.bias else None)

    def stack(self, config: StackConfig, memory_width: int | None = None) -> Stack:
        """Build one of the model's stacks, with fresh weights."""
        return Stack(
            config,
            width=self.width,
            layers=self.layers if config.layers is None else config.layers,
            dropout=self.dropout,
            memory_width=memory_width,
        )

    @cached_property
    def max_len(self) -> int | None:
        """Longest source the model can read; None: no limit."""
        return self._longest(self.frontend, self.encoder or self.decoder)

    @cached_property
    def max_target_len(self) -> int | None:
        return self._longest(self.target, self.decoder) if self.target else None

    def _longest(self, frontend: FrontendConfig, stack: StackConfig | None) -> int | None:
        assert stack is not None
        with on_meta_device():
            mixers = [sublayer.mixer.build(self._site(stack)) for _, sublayer in stack.sublayers()]
        return min((limit for limit in (frontend.limit, *(mixer.caps.max_len for mixer in mixers)) if limit is not None), default=None)

    def with_sizes(
        self,
        *,
        vocab: int | None = None,
        target_vocab: int | None = None,
        classes: int | None = None,
        frontend: Mapping[str, Any] | None = None,
        head: Mapping[str, Any] | None = None,
    ) -> Self:
        """Fill in sizes that depend on the data, where the configuration leaves them open."""
        given = {
            "frontend": {"vocab": vocab, **(frontend or {})},
            "target": {"vocab": target_vocab or vocab},
            "head": {"classes": classes, **(head or {})},
        }
        changes: dict[str, Any] = {}
        for name, sizes in given.items():
            part: FrontendConfig | HeadConfig | None = getattr(self, name)
            wanted = [key for key in part.from_data if getattr(part, key) is None and sizes.get(key) is not None] if part else []
            if part is not None and wanted:
                changes[name] = part.replace(**{key: sizes[key] for key in wanted})
        return self.replace(**changes) if changes else self

    def with_any_size(self) -> Self:
        """Fill in open sizes with placeholders, to build the model on the meta device."""
        target = {} if self.target is None else {"target": self.target.with_any_size()}
        return self.replace(frontend=self.frontend.with_any_size(), head=self.head.with_any_size(), **target)

    def with_head(self, head: HeadConfig) -> Self:
        """The same model with another head; a tower goes with a head that compares its vectors."""
        return self.replace(head=head) if getattr(head, "similarity", None) else self.replace(head=head, tower=None)


def resolve(values: dict[str, Any], name: str = "model") -> ModelConfig:
    """Build a model configuration from plain values, on top of its `base` preset."""
    layers = [Layer(values, name)]
    if isinstance(base := values.get("base"), str):
        layers.insert(0, preset_layer(base))
    return Document(layers).build(ModelConfig)
