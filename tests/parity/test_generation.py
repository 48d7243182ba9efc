"""Decoding against transformers': the same tokens, the same scores, the same filters."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.generation.logits_process import (
    ForcedEOSTokenLogitsProcessor,
    MinLengthLogitsProcessor,
    MinPLogitsWarper,
    NoBadWordsLogitsProcessor,
    NoRepeatNGramLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    SuppressTokensAtBeginLogitsProcessor,
    SuppressTokensLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)
from transformers.utils import logging

from attentif.decode import GenerateOptions, beam_search, generate
from attentif.decode.limits import Limiter, Limits
from attentif.decode.sampling import adjust_logits, keep_min_p, keep_top_k, keep_top_p, penalise
from attentif.hub import read_folder
from attentif.models import Model, build, resolve

pytestmark = pytest.mark.parity
logging.disable_progress_bar()
logging.set_verbosity_error()

VOCAB, WIDTH, HEADS, LAYERS, STOP = 97, 32, 4, 2, 5
PROMPTS = [[3, 14, 15, 92, 65], [35, 8], [9, 79, 32]]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Model, GPT2LMHeadModel]:
    """A tiny random GPT-2, saved, and ours with its weights."""
    folder: Path = tmp_path_factory.mktemp("gpt2")
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=VOCAB, n_positions=128, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, bos_token_id=1, eos_token_id=STOP)
    peer = GPT2LMHeadModel(config).eval()
    for parameter in peer.parameters():
        torch.nn.init.normal_(parameter, std=0.25)  # scores far apart: rounding decides nothing
    peer.save_pretrained(folder)
    block = {"attn": {"mixer": {"heads": HEADS}}, "ffn": {"mixer": {"hidden": 4 * WIDTH}}}
    frontend = {"vocab": VOCAB, "position": {"kind": "learned", "max_len": 128}}
    ours = build(resolve({"base": "gpt2", "width": WIDTH, "layers": LAYERS, "frontend": frontend, "decoder": {"block": block}}))
    ours.load_state_dict(read_folder(folder).model.state_dict())
    return ours, peer


def theirs(peer: GPT2LMHeadModel, prompt: list[int], **options: Any) -> Any:
    ids = torch.tensor([prompt])
    return peer.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        pad_token_id=0,
        return_dict_in_generate=True,
        output_scores=True,
        **options,
    )


def test_64_greedy_tokens_are_the_same(both: tuple[Model, GPT2LMHeadModel]) -> None:
    ours, peer = both
    found = generate(ours, PROMPTS, GenerateOptions(max_tokens=64))
    for row, prompt in zip(found, PROMPTS, strict=True):
        expected = theirs(peer, prompt, max_new_tokens=64, min_new_tokens=64, eos_token_id=None).sequences[0, len(prompt) :]
        assert row.tokens == expected.tolist()


def test_greedy_with_a_penalty_and_a_stop_token_is_the_same(both: tuple[Model, GPT2LMHeadModel]) -> None:
    ours, peer = both
    found = generate(ours, PROMPTS, GenerateOptions(max_tokens=64, repetition_penalty=1.3), stop_tokens={STOP})
    for row, prompt in zip(found, PROMPTS, strict=True):
        expected = theirs(peer, prompt, max_new_tokens=64, repetition_penalty=1.3).sequences[0, len(prompt) :].tolist()
        assert row.tokens + [STOP] * (row.finish == "token") == expected


@pytest.mark.parametrize("alpha", [0.0, 1.0, 0.6])
@pytest.mark.parametrize(("early", "their_early"), [(False, "never"), (True, True)])
@pytest.mark.parametrize("beams", [2, 4])
def test_beams_and_their_scores_are_the_same(
    both: tuple[Model, GPT2LMHeadModel], alpha: float, early: bool, their_early: str | bool, beams: int
) -> None:
    ours, peer = both
    stops = [STOP, 11, 40]
    options = GenerateOptions(max_tokens=16, beams=beams, length_penalty=alpha, early_stopping=early)
    found = beam_search(ours, PROMPTS, options, stop_tokens=stops)
    search = {"num_beams": beams, "num_return_sequences": beams, "length_penalty": alpha, "early_stopping": their_early}
    for texts, prompt in zip(found, PROMPTS, strict=True):
        expected = theirs(peer, prompt, max_new_tokens=16, eos_token_id=stops, **search)
        assert_close(torch.tensor([text.score for text in texts]), expected.sequences_scores, rtol=1e-4, atol=1e-4)
        for text, row in zip(texts, expected.sequences, strict=True):
            written = row[len(prompt) :].tolist()[: len(text.tokens) + (text.finish == "token")]
            assert text.tokens == [token for token in written if token not in stops]


def logits() -> Tensor:
    torch.manual_seed(1)
    return 4 * torch.randn(6, 300)


@pytest.mark.parametrize("k", [1, 7, 299, 400])
def test_top_k_is_the_same(k: int) -> None:
    assert_close(keep_top_k(logits(), k), TopKLogitsWarper(k)(None, logits()))


@pytest.mark.parametrize("p", [0.001, 0.3, 0.9, 0.999])
def test_top_p_is_the_same(p: float) -> None:
    assert_close(keep_top_p(logits(), p), TopPLogitsWarper(p)(None, logits()))


@pytest.mark.parametrize("p", [0.001, 0.05, 0.5, 1.0])
def test_min_p_is_the_same(p: float) -> None:
    assert_close(keep_min_p(logits(), p), MinPLogitsWarper(p)(None, logits()))


@pytest.mark.parametrize("penalty", [0.7, 1.2, 5.0])
def test_the_repetition_penalty_is_the_same(penalty: float) -> None:
    ids = torch.randint(0, 300, (6, 40))
    seen = torch.zeros(6, 300, dtype=torch.bool).scatter(1, ids, True)
    assert_close(penalise(logits(), seen, penalty), RepetitionPenaltyLogitsProcessor(penalty)(ids, logits()))


def test_all_filters_in_turn_are_the_same() -> None:
    scores = logits()
    for warper in (TemperatureLogitsWarper(1.7), TopKLogitsWarper(50), TopPLogitsWarper(0.8), MinPLogitsWarper(0.1)):
        scores = warper(None, scores)
    assert_close(adjust_logits(logits(), GenerateOptions(temperature=1.7, top_k=50, top_p=0.8, min_p=0.1)), scores)


@pytest.mark.parametrize("written", [0, 1, 4, 7])
def test_limits_are_their_processors(written: int) -> None:
    texts = torch.randint(0, 4, (6, 3 + written), generator=torch.Generator().manual_seed(written))
    scores = torch.randn(6, 11, generator=torch.Generator().manual_seed(1))
    for limits, processor in (
        (Limits(banned=(1, 9)), SuppressTokensLogitsProcessor([1, 9], device="cpu")),
        (Limits(banned=(1, 9)), NoBadWordsLogitsProcessor([[1], [9], [STOP]], eos_token_id=torch.tensor([STOP]))),
        (Limits(banned_first=(2, 3)), SuppressTokensAtBeginLogitsProcessor([2, 3], begin_index=3, device="cpu")),
        (Limits(no_repeat_ngram=1), NoRepeatNGramLogitsProcessor(1)),
        (Limits(no_repeat_ngram=2), NoRepeatNGramLogitsProcessor(2)),
        (Limits(no_repeat_ngram=3), NoRepeatNGramLogitsProcessor(3)),
        (Limits(min_tokens=4), MinLengthLogitsProcessor(3 + 4, STOP)),
        (Limits(forced_end=True), ForcedEOSTokenLogitsProcessor(3 + 8, STOP)),
    ):
        found = Limiter(limits, 8, {STOP}, 11)(scores, texts.tolist(), written)
        assert_close(found, processor(texts, scores.clone()), rtol=0, atol=0)


@pytest.mark.parametrize("beams", [1, 4])
@pytest.mark.parametrize(
    ("ours_said", "theirs_said"),
    [
        ({"no_repeat_ngram": 2}, {"no_repeat_ngram_size": 2}),
        (
            {"no_repeat_ngram": 3, "min_tokens": 20, "forced_end": True},
            {"no_repeat_ngram_size": 3, "min_new_tokens": 20, "forced_eos_token_id": STOP},
        ),
        ({"banned": (1, 8, 40), "banned_first": (3, 60)}, {"bad_words_ids": [[1], [8], [40]], "begin_suppress_tokens": [3, 60]}),
    ],
)
def test_texts_within_limits_are_the_same(
    both: tuple[Model, GPT2LMHeadModel], beams: int, ours_said: dict[str, Any], theirs_said: dict[str, Any]
) -> None:
    ours, peer = both
    found = generate(ours, PROMPTS, GenerateOptions(max_tokens=32, beams=beams, early_stopping=True, **ours_said), stop_tokens={STOP})
    early = {"early_stopping": True} if beams > 1 else {}
    for row, prompt in zip(found, PROMPTS, strict=True):
        expected = theirs(peer, prompt, max_new_tokens=32, num_beams=beams, **early, **theirs_said).sequences[0, len(prompt) :].tolist()
        expected = expected[: expected.index(STOP)] if STOP in expected else expected
        assert row.tokens == expected
