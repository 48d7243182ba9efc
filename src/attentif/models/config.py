"""A model as a page of configuration: a frontend, one or two stacks of blocks, a head."""

from collections.abc import Iterator
from typing import Any, Self

from pydantic import Field, model_validator

from attentif.config import VERSION, Config, Document, Layer, inside
from attentif.errors import ConfigError
from attentif.models.frontends import Frontend, TokensConfig
from attentif.models.heads import Head, HeadConfig
from attentif.models.presets import preset_layer
from attentif.nn.init import InitConfig, on_paper
from attentif.nn.mixer import CrossMixer, Site
from attentif.nn.stack import StackConfig
from attentif.toml import Keys


class ModelConfig(Config):
    """An encoder (reads), a decoder (reads on, or writes), or both: then the decoder reads `target` and the encoder's output."""

    version: int = Field(VERSION, ge=VERSION, le=VERSION, description="of this format")
    base: str | None = Field(None, description="the preset whose values hold where this file says nothing")
    width: int = Field(gt=0, description="components of each token's vector")
    layers: int = Field(gt=0, description="blocks of each stack that does not say its own number")
    dropout: float = Field(0.1, ge=0, lt=1, description="dropped components of each sublayer's output, where nothing else is said")
    shared: bool = Field(False, description="source and target share one embedding (and one vocabulary)")
    init: InitConfig = Field(InitConfig(), description="how weights begin")
    frontend: Frontend = Field(description="from data to vectors")
    target: Frontend | None = Field(None, description="the same for the decoder of an encoder-decoder")
    encoder: StackConfig | None = Field(None, description="the stack that reads")
    decoder: StackConfig | None = Field(None, description="the stack that writes, or reads on")
    head: Head = Field(description="from vectors to what is predicted")

    @model_validator(mode="after")
    def _coherent(self) -> Self:
        if self.encoder is None and self.decoder is None:
            raise ValueError("a model has an encoder, a decoder, or both")
        both = self.encoder is not None and self.decoder is not None
        if both != (self.target is not None):
            raise ValueError("`target` (the decoder's frontend) goes with an encoder and a decoder, and only with both")
        if self.shared and not (isinstance(self.frontend, TokensConfig) and isinstance(self.target, TokensConfig)):
            raise ValueError("`shared` needs a source and a target of tokens")
        if problems := [*self._contradictions()]:
            raise inside(problems)
        return self

    def _contradictions(self) -> Iterator[tuple[Keys, str]]:
        """What the mixers themselves refuse. One of each is built without its weights, so that the place in the file is still known."""
        crosses = False
        for name, stack in (("encoder", self.encoder), ("decoder", self.decoder)):
            if stack is None:
                continue
            reads_memory = name == "decoder" and self.encoder is not None
            with on_paper():
                bias = stack.bias.build() if stack.bias else None
                site = Site(width=self.width, norm=stack.norm, memory_width=self.width if reads_memory else None, bias=bias)
                for path, sublayer in stack.sublayers():
                    try:
                        crosses |= isinstance(sublayer.mixer.build(site), CrossMixer)
                    except ConfigError as error:
                        yield (name, *path, "mixer"), error.message
                        crosses = True  # it may have been one
        if self.encoder and self.decoder and not crosses:
            yield ("decoder",), "no sublayer reads the encoder's output; add one with a cross mixer, or drop the encoder"

    @property
    def max_len(self) -> int | None:
        """Longest source the model can read, where its positions have an end."""
        return self.frontend.limit

    @property
    def max_target_len(self) -> int | None:
        return self.target.limit if self.target else None

    def with_sizes(self, *, vocab: int | None = None, target_vocab: int | None = None, classes: int | None = None) -> Self:
        """What the data decide, filled in where the configuration left it open."""
        changes: dict[str, Any] = {}
        for name, size in (("frontend", vocab), ("target", target_vocab or vocab)):
            frontend = getattr(self, name)
            if isinstance(frontend, TokensConfig) and frontend.vocab is None and size is not None:
                changes[name] = frontend.changed(vocab=size)
        if classes is not None and "classes" in type(self.head).model_fields and getattr(self.head, "classes", None) is None:
            changes["head"] = self.head.changed(classes=classes)
        return self.changed(**changes) if changes else self

    def with_head(self, head: HeadConfig) -> Self:
        return self.changed(head=head)


def resolve(values: dict[str, Any], name: str = "model") -> ModelConfig:
    """A model from plain values, its `base` preset beneath them."""
    layers = [Layer(values, name)]
    if isinstance(base := values.get("base"), str):
        layers.insert(0, preset_layer(base))
    return Document(layers).build(ModelConfig)
