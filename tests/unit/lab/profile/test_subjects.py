"""What can be profiled, what it computes, and what is refused in one line."""

import pytest
import torch

from attentif.errors import AttentifError, UsageError
from attentif.lab.profile.subjects import MixerSubject, PresetSubject, subject


@pytest.mark.parametrize("name", ["attention", "mamba", "lstm", "linear", "rwkv-time", "chunked", '{kind = "attention", causal = false}'])
def test_a_mixer_reads_learns_and_decodes(name: str) -> None:
    one = subject(name, width=32, longest=32)
    assert isinstance(one, MixerSubject)
    assert one.read(8)().shape == (1, 8, 32)
    one.training(8)()
    assert all(weight.grad is None for weight in one.module.parameters())
    if one.streams:
        decoding = one.decoding(8)
        decoding.step()
        decoding.step()  # at the same place again: a state of limited capacity is not run past
    assert one.streams == ("causal = false" not in name)


@pytest.mark.parametrize("name", ["mamba-tiny", "transformer-tiny", "bert-tiny", "hybrid-tiny", "bahdanau-2015-tiny", "preset:lstm"])
def test_a_preset_is_profiled_at_any_width_with_one_block_of_each_kind(name: str) -> None:
    one = subject(name, width=64, longest=32)
    assert isinstance(one, PresetSubject)
    assert one.read(8)().shape[-1] in (64, 128)
    one.training(8)()
    if one.streams:
        one.decoding(8).step()
    kinds = [stack for stack in (one.model.encoder, one.model.decoder) if stack is not None]
    assert all(len(stack.blocks) >= 1 for stack in kinds)


def test_a_name_that_is_both_a_mixer_and_a_preset_can_be_told_apart() -> None:
    assert subject("lstm", width=16, longest=8).kind == subject("mixer:lstm", width=16, longest=8).kind == "mixer"
    assert subject("preset:lstm", width=16, longest=8).kind == "preset"


def test_a_decoding_step_continues_what_was_read() -> None:
    one = subject("mamba", width=16, longest=16)
    assert isinstance(one, MixerSubject)
    x = torch.cat([one._vectors(6), one._vectors(1, 6)], 1)
    with torch.no_grad():
        from attentif.nn.seq import Seq

        whole = one.mixer.eval()(x, Seq.from_padded([7]))
        step = one.decoding(6).step()
    assert isinstance(step, torch.Tensor)
    torch.testing.assert_close(step[:, 0], whole[:, 6], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("mambo", "did you mean 'mamba'"),
        ("cross-attention", "reads a memory"),
        ("{kind = }", "not a table"),
        ('{kind = "nothing"}', "there is no mixer 'nothing'"),
        ('{kind = "attention", head = 4}', "did you mean 'heads'"),
        ("vit-tiny", "only models that read tokens"),
    ],
)
def test_what_cannot_be_profiled_is_said_in_one_line(given: str, said: str) -> None:
    with pytest.raises(AttentifError) as found:
        subject(given, width=32, longest=16)
    assert said in str(found.value)
    assert "\n" not in str(found.value)


def test_a_preset_that_cannot_have_this_width_says_so() -> None:
    with pytest.raises(UsageError, match=r"gpt2.*250"):
        subject("gpt2", width=250, longest=16)
