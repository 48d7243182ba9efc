"""Tiny random models of transformers, saved to disk, read as ours, written back and loaded by transformers again: the same numbers.

Two programs that add the same numbers in another order differ in their last digits: by some 1e-5 in float32, where the weights are spread
as widely as here, and not by 1e-10 in float64.
"""

import math
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from hub_cases import CASES, VOCAB, Case
from safetensors.torch import load_file
from torch.testing import assert_close
from transformers.utils import logging

from attentif.decode import GenerateOptions, generate
from attentif.errors import ConfigError
from attentif.hub import FAMILIES, Imported, read_folder, write_folder
from attentif.hub.sounds import read_features, write_features
from attentif.kernels.mel import whisper_range
from attentif.models import Batch, Input, Model
from attentif.nn.seq import Seq
from attentif.tasks.speech.data import FeaturesConfig

pytestmark = pytest.mark.parity
logging.disable_progress_bar()
logging.set_verbosity_error()  # that BigBird reads short texts by plain attention

LENGTHS = [5, 17, 1, 11]
SEGMENTS, OF_PAIRS = ("BertConfig", "ElectraConfig", "BigBirdConfig"), ("SequenceClassification", "Answering", "NextSentencePrediction")
CLOSE = {torch.float32: {"rtol": 1e-4, "atol": 3e-5}, torch.float64: {"rtol": 1e-10, "atol": 1e-10}}


def test_every_class_of_every_family_is_compared_here_or_refused_by_name() -> None:
    compared = {case.architecture for case in CASES.values()}
    for family in FAMILIES.values():
        read = {head.architecture for form in (family, *family.others) for head in form.heads}
        assert read <= compared
        module = sys.modules[getattr(transformers, min(read)).__module__]
        classes = {name for name in module.__all__ if issubclass(getattr(module, name), transformers.PreTrainedModel)}
        assert {name for name in classes if "retrained" not in name.lower()} - read == {*family.left_out}


def ours(model: Model, ids: torch.Tensor, lengths: list[int], marked: int = 0) -> torch.Tensor:
    """What our model makes of a batch; an encoder-decoder writes what it reads."""
    marks = (torch.arange(ids.shape[1]) < marked).expand_as(ids) if marked else None
    given = Input(ids, Seq.from_padded(lengths, marks=marks))
    return model(Batch(given, given if model.target is not None else None))[0].squeeze(-1)


def known(case: Case, model: Any, ids: torch.Tensor, **more: torch.Tensor) -> torch.Tensor:
    """The same of theirs, for rows of one length."""
    more |= {"decoder_input_ids": ids} if case.kind == "seq2seq" else {}
    if case.marked:
        more["global_attention_mask"] = (torch.arange(ids.shape[1]) < case.marked).long().expand_as(ids)
    if case.architecture == "BigBirdForQuestionAnswering":  # it would look for [SEP], and take what stands before it for a question
        more = {"question_lengths": torch.zeros(len(ids), 1, dtype=torch.long), "token_type_ids": torch.zeros_like(ids)} | more
    found = model(input_ids=ids, **more)
    if case.config in ("CLIPTextConfig", "SiglipTextConfig"):  # of the last place, wherever the text ends
        project = getattr(model, "text_projection", None) or getattr(model, "head", None)
        return found.last_hidden_state[:, -1] if project is None else project(found.last_hidden_state[:, -1])
    if model.config.model_type == "big_bird":  # once it has read a short text, it would read long ones by plain attention too
        model.base_model.set_attention_type(model.config.attention_type)
    if "start_logits" in found:
        return torch.stack([found.start_logits, found.end_logits], -1)
    if "logits" in found or "prediction_logits" in found:
        return found.logits if "logits" in found else found.prediction_logits
    if case.kind == "seq2seq":
        return found.last_hidden_state @ model.shared.weight.T
    return found.last_hidden_state[:, -1] if case.kind == "decoder" else found.last_hidden_state.mean(1)


def tokens() -> torch.Tensor:
    torch.manual_seed(3)
    seq = Seq.from_padded(LENGTHS)
    ids = torch.randint(3, VOCAB, seq.valid.shape) * seq.valid
    return ids.flatten().index_fill(0, seq.last(), 2).view_as(ids)  # every text ends: encoder-decoders classify there


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.kind in ("encoder", "decoder", "seq2seq")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@torch.no_grad()
def test_logits_agree_and_come_back(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    case = CASES[name]
    if not (case.double if dtype == torch.float64 else case.single):
        pytest.skip("transformers works out the angles or the norms of this family in float32, or draws its hashes by it")
    theirs = case.build(tmp_path / "theirs", dtype)
    found = read_folder(tmp_path / "theirs", dtype=None)
    ids = tokens()
    ragged = ours(found.model, ids, LENGTHS, case.marked)
    expected = []
    for row, length in enumerate(LENGTHS):
        alone = ids[row : row + 1, :length]
        expected.append(known(case, theirs, alone))
        assert_close(ours(found.model, alone, [length], case.marked), expected[-1], **CLOSE[dtype])
        own = ragged[row : row + 1, :length] if ragged.shape[1] == ids.shape[1] else ragged[row : row + 1]
        assert_close(own, expected[-1], **CLOSE[dtype])
    written_back(case, found, tmp_path)
    again = reloaded(case, tmp_path, dtype)
    assert_close(known(case, again, ids[1:2]), expected[1], **CLOSE[dtype])


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.config in SEGMENTS and name.endswith(OF_PAIRS)])
@torch.no_grad()
def test_the_second_text_of_a_pair_is_told_apart(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    theirs = case.build(tmp_path, torch.float64)
    model, ids = read_folder(tmp_path, dtype=None).model, tokens()[1:2]
    segments = (torch.arange(ids.shape[1]) >= 7).long()[None]
    mine = model(Batch(Input(ids, Seq.from_padded([ids.shape[1]]), segments)))[0]
    assert_close(mine, known(case, theirs, ids, token_type_ids=segments), **CLOSE[torch.float64])
    assert not torch.allclose(mine, ours(model, ids, [ids.shape[1]]))


@pytest.mark.parametrize("name", ["esm hides", "esm 1b"])
@torch.no_grad()
def test_hidden_words_make_the_others_grow(name: str, tmp_path: Path) -> None:
    case, ids = CASES[name], tokens()
    theirs = case.build(tmp_path, torch.float32)
    model = read_folder(tmp_path).model
    ids[:, ::3] = 5  # [MASK]
    ragged, packed = (
        ours(model, ids, LENGTHS),
        Input(torch.cat([row[:n] for row, n in zip(ids, LENGTHS, strict=True)]), Seq.from_packed(LENGTHS)),
    )
    whole = model(Batch(packed))[0].split(LENGTHS)
    for row, length in enumerate(LENGTHS[:2]):  # of a text of [MASK] alone theirs divides by 0
        expected = known(case, theirs, ids[row : row + 1, :length])
        assert_close(ragged[row : row + 1, :length], expected, **CLOSE[torch.float32])
        assert_close(whole[row][None], expected, **CLOSE[torch.float32])


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.kind == "image"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@torch.no_grad()
def test_pictures_agree_and_come_back(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    case = CASES[name]
    theirs = case.build(tmp_path / "theirs", dtype)
    found = read_folder(tmp_path / "theirs", dtype=None)
    pictures = torch.randn(3, *found.model.frontend.shape, dtype=dtype)
    expected = theirs(pictures)
    expected = pooled(case, expected)
    mine = found.model(Batch(Input(pictures, Seq.from_padded([1] * 3))))[0]
    assert_close(mine, expected, **CLOSE[dtype])
    written_back(case, found, tmp_path)
    assert_close(pooled(case, reloaded(case, tmp_path, dtype)(pictures)), expected, **CLOSE[dtype])


def pooled(case: Case, found: Any) -> torch.Tensor:
    """Scores of a picture, or its vector: ViT's own pooler was trained for something else."""
    if "logits" in found:
        return found.logits
    if case.config == "SiglipVisionConfig" and found.pooler_output is None:
        return found.last_hidden_state.mean(1)
    if case.config in ("BeitConfig", "CLIPVisionConfig", "SiglipVisionConfig"):
        return found.image_embeds if "image_embeds" in found else found.pooler_output
    return found.last_hidden_state[:, 0]


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.kind == "waves"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@torch.no_grad()
def test_samples_of_sound_agree_and_come_back(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    """Row by row: in a padded batch, their convolutions and norms hear the padding."""
    case, lengths = CASES[name], [200, 97, 140]
    if dtype == torch.float64 and not case.double:
        pytest.skip("transformers works out places in float32")
    theirs = case.build(tmp_path / "theirs", dtype)
    found = read_folder(tmp_path / "theirs", dtype=None)
    seq = Seq.from_padded(lengths)
    waves = torch.randn(seq.valid.shape, dtype=dtype) * seq.valid
    ragged, _ = found.model(Batch(Input(waves, seq)))
    for row, length in enumerate(lengths):
        alone = waves[row : row + 1, :length]
        expected = heard(theirs(alone))
        assert_close(found.model(Batch(Input(alone, Seq.from_padded([length]))))[0], expected, **CLOSE[dtype])
        own = ragged[row : row + 1] if ragged.ndim == 2 else ragged[row : row + 1, : expected.shape[1]]
        assert_close(own, expected, **CLOSE[dtype])
    written_back(case, found, tmp_path)
    assert_close(heard(reloaded(case, tmp_path, dtype)(alone)), expected, **CLOSE[dtype])


def heard(found: Any) -> torch.Tensor:
    return found.logits if "logits" in found else found.last_hidden_state.mean(1)


def frames_of(features: torch.Tensor) -> torch.Tensor:
    """The frames that Whisper's feature extractor brings to these features: what our model reads."""
    return (4 * features - 4) * math.log(10)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.kind == "frames"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@torch.no_grad()
def test_frames_of_sound_agree_and_come_back(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    case, lengths = CASES[name], [5, 9, 1]
    theirs = case.build(tmp_path / "theirs", dtype)
    found = read_folder(tmp_path / "theirs", dtype=None)
    features, ids = 1.9 * torch.rand(3, 100, 20, dtype=dtype), tokens()[:3, :9]  # what they read is always as long
    written_back(case, found, tmp_path)
    again = reloaded(case, tmp_path, dtype)

    def ours(rows: slice, read: list[int]) -> torch.Tensor:
        source, target = (
            Input(frames_of(features[rows]), Seq.from_padded([100] * len(read))),
            Input(ids[rows, : max(read)], Seq.from_padded(read)),
        )
        return found.model(Batch(source, target if found.model.target is not None else None))[0]

    ragged = ours(slice(3), lengths)
    for row, length in enumerate(lengths):
        given = {"decoder_input_ids": ids[row : row + 1, :length]} if found.model.target is not None else {}
        expected = theirs(input_features=features[row : row + 1].mT, **given).logits
        assert_close(ours(slice(row, row + 1), [length]), expected, **CLOSE[dtype])
        assert_close(ragged[row : row + 1, :length] if given else ragged[row : row + 1], expected, **CLOSE[dtype])
        assert_close(again(input_features=features[row : row + 1].mT, **given).logits, expected, **CLOSE[dtype])


@pytest.mark.parametrize("name", ["whisper", "whisper classify"])
@torch.no_grad()
def test_whisper_hears_the_same(name: str, tmp_path: Path) -> None:
    """From the sound on: our frames of any sound are their feature extractor's, which are float32 and lose digits in silence."""
    case = CASES[name]
    theirs = case.build(tmp_path / "theirs", torch.float32)
    extractor = transformers.WhisperFeatureExtractor(feature_size=20, chunk_length=1)
    extractor.save_pretrained(tmp_path / "theirs")
    found = read_folder(tmp_path / "theirs")
    features = read_features(tmp_path / "theirs")
    assert features is not None
    waves = [0.3 * torch.sin(torch.arange(size) ** 1.5 / 40).numpy() for size in (9000, 16000, 20000)]
    frames = torch.stack(FeaturesConfig.model_validate({k: v for k, v in features.items() if k != "kind"}).frames(waves))
    expected = extractor(waves, sampling_rate=16000, return_tensors="pt")["input_features"]
    assert_close(whisper_range(frames), expected.mT, atol=1e-4, rtol=0)
    source, ids = Input(frames, Seq.from_padded([100] * 3)), tokens()[:3, :9]
    written_back(case, found, tmp_path)
    write_features(tmp_path / "ours", features)
    again = reloaded(case, tmp_path, torch.float32)
    assert transformers.WhisperFeatureExtractor.from_pretrained(tmp_path / "ours").to_dict() == extractor.to_dict()
    for model in (theirs, again):
        if name == "whisper":
            mine, _ = found.model(Batch(source, Input(ids, Seq.from_padded([5, 9, 1], 9))))
            known = model(input_features=expected, decoder_input_ids=ids).logits
            assert all(torch.allclose(mine[row, :n], known[row, :n], rtol=1e-3, atol=1e-3) for row, n in enumerate([5, 9, 1]))
        else:
            assert_close(found.model(Batch(source))[0], model(input_features=expected).logits, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["t5", "flan", "bart", "marian", "whisper"])
@torch.no_grad()
def test_an_encoder_decoder_writes_the_same_text(name: str, tmp_path: Path) -> None:
    """64 tokens, greedily, with a cache here and without one there; then the same read step by step."""
    case = CASES[name]
    theirs = case.build(tmp_path, torch.float64)
    model = read_folder(tmp_path, dtype=None).model
    if case.kind == "frames":
        features = 1.9 * torch.rand(1, 100, 20, dtype=torch.float64)
        source, given = Input(frames_of(features), Seq.from_padded([100])), {"input_features": features.mT}
    else:
        ids = tokens()[1:2]
        source, given = Input(ids, Seq.from_padded([ids.shape[1]])), {"input_ids": ids}
    written = generate(model, [[1]], GenerateOptions(max_tokens=64, temperature=0.0), source=source)[0].tokens
    whole = torch.tensor([[1, *written]])
    scores = theirs(**given, decoder_input_ids=whole).logits  # greedy: every token is the best after those before it
    assert scores[0, :-1].argmax(-1).tolist() == written
    memory = model.encode(source)
    state = model.init_state(1, 65, memory.x, memory.seq)
    steps = [model(Batch(source, Input(whole[:, t : t + 1], Seq.from_padded([1], start=t))), state)[0] for t in range(20)]
    assert_close(torch.cat(steps, 1), scores[:, :20], **CLOSE[torch.float32])


def written_back(case: Case, found: Imported, folder: Path) -> None:
    write_folder(
        folder / "ours", found.model, family=found.family.kind, architecture=case.architecture, labels=found.labels, special=found.special
    )


def reloaded(case: Case, folder: Path, dtype: torch.dtype) -> Any:
    """What transformers makes of our folder: the same tensors to the bit, none missing, none unknown."""
    again, info = getattr(transformers, case.architecture).from_pretrained(folder / "ours", dtype=dtype, output_loading_info=True)
    poolers = ("pooler.dense.weight", "pooler.dense.bias", "pooler.weight", "pooler.bias")
    unused = {f"{prefix}{name}" for prefix in ("", "bert.") for name in poolers}  # where our head has no pooler
    unused |= {"lm_head.bias"} if case.config == "ReformerConfig" else set()  # which they do not read either
    if case.config == "PegasusConfig":  # sinusoids, made when it is built
        unused |= {f"{prefix}{side}.embed_positions.weight" for prefix in ("", "model.") for side in ("encoder", "decoder")}
    if case.config == "EsmConfig":  # of contacts between residues, and what is worked out when built
        inner = ("contact_head.regression.weight", "contact_head.regression.bias", "rotary_embeddings.inv_freq")
        inner = (*inner, "encoder.layer.*.attention.self.rotary_embeddings.inv_freq")  # as transformers 5 saves it
        unused |= {f"{prefix}{name}" for prefix in ("", "esm.") for name in inner}
    assert set(info["missing_keys"]) <= unused
    assert not info["unexpected_keys"]
    assert not info["mismatched_keys"]
    files = [load_file(folder / side / "model.safetensors") for side in ("theirs", "ours")]
    if case.config == "SiglipConfig":  # the learned query that its classes do not read
        head = {name for name in files[0] if name.startswith("vision_model.head.")} if case.kind == "image" else set()
        unused |= head
    today = lambda name: name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")  # of ESM's norms
    files[0] = {today(name): tensor for name, tensor in files[0].items()}
    assert set(files[1]) <= set(files[0])
    assert set(files[0]) - set(files[1]) <= unused | {
        "masked_spec_embed",
        *(f"{name}.masked_spec_embed" for name in ("wav2vec2_conformer", "wav2vec2", "hubert")),
    }  # of training
    unread: tuple[str, ...] = ("pos_conv_embed", "embeddings.mask_token")  # by anybody, or but in training
    unread += ("post_layernorm",) * (case.architecture == "CLIPForImageClassification")  # of a token that its classes do not read
    assert all(torch.equal(files[0][name], tensor) for name, tensor in files[1].items() if not any(part in name for part in unread))
    return again.eval()


@torch.no_grad()
def test_reformer_writes_the_same_text(tmp_path: Path) -> None:
    """Read anew for every token: in a text that grows, earlier tokens fall into other chunks, and any cache is only nearly right."""
    theirs = CASES["reformer"].build(tmp_path, torch.float64)
    model = read_folder(tmp_path, dtype=None).model
    ids = tokens()[1:2, :8]
    for _ in range(64):
        expected, mine = theirs(ids).logits, ours(model, ids, [ids.shape[1]])
        assert_close(mine, expected, **CLOSE[torch.float64])
        ids = torch.cat([ids, expected[:, -1:].argmax(-1)], 1)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.writes and name != "reformer"])
@torch.no_grad()
def test_decoding_agrees_token_by_token(name: str, tmp_path: Path) -> None:
    theirs = CASES[name].build(tmp_path, torch.float32)
    model = read_folder(tmp_path).model
    ids = tokens()[1:2]
    state, whole = model.init_state(1, ids.shape[1]), theirs(ids).logits
    steps = [model(Batch(Input(ids[:, t : t + 1], Seq.from_padded([1], start=t))), state)[0] for t in range(ids.shape[1])]
    assert_close(torch.cat(steps, 1), whole, **CLOSE[torch.float32])
    written = generate(model, [ids[0, :8].tolist()], GenerateOptions(max_tokens=64, temperature=0.0))[0]
    assert len(written.tokens) == 64
    assert written.tokens == greedily(CASES[name], theirs, ids[:, :8])


def greedily(case: Case, model: Any, ids: torch.Tensor) -> list[int]:
    """64 tokens that they write. Their `generate` counts RoBERTa's places from 0, their model from 2: there, the model decides."""
    if case.config not in ("RobertaConfig", "CamembertConfig", "XLMRobertaConfig"):
        return model.generate(ids, max_new_tokens=64, do_sample=False, eos_token_id=None, pad_token_id=0)[0, ids.shape[1] :].tolist()
    whole = ids
    for _ in range(64):
        whole = torch.cat([whole, model(whole).logits[:, -1:].argmax(-1)], 1)
    return whole[0, ids.shape[1] :].tolist()


@torch.no_grad()
def test_of_a_model_that_reads_pictures_too_the_text_model_is_read(tmp_path: Path) -> None:
    text = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16}
    vision = {
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 48,
        "image_size": 28,
        "patch_size": 14,
    }
    config = transformers.Gemma3Config(
        text_config=text | {"intermediate_size": 48, "vocab_size": VOCAB},
        vision_config=vision,
        mm_tokens_per_image=4,
        image_token_index=VOCAB,
    )
    torch.manual_seed(0)
    theirs = transformers.Gemma3ForConditionalGeneration(config).eval()
    theirs.save_pretrained(tmp_path)
    found = read_folder(tmp_path)
    ids = tokens()[1:2]
    assert_close(ours(found.model, ids, [ids.shape[1]]), theirs(input_ids=ids).logits, **CLOSE[torch.float32])
    assert "vision_config" in found.unread


@torch.no_grad()
def test_shared_blocks_that_differ_are_not_written(tmp_path: Path) -> None:
    CASES["Albert Model"].build(tmp_path, torch.float32)
    found = read_folder(tmp_path)
    assert found.model.encoder is not None
    found.model.encoder.blocks[1].ffn.mixer.up.weight[0, 0] += 1  # of this block alone
    with pytest.raises(ConfigError, match="differ"):
        write_folder(tmp_path / "ours", found.model, family="albert", architecture="AlbertModel")
    assert not (tmp_path / "ours").exists()
