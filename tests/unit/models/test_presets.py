"""Every system by name: the sizes that were published, and models that run."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from attentif.errors import ConfigError
from attentif.models import Batch, Input, Model, ModelConfig, build, preset_description, preset_names, resolve
from attentif.models.frontends.series import SeriesConfig
from attentif.models.frontends.tokens import TokensConfig
from attentif.models.presets import ALIASES
from attentif.nn.position import SinusoidalConfig
from attentif.nn.seq import Seq

ISSUED = {
    "transformer-base",
    "transformer-big",
    "transformer-tiny",
    "encoder-tiny",
    "encoder-small",
    "decoder-tiny",
    "decoder-small",
    "gpt2",
    "gpt2-medium",
    "gpt2-large",
    "gpt2-xl",
    "mixtral-8x7b",
    "mixtral-tiny",
    "switch-base",
    "switch-tiny",
}


HORIZON = {"horizon": 4, "channels": 1, "quantiles": 2}


def places(name: str) -> int:
    """Vectors of a series of 96 steps."""
    frontend = resolve({"base": name}).frontend
    return frontend.tokens(96) if isinstance(frontend, SeriesConfig) else 1


def sized(name: str, vocab: int = 100) -> ModelConfig:
    side = 28 if name == "lenet-5" else 8  # LeNet has no place left of smaller pictures
    frontend = {"channels": 1, "height": side, "width": side, "frames": 4, "mels": 40}
    return resolve({"base": name}).with_sizes(
        vocab=vocab, classes=3, frontend=frontend, head=HORIZON | {"vocab": vocab, "places": places(name)}
    )


def is_read_raw(name: str) -> bool:
    """Whether fixed positions are added to its tokens, or cells read them that no norm stands before."""
    config = resolve({"base": name})
    if not isinstance(config.frontend, TokensConfig) or config.decoder is None or config.head.kind != "language":
        return False
    cells = any(sublayer.mixer.kind in ("rnn", "lstm", "gru") for sublayer in (config.decoder.block or {}).values())
    return isinstance(config.frontend.position, SinusoidalConfig) or (cells and config.decoder.placement == "none")


def parameters(model: Model) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def batch(config: ModelConfig) -> Batch:
    torch.manual_seed(0)
    source, target = (Input(torch.randint(90, (2, 7)), Seq.from_padded([7, 4])) for _ in range(2))
    if config.frontend.kind in ("patches", "joined", "convolutions"):
        sides = (getattr(config.frontend, key) for key in ("channels", "height", "width"))
        pictures = Input(torch.randn(2, *sides), Seq.from_padded([1, 1]))
        if config.frontend.kind == "joined":
            return Batch(Input(source.data, source.seq, beside=pictures))
        return Batch(pictures, target if config.target else None)
    if config.frontend.kind == "tubes":
        return Batch(Input(torch.randn(2, 4, 8, 8), Seq.from_padded([1, 1])))
    if config.frontend.kind == "frames":
        sounds = Input(torch.randn(2, 30, config.frontend.mels), Seq.from_padded([30, 13]))
        return Batch(sounds, target if config.target else None)
    if config.frontend.kind == "series":
        return Batch(Input(torch.randn(2, 96, 1), Seq.from_padded([96, 96])))
    return Batch(source, target if config.target else None)


def test_every_issued_preset_is_there() -> None:
    assert set(preset_names()) >= ISSUED


@pytest.mark.parametrize(
    ("name", "count"),
    [("gpt2", 124_439_808), ("gpt2-medium", 354_823_168), ("gpt2-large", 774_030_080), ("gpt2-xl", 1_557_611_200)],
)
def test_gpt2_has_the_parameters_of_the_published_checkpoints(name: str, count: int) -> None:
    assert parameters(build(resolve({"base": name}), device="meta")) == count


@pytest.mark.parametrize(("name", "count", "paper"), [("transformer-base", 63_082_496, 65e6), ("transformer-big", 214_245_376, 213e6)])
def test_the_models_of_2017_have_the_size_of_the_papers_table_3(name: str, count: int, paper: float) -> None:
    """With the shared vocabulary of about 37,000 tokens of section 5.1; the paper rounds its figures."""
    built = parameters(build(sized(name, 37_000), device="meta"))
    assert built == count
    assert built == pytest.approx(paper, rel=0.04)


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_builds_and_its_parts_add_up(name: str) -> None:
    model = build(sized(name), device="meta")
    assert all(parameter.is_meta for parameter in model.parameters())
    assert sum(model.sizes().values()) == parameters(model)
    assert model.config.base == name


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_runs(name: str) -> None:
    """The large ones with two blocks of a narrow width: their shape is what is tried."""
    config = sized(name)
    if config.width > 256:
        config = narrow(config)
    model = build(config)
    logits, seq = model(batch(config))
    assert logits.isfinite().all()
    shapes = {
        "match": (2, getattr(config.head, "components", 0)),
        "classify": (2, 3),
        "horizon": (2, 4, 1, 2),
        "ctc": (2, 8, 100),
        "tokens": (2, 7, getattr(config.head, "classes", 0)),
    }
    assert logits.shape == shapes.get(config.head.kind, (2, 7, _vocab(config)))
    assert seq.batch == 2
    total = logits.square().mean()
    if config.frontend.kind == "modalities":  # which reads one kind at a time
        pictures = Input(torch.randn(2, 1, 8, 8), Seq.from_padded([4, 4]))
        sounds = Input(torch.randn(2, 30, config.frontend.mels), Seq.from_padded([30, 13]))
        total = model.head.scale * (total + sum(model(Batch(source))[0].square().mean() for source in (pictures, sounds)))
    total.backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())


def narrow(config: ModelConfig) -> ModelConfig:
    """One turn of its kinds of block, two blocks at least, 8 components a head, few and small experts."""
    stacks = [stack for stack in (config.encoder, config.decoder) if stack is not None]
    mixers = [sublayer.mixer for stack in stacks for _, sublayer in stack.sublayers()]
    heads = next((mixer.heads for mixer in mixers if hasattr(mixer, "heads")), 8)
    turn = max(len(stack.blocks) for stack in stacks)
    layers = config.layers if config.bridge else max(2, turn)  # a bridge leads from each layer to one that is there
    values = config.replace(width=8 * heads, layers=layers).model_dump()
    for experts in _mixers(values, "experts"):
        experts |= {"experts": 4, "hidden": 16, "top_k": 2, "groups": 1, "top_groups": None}
    for latent in _mixers(values, "latent"):
        latent |= {"heads": 4, "kv_rank": 16, "q_rank": latent["q_rank"] and 16}
    for kind in (kind for stack in ("encoder", "decoder") if values[stack] for kind in values[stack]["blocks"]):
        kind["repeat"] = 1
    return ModelConfig.model_validate(values)


def _mixers(values: Any, kind: str) -> Iterator[dict[str, Any]]:
    """Every mixer of this kind in a configuration's values."""
    if isinstance(values, dict):
        if values.get("kind") == kind:
            yield values
        for value in values.values():
            yield from _mixers(value, kind)
    elif isinstance(values, list | tuple):
        for value in values:
            yield from _mixers(value, kind)


def _vocab(config: ModelConfig) -> int:
    return getattr(config.target or config.frontend, "vocab", 0)


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_says_in_one_line_what_it_is(name: str) -> None:
    assert 20 < len(preset_description(name)) < 200


def test_an_alias_is_as_good_as_the_name() -> None:
    for alias, name in ALIASES.items():
        assert resolve({"base": alias}).replace(base=name) == resolve({"base": name})


def test_an_unknown_preset_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match=r"'encoder-tiney'.*'encoder-tiny'\?"):
        resolve({"base": "encoder-tiney"})


def test_a_preset_is_changed_by_what_stands_above_it() -> None:
    config = resolve({"base": "decoder-tiny", "layers": 7, "decoder": {"block": {"attn": {"mixer": {"heads": 2}}}}})
    assert config.layers == 7
    assert config.decoder is not None
    attention = config.decoder.block["attn"].mixer
    assert getattr(attention, "heads", None) == 2
    assert getattr(attention, "causal", None) is True


def test_a_mistake_in_a_model_names_its_path() -> None:
    with pytest.raises(ConfigError, match=r"encoder.block.attn.mixer.heds:.*'heads'\?"):
        resolve({"base": "encoder-tiny", "encoder": {"block": {"attn": {"mixer": {"heds": 2}}}}})
    with pytest.raises(ConfigError, match=r"encoder.block.attn.plcement:.*'placement'\?"):
        resolve({"base": "encoder-tiny", "encoder": {"block": {"attn": {"plcement": "pre"}}}})


@pytest.mark.parametrize("name", [name for name in preset_names() if name.endswith("-tiny") and is_read_raw(name)])
def test_what_tokens_say_is_heard_from_the_beginning(name: str) -> None:
    """Beside the positions added to them, and by cells that no norm stands before: of small vectors a language model learns late."""
    torch.manual_seed(0)
    frontend = build(sized(name)).frontend
    tokens = frontend.scale * frontend.tokens.weight
    assert tokens.std() > 0.5
    if frontend.position is not None:
        positions = frontend.position(torch.arange(64)[None], torch.float32)
        assert tokens.square().mean() > 0.5 * positions.square().mean()
