"""Steps of attention, the logit lens and interventions, compared with the equations and with models built that way."""

import pytest
import torch

from attentif import inspect
from attentif.errors import UsageError
from attentif.inspect.interventions import (
    AttentionScale,
    ExpertOff,
    HeadsOff,
    MaskOff,
    PartOff,
    Patch,
    PositionsOff,
    ResidualOff,
    TokenVector,
)
from attentif.models import Batch, Input, Model, build, resolve
from attentif.nn.seq import Seq

VOCAB = 11


def model_of(base: str, **values) -> Model:
    torch.manual_seed(0)
    common = {"base": base, "width": 16, "layers": 2, "dropout": 0.0, "frontend": {"vocab": VOCAB}}
    return build(resolve(common | values).with_any_size()).eval()


def batch_of(length: int = 6, seed: int = 1) -> Batch:
    ids = torch.randint(VOCAB, (1, length), generator=torch.Generator().manual_seed(seed))
    return Batch(Input(ids, Seq.from_padded([length])))


def answers(model: Model, batch: Batch) -> torch.Tensor:
    with torch.no_grad():
        return model(batch)[0]


@pytest.mark.parametrize("base", ["decoder-tiny", "encoder-tiny", "bert-tiny", "gpt2"])
def test_steps_of_attention_add_up_to_what_the_model_computed(base):
    model, batch = model_of(base, **({"layers": 1, "width": 24} if base == "gpt2" else {})), batch_of()
    path = next(iter(inspect.count_heads(model)))
    heads = inspect.count_heads(model)[path]
    steps = [inspect.attention_steps(model, batch, path, head=head, query=4) for head in range(heads)]
    for step in steps:
        scores = step.scores.masked_fill(~step.allowed, float("-inf"))
        torch.testing.assert_close(scores.softmax(-1), step.weights)
        torch.testing.assert_close(step.dots, step.k @ step.q)
        assert step.weights.sum() == pytest.approx(1, abs=1e-6)
    torch.testing.assert_close(torch.cat([step.mixed for step in steps]), steps[0].joined)
    flow = inspect.activations(model, batch)[path]
    torch.testing.assert_close(steps[0].after, flow.stream[0, 4])
    torch.testing.assert_close(steps[0].out, flow.branch[0, 4])


def test_steps_of_grouped_queries_and_relative_biases_add_up_too():
    mixer = {"decoder": {"block": {"attn": {"mixer": {"heads": 4, "kv_heads": 2}}}}}
    model, batch = model_of("decoder-tiny", **mixer), batch_of()
    steps = [inspect.attention_steps(model, batch, "decoder.blocks.1.attn", head=head, query=3) for head in range(4)]
    torch.testing.assert_close(torch.cat([step.mixed for step in steps]), steps[0].joined)
    t5 = model_of("t5-tiny", target={"vocab": VOCAB})
    pair = Batch(batch_of().source, batch_of(4, seed=2).source)
    for path in ("encoder.blocks.0.attn", "decoder.blocks.0.cross"):
        steps = [inspect.attention_steps(t5, pair, path, head=head, query=2) for head in range(inspect.count_heads(t5)[path])]
        torch.testing.assert_close(torch.cat([step.mixed for step in steps]), steps[0].joined)
        for step in steps:
            torch.testing.assert_close(step.scores.masked_fill(~step.allowed, float("-inf")).softmax(-1), step.weights)


def test_steps_name_the_attention_there_is():
    with pytest.raises(UsageError, match=r"decoder\.blocks\.0\.attn"):
        inspect.attention_steps(model_of("decoder-tiny"), batch_of(), "decoder.blocks.0.ffn", head=0, query=0)
    for head, query, said in ((0, 99, "tokens, not 100"), (98, 0, "heads, not 99")):
        with pytest.raises(UsageError, match=said):
            inspect.attention_steps(model_of("decoder-tiny"), batch_of(), "decoder.blocks.0.attn", head=head, query=query)


@pytest.mark.parametrize("base", ["decoder-tiny", "encoder-tiny", "lstm-tiny", "mamba-tiny"])
def test_the_last_line_of_the_lens_is_the_answer(base):
    model, batch = model_of(base), batch_of()
    lens = inspect.logit_lens(model, batch)
    torch.testing.assert_close(lens.logits[-1], answers(model, batch)[0].reshape(lens.logits[-1].shape))
    assert len(lens.paths) == len(lens.logits)
    assert lens.paths[0] == "embedding"


# ------------------------------------------------------------------------------------------------------------ interventions


def test_every_change_is_undone():
    model, batch = model_of("decoder-tiny"), batch_of()
    before = answers(model, batch)
    changes = [
        HeadsOff("decoder.blocks.0.attn", (0,)),
        PartOff("decoder.blocks.1"),
        ResidualOff(),
        PositionsOff(),
        AttentionScale(3.0),
        MaskOff(),
        TokenVector(1, None),
        Patch("decoder.blocks.0.ffn", 2, batch_of(4, seed=3), 1),
    ]
    for change in changes:
        with inspect.intervene(model, [change]):
            assert not torch.equal(answers(model, batch), before), change
        assert torch.equal(answers(model, batch), before), change
    with inspect.intervene(model, changes):
        answers(model, batch)
    assert torch.equal(answers(model, batch), before)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_a_part_that_is_off_is_a_model_without_it():
    model, batch = model_of("decoder-tiny"), batch_of()
    with inspect.intervene(model, [PartOff("decoder.blocks.1.attn"), PartOff("decoder.blocks.1.ffn")]):
        without = answers(model, batch)
    with inspect.intervene(model, [PartOff("decoder.blocks.1")]):
        torch.testing.assert_close(answers(model, batch), without)
    lens = inspect.logit_lens(model, batch)
    torch.testing.assert_close(lens.logits[lens.paths.index("decoder.blocks.0.ffn")], without[0])


def test_without_positions_an_encoder_is_equivariant():
    model, batch = model_of("encoder-tiny"), batch_of()
    order = torch.randperm(6, generator=torch.Generator().manual_seed(4))
    turned = Batch(Input(batch.source.data[:, order], batch.source.seq))
    with torch.no_grad():
        assert not torch.allclose(model.hidden(batch)[0][:, order], model.hidden(turned)[0], atol=1e-5)
        with inspect.intervene(model, [PositionsOff()]):
            torch.testing.assert_close(model.hidden(batch)[0][:, order], model.hidden(turned)[0])


def test_without_the_mask_the_first_place_sees_the_last():
    model, batch = model_of("decoder-tiny"), batch_of()
    changed = Batch(Input(batch.source.data.clone(), batch.source.seq))
    changed.source.data[0, -1] = (changed.source.data[0, -1] + 1) % VOCAB
    torch.testing.assert_close(answers(model, batch)[0, 0], answers(model, changed)[0, 0])
    with inspect.intervene(model, [MaskOff()]):
        assert not torch.allclose(answers(model, batch)[0, 0], answers(model, changed)[0, 0])
        steps = inspect.attention_steps(model, batch, "decoder.blocks.0.attn", head=0, query=0)
        assert steps.allowed.all()


def test_scores_grow_by_the_factor_and_without_scaling_by_the_root_of_the_width():
    model, batch = model_of("encoder-tiny"), batch_of()
    at = {"path": "encoder.blocks.0.attn", "head": 0, "query": 2}
    plain = inspect.attention_steps(model, batch, **at)
    with inspect.intervene(model, [AttentionScale(2.0)]):
        torch.testing.assert_close(inspect.attention_steps(model, batch, **at).scores, 2 * plain.scores)
    with inspect.intervene(model, [AttentionScale(unscaled=True)]):
        torch.testing.assert_close(inspect.attention_steps(model, batch, **at).scores, plain.dots)


def test_a_token_vector_can_be_another_tokens():
    model, batch = model_of("encoder-tiny"), batch_of()
    other = batch.source.data.clone()
    other[0, 2] = 7
    with inspect.intervene(model, [TokenVector(2, 7)]):
        torch.testing.assert_close(answers(model, batch), answers(model, Batch(Input(other, batch.source.seq))))


def test_a_patch_of_every_place_gives_the_other_texts_answer():
    model, batch, other = model_of("decoder-tiny"), batch_of(), batch_of(seed=5)
    with inspect.intervene(model, [Patch("decoder.blocks.1.ffn", place, other, place) for place in range(6)]):
        torch.testing.assert_close(answers(model, batch), answers(model, other))


def test_an_expert_that_is_off_is_never_chosen():
    model, batch = model_of("mixtral-tiny"), batch_of()
    path = next(iter(inspect.routing(model, batch)))
    chosen = int(inspect.routing(model, batch)[path].chosen[0, 0])
    with inspect.intervene(model, [ExpertOff(path, chosen)]):
        assert chosen not in inspect.routing(model, batch)[path].chosen
    with pytest.raises(UsageError, match="no expert 99"), inspect.intervene(model, [ExpertOff(path, 99)]):
        pass


def test_heads_are_ranked_by_what_their_removal_does():
    model, batch = model_of("encoder-tiny"), batch_of()
    measure = lambda: float(answers(model, batch)[0, 0])
    ranked = inspect.rank_heads(model, measure)
    assert len(ranked) == sum(inspect.count_heads(model).values())
    assert [abs(one.effect) for one in ranked] == sorted((abs(one.effect) for one in ranked), reverse=True)
    with inspect.without_heads(model, {ranked[0].path: [ranked[0].head]}):
        without = measure()
    assert ranked[0].effect == pytest.approx(measure() - without)
