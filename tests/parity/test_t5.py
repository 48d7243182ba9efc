"""The T5 presets against transformers' T5: sizes of the published models, logits and loss of a small one."""

from pathlib import Path

import pytest
import torch
from torch.testing import assert_close
from transformers import T5Config, T5ForConditionalGeneration
from transformers.utils import logging

from attentif.hub import read_folder
from attentif.models import Batch, Input, build, resolve
from attentif.nn.seq import Seq

pytestmark = pytest.mark.parity
logging.disable_progress_bar()


@pytest.mark.parametrize(("name", "parameters"), [("t5-small", 60_506_624), ("t5-base", 222_903_552)])
def test_presets_have_the_published_sizes(name: str, parameters: int) -> None:
    assert sum(build(resolve({"base": name}), device="meta").sizes().values()) == parameters


def test_the_preset_is_transformers_t5_to_the_logits_and_the_loss(tmp_path: Path) -> None:
    torch.manual_seed(0)
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "vocab_size": 50}
    theirs = T5ForConditionalGeneration(T5Config(**sizes, dropout_rate=0.0)).eval()
    for parameter in theirs.parameters():  # an initial T5 is nearly the same for every input
        parameter.data += 0.1 * torch.randn_like(parameter)
    theirs.save_pretrained(tmp_path)
    attention = {"heads": 4, "head_width": 8}
    mixers = {"attn": {"mixer": attention}, "ffn": {"mixer": {"hidden": 64}}}
    changes = {
        "width": 32, "layers": 2, "frontend": {"vocab": 50}, "target": {"vocab": 50},
        "encoder": {"bias": {"heads": 4}, "block": mixers},
        "decoder": {"bias": {"heads": 4}, "block": mixers | {"cross": {"mixer": attention}}},
    }  # fmt: skip
    mine = build(resolve({"base": "t5-small"} | changes)).eval()
    mine.load_state_dict(read_folder(tmp_path).model.state_dict())
    lengths, written = [5, 17, 11], [9, 3, 12]
    source = torch.randint(3, 50, (3, 17)) * Seq.from_padded(lengths).valid
    target = torch.randint(3, 50, (3, 12)) * Seq.from_padded(written).valid
    labels = torch.randint(3, 50, (3, 12)).masked_fill(~Seq.from_padded(written).valid, -100)
    with torch.no_grad():
        known = theirs(input_ids=source, attention_mask=Seq.from_padded(lengths).valid.long(), decoder_input_ids=target, labels=labels)
        batch = Batch(Input(source, Seq.from_padded(lengths)), Input(target, Seq.from_padded(written)), labels)
        logits, seq = mine(batch)
        assert_close(logits[seq.valid], known.logits[seq.valid], rtol=1e-5, atol=1e-5)
        from attentif.tasks.token_loss import token_loss

        total, count = token_loss(mine, batch)
        assert count == sum(written)
        assert_close(total / count, known.loss, rtol=1e-5, atol=1e-5)
