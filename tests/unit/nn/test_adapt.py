"""Adapters and freezing on whole models; `tests/contract/test_adapt.py` has what holds for every mixer."""

import copy

import pytest
import torch
from torch.testing import assert_close

from attentif.decode import GenerateOptions, generate
from attentif.errors import ConfigError
from attentif.models import Batch, Input, Model, build, resolve
from attentif.nn.adapt import AdaptConfig, LowRank, adapt, adapters, find_targets, freeze, load_saved_state_dict, merge, saved_state_dict
from attentif.nn.naming import ends_with, expand_range, starts_with
from attentif.nn.reversible import run
from attentif.nn.seq import Seq

SMALL = {"width": 32, "layers": 3, "frontend": {"vocab": 50}}


def small(base: str, **changes: object) -> Model:
    torch.manual_seed(0)
    return build(resolve({"base": base} | SMALL | changes)).eval()


def learned(model: Model, **values: object) -> Model:
    adapt(model, AdaptConfig.model_validate({"rank": 4} | values))
    torch.manual_seed(1)
    for module in adapters(model):
        torch.nn.init.normal_(module.lora_b, std=0.2)
    return model


def batch(packed: bool = False) -> Batch:
    torch.manual_seed(2)
    return Batch(
        Input(torch.randint(50, (19,)), Seq.from_packed([9, 4, 6]))
        if packed
        else Input(torch.randint(50, (3, 9)), Seq.from_padded([9, 4, 6]))
    )


@pytest.mark.parametrize("base", ["decoder-tiny", "mixtral-tiny", "mamba-tiny", "latent-tiny"])
@pytest.mark.parametrize("packed", [False, True])
def test_merged_equals_unmerged_in_float32(base: str, packed: bool) -> None:
    """Within 1e-6 of the largest output, for each of three layers: sums in two orders, each rounded to 6e-8."""
    model = learned(small(base), targets=["*"])
    merged = copy.deepcopy(model)
    merge(merged)
    with torch.no_grad():
        y, expected = model(batch(packed))[0], merged(batch(packed))[0]
    assert_close(y, expected, rtol=0, atol=3e-6 * float(expected.abs().max()))
    assert not any(isinstance(module, LowRank) for module in merged.modules())
    assert all(parameter.requires_grad for parameter in merged.parameters())


def test_decoding_with_a_cache_gives_the_tokens_of_the_merged_model() -> None:
    model = learned(small("decoder-tiny"), targets=["*"])
    merged = copy.deepcopy(model)
    merge(merged)
    greedy = GenerateOptions(max_tokens=20, temperature=0.0)
    ours, theirs = (generate(one, [[1, 2, 3]], greedy)[0].tokens for one in (model, merged))
    assert ours == theirs


@pytest.mark.parametrize("base", ["decoder-tiny", "mixtral-tiny"])
def test_recomputing_activations_changes_no_gradient(base: str) -> None:
    """Blocks that are computed again in the backward pass draw the same dropout in the adapters."""
    model = learned(small(base), targets=["*"], dropout=0.2).train()
    wanted = [parameter for parameter in model.parameters() if parameter.requires_grad]
    found = []
    for checkpointing in (False, True):
        model.checkpointing = checkpointing
        torch.manual_seed(3)
        found.append(torch.autograd.grad(model(batch())[0].square().sum(), wanted))
    assert_close(found[0], found[1])


def test_a_stack_that_is_run_backwards_gives_adapters_the_gradients_of_one_that_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    model = learned(small("reformer-tiny"), targets=["*"]).double()
    wanted = [parameter for parameter in model.parameters() if parameter.requires_grad]
    backwards = torch.autograd.grad(model(batch())[0].square().sum(), wanted)
    monkeypatch.setattr("attentif.nn.stack.run_reversibly", lambda _, *given: run(*given))
    assert_close(backwards, torch.autograd.grad(model(batch())[0].square().sum(), wanted), rtol=1e-9, atol=1e-9)


def test_only_adapters_and_what_is_named_learn() -> None:
    model = small("encoder-tiny", head={"classes": 2})
    adapt(model, AdaptConfig(targets=("query", "encoder.2.ffn.up"), also=("head", "encoder.norm")))
    learning = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    maps = [f"encoder.blocks.{block}.attn.mixer.q" for block in range(3)] + ["encoder.blocks.2.ffn.mixer.up"]
    whole = {name for name, _ in model.named_parameters() if name.startswith(("head.", "encoder.norm."))}
    assert learning == whole | {f"{path}.{name}" for path in maps for name in ("lora_a", "lora_b")}
    assert set(saved_state_dict(model)) == learning


def test_the_factor_is_alpha_over_the_rank_or_its_root() -> None:
    assert AdaptConfig(rank=16, alpha=32.0).strength == 2.0
    assert AdaptConfig(rank=16, alpha=32.0, stabilised=True).strength == 8.0


def test_dropout_is_of_the_adapters_and_of_training_alone() -> None:
    model, given = learned(small("decoder-tiny", dropout=0.0), dropout=0.5), batch()
    assert torch.equal(model(given)[0], model(given)[0])
    model.train()
    assert not torch.equal(model(given)[0], model(given)[0])
    for module in adapters(model):
        torch.nn.init.zeros_(module.lora_b)
    assert torch.equal(model(given)[0], model(given)[0])


def test_what_was_kept_is_taken_back_and_nothing_else() -> None:
    model, other = learned(small("decoder-tiny")), small("decoder-tiny")
    adapt(other, AdaptConfig(rank=4))
    kept = {name: tensor.clone() for name, tensor in saved_state_dict(model).items()}
    load_saved_state_dict(other, kept)
    assert torch.equal(other(batch())[0], model(batch())[0])
    with pytest.raises(RuntimeError, match=r"unexpected: encoder\.x"):
        load_saved_state_dict(other, kept | {"encoder.x": torch.zeros(1)})
    with pytest.raises(RuntimeError, match=r"missing: decoder.blocks.0.attn.mixer.q.lora_a"):
        load_saved_state_dict(other, {name: tensor for name, tensor in kept.items() if "0.attn.mixer.q.lora_a" not in name})
    with pytest.raises(RuntimeError, match=r"missing: decoder\.blocks"):  # a plain model needs all of its tensors
        load_saved_state_dict(small("decoder-tiny"), kept)


@pytest.mark.parametrize(
    ("targets", "words"),
    [
        (["querry"], "targets: nothing here is called 'querry'; there are q, k, v, out, up"),
        (["decoder.7.*.q"], "nothing here is called 'decoder.7.*.q'"),
        (["decoder.2-4.attn.q"], "nothing here is called 'decoder.3.attn.q'"),
        (["decoder.2-1.q"], "is not a range"),
    ],
)
def test_targets_that_are_no_linear_map_are_refused(targets: list[str], words: str) -> None:
    with pytest.raises(ConfigError, match=words.replace("*", r"\*")):
        find_targets(small("decoder-tiny"), AdaptConfig(targets=tuple(targets)))


def test_frozen_parts_take_no_gradient() -> None:
    model = small("encoder-tiny", head={"classes": 2})
    freeze(model, ("frontend", "encoder.0-1"))
    model(batch())[0].sum().backward()
    without = {name for name, parameter in model.named_parameters() if parameter.grad is None}
    assert without == {
        name for name, _ in model.named_parameters() if name.startswith(("frontend.", "encoder.blocks.0.", "encoder.blocks.1."))
    }
    for parts, words in (
        (("encodr",), "freeze: nothing here is called 'encodr'; there are frontend, encoder.0, .*; did you mean"),
        (("*",), "freeze: nothing is left to train"),
    ):
        with pytest.raises(ConfigError, match=words):
            freeze(model, parts)


def test_names_leave_out_what_all_have_in_common() -> None:
    path = "encoder.blocks.11.attn.mixer.q"
    assert all(starts_with(name, path) for name in ("encoder", "encoder.11", "encoder.blocks.11", "encoder.1?.attn", "*.11"))
    assert not any(starts_with(name, path) for name in ("enc", "encoder.1", "attn", f"{path}.weight"))
    assert all(ends_with(name, path) for name in ("q", "attn.q", "*", "encoder.*.attn.q", path))
    assert not any(ends_with(name, path) for name in ("attn", "k", "decoder.*.attn.q"))
    assert expand_range("encoder.9-11.attn") == ["encoder.9.attn", "encoder.10.attn", "encoder.11.attn"]
    assert expand_range("a-b") == ["a-b"]
