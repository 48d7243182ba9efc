"""Mixtures of experts of transformers against ours: outputs, gradients, losses of balance; a block alone, and tiny whole models.

float32 on both sides: two programs that add the same numbers in another order differ by some 1e-6 after two blocks, so 1e-5; gradients,
which are sums over all tokens, by ten times as much. A router that met two experts with scores nearer than that could choose the other
one: the weights are drawn wide enough apart, and none does.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.testing import assert_close
from transformers import (
    DeepseekV2Config,
    DeepseekV3Config,
    MixtralConfig,
    MixtralForCausalLM,
    SwitchTransformersConfig,
    SwitchTransformersForConditionalGeneration,
)
from transformers.models.deepseek_v2.modeling_deepseek_v2 import DeepseekV2Moe
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3MoE
from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock, load_balancing_loss_func
from transformers.models.switch_transformers.modeling_switch_transformers import (
    SwitchTransformersSparseMLP,
    router_z_loss_func,
)
from transformers.models.switch_transformers.modeling_switch_transformers import load_balancing_loss_func as switch_loss_func
from transformers.utils import logging

from attentif.hub import read_folder
from attentif.models import Batch, Input, Model, build, resolve
from attentif.nn.auxiliary import collect_auxiliary
from attentif.nn.balance import KLConfig, Routing, SwitchConfig, ZLossConfig
from attentif.nn.mixer import Site
from attentif.nn.mixers.experts import Experts, ExpertsConfig
from attentif.nn.seq import Seq
from attentif.nn.tape import record

pytestmark = pytest.mark.parity
logging.disable_progress_bar()

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
GRADIENTS = {"rtol": 1e-4, "atol": 1e-4}
VOCAB, WIDTH, HIDDEN, EXPERTS, LENGTHS = 97, 32, 24, 8, [5, 17, 1, 11]


def spread_out(module: nn.Module) -> nn.Module:
    torch.manual_seed(1)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)
    return module.eval()


def ours(**values: Any) -> Experts:
    return ExpertsConfig.model_validate({"experts": EXPERTS, "hidden": HIDDEN} | values).build(Site(width=WIDTH)).eval()


def fused(theirs: nn.Module) -> dict[str, Tensor]:
    """The stacked tensors of transformers' experts, by our names."""
    gate, up = theirs.gate_up_proj.chunk(2, 1)
    return {"gate.weight": gate, "up.weight": up, "out.weight": theirs.down_proj}


def assert_same(mine: Experts, theirs: nn.Module, tensors: dict[str, Tensor], wanted: dict[str, nn.Parameter]) -> None:
    """`tensors`: their weights by our names; `wanted`: those of our names whose gradient is that of one whole parameter of theirs."""
    mine.load_state_dict(tensors)
    torch.manual_seed(2)
    x = torch.randn(3, 19, WIDTH)
    one, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    probe = torch.randn(3, 19, WIDTH)
    y, known = mine(one, Seq.from_padded([19] * 3)), theirs(other)
    assert_close(y, known, **CLOSE)
    (y * probe).sum().backward()
    (known * probe).sum().backward()
    assert_close(one.grad, other.grad, **GRADIENTS)
    for name, parameter in wanted.items():
        assert_close(mine.get_parameter(name).grad, parameter.grad, **GRADIENTS)


def test_mixtrals_block_agrees() -> None:
    config = MixtralConfig(hidden_size=WIDTH, intermediate_size=HIDDEN, num_local_experts=EXPERTS, num_experts_per_tok=2)
    theirs, mine = spread_out(MixtralSparseMoeBlock(config)), ours()
    tensors = fused(theirs.experts) | {"router.weight": theirs.gate.weight}
    assert_same(mine, theirs, tensors, {"router.weight": theirs.gate.weight, "out.weight": theirs.experts.down_proj})
    gate, up = theirs.experts.gate_up_proj.grad.chunk(2, 1)
    assert_close(mine.gate.weight.grad, gate, **GRADIENTS)
    assert_close(mine.up.weight.grad, up, **GRADIENTS)


DEEPSEEK = {
    "hidden_size": WIDTH,
    "moe_intermediate_size": HIDDEN,
    "num_experts_per_tok": 3,
    "n_group": 4,
    "topk_group": 2,
    "n_shared_experts": 2,
    "routed_scaling_factor": 2.5,
}


def shared(theirs: nn.Module) -> dict[str, Tensor]:
    names = {"gate": "gate_proj", "up": "up_proj", "out": "down_proj"}
    return {f"shared.{mine}.weight": getattr(theirs.shared_experts, name).weight for mine, name in names.items()}


def test_deepseek_v3s_block_agrees() -> None:
    """Sigmoid scores, a bias on the choice that is not 0, groups scored by their two best, shared experts, a factor."""
    theirs = spread_out(DeepseekV3MoE(DeepseekV3Config(n_routed_experts=EXPERTS, norm_topk_prob=True, **DEEPSEEK)))
    theirs.gate.e_score_correction_bias.copy_(torch.linspace(-0.4, 0.4, EXPERTS))
    values = {"scores": "sigmoid", "groups": 4, "top_groups": 2, "shared": 2, "top_k": 3, "scale": 2.5, "balance": [{"kind": "bias"}]}
    tensors = fused(theirs.experts) | shared(theirs) | {"router.weight": theirs.gate.weight}
    tensors |= {"choice_bias": theirs.gate.e_score_correction_bias}
    wanted = {"router.weight": theirs.gate.weight, "out.weight": theirs.experts.down_proj}
    assert_same(ours(**values), theirs, tensors, wanted | {"shared.up.weight": theirs.shared_experts.up_proj.weight})


@pytest.mark.parametrize("method", ["greedy", "group_limited_greedy"])
def test_deepseek_v2s_block_agrees(method: str) -> None:
    theirs = spread_out(DeepseekV2Moe(DeepseekV2Config(n_routed_experts=EXPERTS, topk_method=method, **DEEPSEEK)))
    groups = {"groups": 4, "top_groups": 2, "group_best": 1} if method != "greedy" else {}
    mine = ours(normalised=False, shared=2, top_k=3, scale=2.5, **groups)
    tensors = fused(theirs.experts) | shared(theirs) | {"router.weight": theirs.gate.weight}
    assert_same(mine, theirs, tensors, {"router.weight": theirs.gate.weight, "out.weight": theirs.experts.down_proj})


SWITCH = {"d_model": WIDTH, "d_ff": HIDDEN, "d_kv": 8, "num_heads": 4, "num_experts": EXPERTS, "vocab_size": VOCAB}


def test_switchs_block_agrees_where_nothing_is_dropped() -> None:
    theirs = spread_out(SwitchTransformersSparseMLP(SwitchTransformersConfig(expert_capacity=1000, **SWITCH)))
    experts = [theirs.experts[f"expert_{number}"] for number in range(EXPERTS)]
    tensors = {
        "router.weight": theirs.router.classifier.weight,
        "up.weight": torch.stack([expert.wi.weight for expert in experts]),
        "out.weight": torch.stack([expert.wo.weight for expert in experts]),
    }
    mine = ours(top_k=1, normalised=False, activation="relu")
    assert_same(mine, theirs, tensors, {"router.weight": theirs.router.classifier.weight})
    for number, expert in enumerate(experts):
        if expert.wi.weight.grad is not None:  # theirs leaves out those that no token went to
            assert_close(mine.up.weight.grad[number], expert.wi.weight.grad, **GRADIENTS)
            assert_close(mine.out.weight.grad[number], expert.wo.weight.grad, **GRADIENTS)


# ------------------------------------------------------------------------------------------------------------- whole models


@pytest.fixture
def mixtral(tmp_path: Path) -> tuple[MixtralForCausalLM, Model]:
    """Saved and read back: on disk every expert is a tensor of its own."""
    torch.manual_seed(0)
    config = MixtralConfig(
        vocab_size=VOCAB,
        hidden_size=WIDTH,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_local_experts=4,
        pad_token_id=0,
    )
    theirs = MixtralForCausalLM(config)
    for parameter in theirs.parameters():
        if parameter.ndim == 1:
            nn.init.normal_(parameter, std=0.3)
        else:
            parameter.data *= 8
    theirs.eval().save_pretrained(tmp_path)
    mixers = {"attn": {"mixer": {"heads": 4, "kv_heads": 2}}, "ffn": {"mixer": {"experts": 4, "hidden": 48}}}
    sizes = {"width": WIDTH, "layers": 2, "frontend": {"vocab": VOCAB}, "decoder": {"block": mixers}}
    mine = build(resolve({"base": "mixtral-8x7b"} | sizes)).eval()
    mine.load_state_dict(read_folder(tmp_path).model.state_dict())
    return theirs, mine


def tokens() -> tuple[Tensor, Tensor]:
    torch.manual_seed(3)
    mask = Seq.from_padded(LENGTHS).valid
    return torch.randint(3, VOCAB, mask.shape) * mask, mask


def test_mixtral_agrees_in_logits_alone_ragged_packed_and_step_by_step(mixtral: tuple[MixtralForCausalLM, Model]) -> None:
    theirs, mine = mixtral
    ids, mask = tokens()
    with torch.no_grad():
        known = theirs(ids, attention_mask=mask.long()).logits[mask]
        assert_close(mine(Batch(Input(ids, Seq.from_padded(LENGTHS))))[0][mask], known, **CLOSE)
        assert_close(mine(Batch(Input(ids[mask], Seq.from_packed(LENGTHS))))[0], known, **CLOSE)
        one = ids[1:2]
        whole, state = theirs(one).logits, mine.init_state(1, one.shape[1])
        steps = [mine(Batch(Input(one[:, t : t + 1], Seq.from_padded([1], start=t))), state)[0] for t in range(one.shape[1])]
        assert_close(torch.cat(steps, 1), whole, **CLOSE)


def test_mixtral_agrees_in_gradients(mixtral: tuple[MixtralForCausalLM, Model]) -> None:
    theirs, mine = mixtral
    ids, mask = tokens()
    theirs(ids, attention_mask=mask.long()).logits[mask].log_softmax(-1)[:, 5].mean().backward()
    mine(Batch(Input(ids, Seq.from_padded(LENGTHS))))[0][mask].log_softmax(-1)[:, 5].mean().backward()
    assert_close(mine.frontend.tokens.weight.grad, theirs.model.embed_tokens.weight.grad, **GRADIENTS)
    for block, layer in zip(mine.decoder.blocks, theirs.model.layers, strict=True):
        assert_close(block.ffn.mixer.router.weight.grad, layer.mlp.gate.weight.grad, **GRADIENTS)
        assert_close(block.ffn.mixer.out.weight.grad, layer.mlp.experts.down_proj.grad, **GRADIENTS)


def test_switch_agrees_in_the_decoders_hidden_states(tmp_path: Path) -> None:
    torch.manual_seed(0)
    layers = {"num_layers": 2, "num_decoder_layers": 2, "num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1}
    theirs = SwitchTransformersForConditionalGeneration(SwitchTransformersConfig(expert_capacity=1000, **layers, **SWITCH)).eval()
    theirs.save_pretrained(tmp_path)
    saved = load_file(tmp_path / "model.safetensors")
    plain = {"heads": 4, "head_width": 8}
    dense = {"mixer": {"kind": "feed-forward", "hidden": HIDDEN, "activation": "relu", "bias": False}}
    sparse = {"kind": "experts", "experts": EXPERTS, "top_k": 1, "normalised": False, "hidden": HIDDEN, "activation": "relu"}
    both = resolve({"base": "switch-base"})
    values = both.model_dump() | {"base": None, "width": WIDTH, "layers": 2}
    for side in ("frontend", "target"):
        values[side] |= {"vocab": VOCAB}
    for side in ("encoder", "decoder"):
        values[side]["bias"] |= {"heads": 4}
        for block, ffn in zip(values[side]["blocks"], (dense, {"mixer": sparse}), strict=True):
            for name in block["sublayers"]:
                if name == "ffn":
                    block["sublayers"][name] |= ffn
                else:
                    block["sublayers"][name]["mixer"] |= plain
    mine = build(type(both).model_validate(values)).eval()
    mine.load_state_dict(_switch_tensors(saved))
    source, mask = tokens()
    target, lengths = source.flip(0), LENGTHS[::-1]
    with torch.no_grad():
        known = theirs(input_ids=source, attention_mask=mask.long(), decoder_input_ids=target, output_hidden_states=True)
        hidden, seq = mine.hidden(Batch(Input(source, Seq.from_padded(LENGTHS)), Input(target, Seq.from_padded(lengths))))
        assert_close(hidden[seq.valid], known.decoder_hidden_states[-1][seq.valid], **CLOSE)


def _switch_tensors(saved: dict[str, Tensor]) -> dict[str, Tensor]:
    tensors = {"frontend.tokens.weight": saved.pop("shared.weight")}
    for stack, names in (("encoder", ("attn", "ffn")), ("decoder", ("attn", "cross", "ffn"))):
        tensors[f"{stack}.norm.weight"] = saved.pop(f"{stack}.final_layer_norm.weight")
        bias = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        tensors[f"{stack}.bias.table.weight"] = saved.pop(bias)
        for i in range(2):
            for number, name in enumerate(names):
                theirs, own = f"{stack}.block.{i}.layer.{number}", f"{stack}.blocks.{i}.{name}"
                tensors[f"{own}.norm_in.weight"] = saved.pop(f"{theirs}.layer_norm.weight")
                if name != "ffn":
                    kind = "SelfAttention" if name == "attn" else "EncDecAttention"
                    for part, mine in zip("qkvo", ("q", "k", "v", "out"), strict=True):
                        tensors[f"{own}.mixer.{mine}.weight"] = saved.pop(f"{theirs}.{kind}.{part}.weight")
                elif i == 0:
                    for part, mine in (("wi", "up"), ("wo", "out")):
                        tensors[f"{own}.mixer.{mine}.weight"] = saved.pop(f"{theirs}.mlp.{part}.weight")
                else:
                    tensors[f"{own}.mixer.router.weight"] = saved.pop(f"{theirs}.mlp.router.classifier.weight")
                    for part, mine in (("wi", "up"), ("wo", "out")):
                        each = [saved.pop(f"{theirs}.mlp.experts.expert_{e}.{part}.weight") for e in range(EXPERTS)]
                        tensors[f"{own}.mixer.{mine}.weight"] = torch.stack(each)
    assert not saved
    return tensors


# ------------------------------------------------------------------------------------------------------------------- losses


def routing(logits: Tensor, k: int) -> Routing:
    probabilities = logits.softmax(-1)
    weights, chosen = probabilities.topk(k, -1)
    return Routing(logits, probabilities, chosen, weights)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_switch_loss_is_mixtrals_divided_by_k(k: int) -> None:
    """Theirs counts k choices a token and is k where all is even; ours takes shares, and is 1."""
    torch.manual_seed(0)
    one = (2 * torch.randn(40, EXPERTS)).requires_grad_()
    other = one.detach().clone().requires_grad_()
    mine, theirs = SwitchConfig().loss(routing(one, k)), load_balancing_loss_func((other,), EXPERTS, k) / k
    assert_close(mine, theirs)
    assert_close(torch.autograd.grad(mine, one), torch.autograd.grad(theirs, other))


def test_the_switch_and_z_losses_are_those_of_switch_transformers() -> None:
    torch.manual_seed(0)
    logits = 2 * torch.randn(3, 40, EXPERTS)
    for row in logits:  # theirs takes each row's shares by itself
        mine = routing(row, 1)
        assert_close(SwitchConfig().loss(mine), switch_loss_func(row[None].softmax(-1), mine.chosen[None]))
    flat = logits.flatten(0, 1)
    assert_close(ZLossConfig().loss(routing(flat, 1)), router_z_loss_func(logits))


def test_the_kl_loss_is_torchs_divergence_from_uniform() -> None:
    torch.manual_seed(0)
    logits = 2 * torch.randn(40, EXPERTS, dtype=torch.float64)
    mean = torch.distributions.Categorical(probs=logits.softmax(-1).mean(0))
    even = torch.distributions.Categorical(logits=torch.zeros(EXPERTS, dtype=torch.float64))
    assert_close(KLConfig().loss(routing(logits, 1)), torch.distributions.kl_divergence(mean, even))


def test_mixtrals_own_loss_follows_from_the_tape_and_padding_is_in_neither(mixtral: tuple[MixtralForCausalLM, Model]) -> None:
    """Theirs pools the statistics of all blocks before it multiplies them; ours adds the losses of the blocks, as Fedus et al. do."""
    theirs, mine = mixtral
    ids, mask = tokens()
    known = theirs(ids, attention_mask=mask.long(), output_router_logits=True).aux_loss
    with record(mine) as tape, collect_auxiliary() as auxiliary:
        mine(Batch(Input(ids, Seq.from_padded(LENGTHS))))
    kept = [tape.records[f"decoder.blocks.{i}.ffn"][0] for i in range(2)]
    shares = torch.stack([routing.shares for routing in kept]).mean(0)
    probabilities = torch.stack([routing.probabilities.mean(0) for routing in kept]).mean(0)
    assert_close(2 * 4 * (shares * probabilities).sum(), known, **CLOSE)
    blocks = [load_balancing_loss_func((routing.logits,), 4, 2) / 2 for routing in kept]
    assert_close(auxiliary.loss, 0.01 * sum(blocks), **CLOSE)
    assert all(int(counts[-1]) == sum(LENGTHS) for counts in auxiliary.counts.values())


# -------------------------------------------------------------------------------------------------------------------- sizes


def parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def test_mixtral_8x7b_has_the_size_of_the_published_one() -> None:
    with torch.device("meta"):
        theirs = MixtralForCausalLM(MixtralConfig())
    mine = build(resolve({"base": "mixtral-8x7b"}), device="meta")
    assert parameters(mine) == parameters(theirs) == 46_702_792_704


def test_switch_base_has_the_size_of_the_paper_and_the_shape_of_transformers() -> None:
    """The paper's table 9: 7 G parameters with 128 gated experts; transformers' class has plain ones, here 8."""
    base = resolve({"base": "switch-base"})
    assert parameters(build(base, device="meta")) == 7_415_217_408
    values = base.model_dump() | {"base": None}
    for side in ("encoder", "decoder"):
        for block in values[side]["blocks"]:
            block["sublayers"]["ffn"]["mixer"] |= {"activation": "relu"} | ({"experts": 8} if block is values[side]["blocks"][1] else {})
    sparse = {"num_sparse_encoder_layers": 6, "num_sparse_decoder_layers": 6}
    with torch.device("meta"):
        theirs = SwitchTransformersForConditionalGeneration(SwitchTransformersConfig(num_experts=8, **sparse))
    assert parameters(build(type(base).model_validate(values), device="meta")) == parameters(theirs)
