"""Speech against other people's implementations: Whisper's features and logits, a Conformer block, the CTC loss against all alignments."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

from attentif.decode.ctc import collapse, prefix_beam
from attentif.hub import read_folder
from attentif.kernels.mel import log_mel, mel_filters, whisper_range
from attentif.models import Batch, Input, build
from attentif.models.config import resolve
from attentif.models.heads.ctc import ctc_loss, min_frames
from attentif.nn.auxiliary import collect_auxiliary
from attentif.nn.block import Block, SublayerConfig
from attentif.nn.mixer import Site
from attentif.nn.seq import Seq
from attentif.nn.stack import recompute_contexts

pytestmark = pytest.mark.parity


def test_whispers_features_are_transformers_own() -> None:
    from transformers import WhisperFeatureExtractor

    extractor = WhisperFeatureExtractor(feature_size=80, chunk_length=2)
    random = np.random.default_rng(0)
    time = np.arange(2 * 16000) / 16000
    wave = 0.3 * np.sin(2 * np.pi * (200 + 900 * time) * time) + 0.02 * random.normal(size=len(time))
    expected = extractor(wave.astype(np.float32), sampling_rate=16000, return_tensors="np")["input_features"][0].T
    frames = log_mel(torch.from_numpy(wave), mel_filters(16000, 400, 80, 0.0, 8000.0, "slaney"), window=400, hop=160, fft=400)
    found = whisper_range(frames[None])[0]
    assert found.shape == expected.shape == (200, 80)
    np.testing.assert_allclose(found.numpy(), expected, atol=2e-4)  # theirs is float32, where quiet bands lose digits


def test_whisper_tiny_has_as_many_parameters() -> None:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    with torch.device("meta"):
        theirs = WhisperForConditionalGeneration(WhisperConfig())  # its defaults are the tiny model's
    assert theirs.config.d_model == 384
    ours = build(resolve({"base": "whisper-tiny"}).with_sizes(target_vocab=51865), device="meta")
    assert sum(ours.sizes().values()) == sum(parameter.numel() for parameter in theirs.parameters())


def test_whisper_writes_what_transformers_writes(tmp_path: Path) -> None:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    sizes = {"d_model": 32, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48}
    torch.manual_seed(0)
    config = WhisperConfig(
        vocab_size=53, num_mel_bins=20, encoder_layers=2, decoder_layers=2, max_source_positions=30, max_target_positions=16, dropout=0.0,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, begin_suppress_tokens=None, **sizes,
    )  # fmt: skip
    theirs = WhisperForConditionalGeneration(config).double().eval()
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.3)
    block = lambda heads, **more: {"mixer": {"heads": heads, **more}}
    changes = {
        "width": 32,
        "layers": 2,
        "frontend": {"mels": 20, "position": {"max_len": 30}, "normalise": "none"},
        "target": {"vocab": 53, "position": {"max_len": 16}},
        "encoder": {"block": {"attn": block(4), "ffn": {"mixer": {"hidden": 48}}}},
        "decoder": {"block": {"attn": block(4), "cross": block(4), "ffn": {"mixer": {"hidden": 48}}}},
    }
    ours = build(resolve({"base": "whisper-tiny"} | changes)).double().eval()
    theirs.save_pretrained(tmp_path)
    ours.load_state_dict(read_folder(tmp_path, dtype=None).model.state_dict())  # strict: every tensor of ours has one of theirs
    frames, ids = torch.randn(2, 60, 20, dtype=torch.float64), torch.randint(3, 53, (2, 9))
    with torch.no_grad():
        expected = theirs(input_features=frames.mT, decoder_input_ids=ids).logits
        found, _ = ours(Batch(Input(frames, Seq.from_padded([60, 60])), Input(ids, Seq.from_padded([9, 9]))))
    assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_a_conformer_block_is_wav2vec2_conformers() -> None:
    from transformers.models.wav2vec2_conformer.configuration_wav2vec2_conformer import Wav2Vec2ConformerConfig
    from transformers.models.wav2vec2_conformer.modeling_wav2vec2_conformer import Wav2Vec2ConformerEncoderLayer

    config = Wav2Vec2ConformerConfig(
        hidden_size=24, num_attention_heads=4, intermediate_size=40, hidden_act="swish", conv_depthwise_kernel_size=7,
        position_embeddings_type=None, hidden_dropout=0.0, activation_dropout=0.0, attention_dropout=0.0, conformer_conv_dropout=0.0,
    )  # fmt: skip
    torch.manual_seed(0)
    theirs = Wav2Vec2ConformerEncoderLayer(config).double().eval()
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.4)
    norm = theirs.conv_module.batch_norm
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.5, 2)
    preset = resolve({"base": "conformer-tiny"}).encoder
    assert preset is not None
    changes = {"ffn1": {"hidden": 40}, "attn": {"rotary": None}, "conv": {"kernel": 7, "norm": "batch"}, "ffn2": {"hidden": 40}}
    sublayers: dict[str, SublayerConfig] = {
        name: sublayer.replace(mixer=sublayer.mixer.replace(**changes[name])) for name, sublayer in preset.block.items()
    }
    ours = Block(sublayers, Site(width=24)).double().eval()
    values = theirs.state_dict() | {"zero": torch.zeros(48, dtype=torch.float64)}
    names = {
        "ffn1.mixer.up": "ffn1.intermediate_dense", "ffn1.mixer.out": "ffn1.output_dense", "ffn1.norm_in": "ffn1_layer_norm",
        "attn.norm_in": "self_attn_layer_norm", "conv.norm_in": "conv_module.layer_norm", "conv.mixer.norm": "conv_module.batch_norm",
        "ffn2.mixer.up": "ffn2.intermediate_dense", "ffn2.mixer.out": "ffn2.output_dense", "ffn2.norm_in": "ffn2_layer_norm",
        "ffn2.norm_out": "final_layer_norm",
    }  # fmt: skip
    names |= {f"attn.mixer.{part}": f"self_attn.linear_{part}" for part in ("q", "k", "v", "out")}
    state = {f"{own}.{part}": values[f"{other}.{part}"] for own, other in names.items() for part in ("weight", "bias")}
    state |= {
        "conv.mixer.norm.mean": values["conv_module.batch_norm.running_mean"],
        "conv.mixer.norm.var": values["conv_module.batch_norm.running_var"],
    }
    state |= {
        "conv.mixer.up.weight": values["conv_module.pointwise_conv1.weight"][..., 0], "conv.mixer.up.bias": values["zero"],
        "conv.mixer.taps": values["conv_module.depthwise_conv.weight"][:, 0], "conv.mixer.taps_bias": values["zero"][:24],
        "conv.mixer.out.weight": values["conv_module.pointwise_conv2.weight"][..., 0], "conv.mixer.out.bias": values["zero"][:24],
    }  # fmt: skip
    ours.load_state_dict(state)
    x = torch.randn(2, 19, 24, dtype=torch.float64)
    with torch.no_grad():
        expected = theirs(x)
        assert_close(ours(x, Seq.from_padded([19, 19])), expected[0] if isinstance(expected, tuple) else expected, rtol=1e-9, atol=1e-9)


def test_batch_statistics_are_those_of_the_valid_frames_alone() -> None:
    from attentif.nn.norm import BatchNorm

    torch.manual_seed(0)
    ours, theirs = BatchNorm(6).double(), nn.BatchNorm1d(6).double()
    lengths = (5, 9, 2)
    for _ in range(3):
        rows = [torch.randn(length, 6, dtype=torch.float64) * 2 + 1 for length in lengths]
        padded = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=1e3)
        seq = Seq.from_padded(lengths)
        with collect_auxiliary() as auxiliary:
            assert_close(ours(padded, seq)[seq.valid], theirs(torch.cat(rows)))
        ours.learn(auxiliary.counts[ours].tolist())
    assert_close(ours.mean, theirs.running_mean)
    assert_close(ours.var, theirs.running_var)
    assert_close(ours.eval()(padded, seq)[seq.valid], theirs.eval()(torch.cat(rows)))


def test_running_means_move_once_a_step_however_it_is_cut() -> None:
    from attentif.nn.norm import BatchNorm

    torch.manual_seed(0)
    whole, cut = BatchNorm(6).double(), BatchNorm(6).double()
    x = torch.randn(4, 7, 6, dtype=torch.float64) + 3
    counts = []
    for norm, parts in ((whole, [x]), (cut, list(x.split(1)))):
        said = torch.zeros(norm.numbers, dtype=torch.float64)
        for part in parts:
            with collect_auxiliary() as auxiliary:
                checkpoint(
                    norm, part.requires_grad_(), Seq.from_padded([7] * len(part)), use_reentrant=False, context_fn=recompute_contexts
                ).sum().backward()
            said += auxiliary.counts[norm]
        norm.learn(said.tolist())
        counts.append(said)
    assert_close(*counts)
    assert_close(cut.mean, whole.mean)
    assert_close(cut.var, whole.var)
    assert_close(whole.mean, 0.1 * x.detach().mean((0, 1)))


def every_alignment(log_p: Tensor, tokens: tuple[int, ...]) -> Tensor:
    """-ln of the sum over all alignments that collapse to these tokens."""
    paths = [path for path in itertools.product(range(log_p.shape[1]), repeat=len(log_p)) if collapse(path) == tokens]
    return -torch.stack([log_p[torch.arange(len(path)), list(path)].sum() for path in paths]).logsumexp(0)


def test_the_ctc_loss_and_its_gradient_are_those_of_all_alignments() -> None:
    torch.manual_seed(0)
    frames, tokens = [6, 4, 5, 3], [(1, 2), (2, 2), (3,), (1, 3, 1)]
    logits = torch.randn(4, 6, 4, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([[*own, *[0] * (3 - len(own))] for own in tokens])
    found = ctc_loss(logits, torch.tensor(frames), labels, torch.tensor([len(own) for own in tokens]))
    expected = torch.stack([every_alignment(logits[row, :length].log_softmax(-1), tokens[row]) for row, length in enumerate(frames)])
    assert_close(found, expected, rtol=1e-10, atol=1e-10)
    weights = torch.tensor([1.0, -0.5, 2.0, 0.3], dtype=torch.float64)
    (gradient,) = torch.autograd.grad((found * weights).sum(), logits)
    (other,) = torch.autograd.grad((expected * weights).sum(), logits)
    assert_close(gradient, other, rtol=1e-9, atol=1e-9)
    best = prefix_beam(logits[0].log_softmax(-1).detach().numpy(), beams=500, least=0.0)
    assert math.exp(next(own.log_p for own in best if own.tokens == (1, 2))) == pytest.approx(math.exp(-float(found[0].detach())))


def test_a_transcript_without_an_alignment_costs_nothing() -> None:
    assert min_frames([4, 4, 5]) == 4
    logits = torch.randn(1, 3, 6, requires_grad=True)
    loss = ctc_loss(logits, torch.tensor([3]), torch.tensor([[4, 4, 5]]), torch.tensor([3]))
    assert float(loss.detach()) == 0
    loss.sum().backward()
    assert logits.grad is not None
    assert torch.count_nonzero(logits.grad) == 0
