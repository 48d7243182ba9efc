"""Rows that join and leave a batch are written as they would be alone, whatever the mixer."""

import pytest
import torch
from torch.testing import assert_close

from attentif.decode.session import Session
from attentif.models import Model, build
from attentif.models.config import resolve
from attentif.models.heads import LanguageHeadConfig
from attentif.serve.rows import PromptCache, StateRows, common_length

VOCAB, LIMIT = 40, 64
FAMILIES = [
    "decoder-tiny", "llama-tiny", "mistral-tiny", "window-tiny", "latent-tiny", "memorizing-tiny", "mixtral-tiny",
    "linear-transformer-tiny", "performer-tiny", "gated-linear-tiny", "gated-conv-tiny", "rnn-tiny", "lstm-tiny", "gru-tiny", "s4d-tiny",
    "mamba-tiny", "mamba2-tiny", "hybrid-tiny", "rwkv-tiny", "rwkv7-tiny", "griffin-tiny", "gated-recurrence-tiny",
]  # fmt: skip
CLOSE = {"atol": 2e-4, "rtol": 2e-4}  # float32 products of one row and of several are summed in different orders
LONG = [4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21]
PROMPTS = {"a": [1, 2, 3], "b": LONG, "c": [7, 3]}


def make(name: str) -> Model:
    config = resolve({"base": name}).with_head(LanguageHeadConfig())
    torch.manual_seed(0)
    return build(config.with_sizes(vocab=VOCAB)).eval()


def write_alone(model: Model, prompt: list[int], steps: int) -> tuple[list[int], list[torch.Tensor]]:
    with torch.no_grad():
        session, tokens, seen = Session(model, [prompt], LIMIT - len(prompt)), [], []
        for _ in range(steps):
            seen.append(session.logits[0])
            tokens.append(int(session.logits.argmax()))
            session.read(torch.tensor(tokens[-1:]))
    return tokens, seen


@pytest.mark.parametrize("name", FAMILIES)
@torch.inference_mode()
def test_rows_that_join_and_leave_are_written_as_alone(name: str) -> None:
    model = make(name)
    rows = StateRows(model, LIMIT, PromptCache(1 << 24))
    written: dict[str, list[int]] = {key: [] for key in PROMPTS}
    logits: dict[str, list[torch.Tensor]] = {key: [] for key in PROMPTS}
    active: list[str] = []

    def see(key: str, scores: torch.Tensor) -> None:
        logits[key].append(scores)
        written[key].append(int(scores.argmax()))

    def join(key: str) -> None:
        reading = rows.begin(PROMPTS[key])
        while reading.left:
            rows.read([reading], 5)
        see(key, reading.logits)
        rows.join(reading)
        active.append(key)

    def step() -> None:
        for key, scores in zip(active, rows.step([written[key][-1] for key in active]), strict=True):
            see(key, scores)

    join("a")
    step()
    join("b")
    step()
    step()
    join("c")
    step()
    rows.keep([1, 2])
    active.remove("a")
    step()
    for key, prompt in PROMPTS.items():
        tokens, scores = write_alone(model, prompt, len(written[key]))
        assert written[key] == tokens
        for own, alone in zip(logits[key], scores, strict=True):
            assert_close(own, alone, **CLOSE)


@pytest.mark.parametrize("name", FAMILIES)
@torch.inference_mode()
def test_prompts_that_are_read_together_are_read_as_alone(name: str) -> None:
    """One of them has begun before, and they end at different chunks."""
    model = make(name)
    rows = StateRows(model, LIMIT, PromptCache(1 << 24))
    readers = {"b": rows.begin(PROMPTS["b"])}
    rows.read([readers["b"]], 5)
    readers |= {key: rows.begin(PROMPTS[key]) for key in ("a", "c")}
    while any(reader.left for reader in readers.values()):
        rows.read([*readers.values()], 4)
    for reader in readers.values():
        rows.join(reader)
    tokens = [int(reader.logits.argmax()) for reader in readers.values()]
    after = rows.step(tokens)
    for row, (key, reader) in enumerate(readers.items()):
        alone, scores = write_alone(model, PROMPTS[key], 2)
        assert_close(reader.logits, scores[0], **CLOSE)
        assert tokens[row] == alone[0]
        assert_close(after[row], scores[1], **CLOSE)


@pytest.mark.parametrize("name", ["decoder-tiny", "mamba-tiny"])
@torch.inference_mode()
def test_a_prompt_that_begins_as_an_earlier_one_reads_only_the_rest(name: str) -> None:
    model = make(name)
    rows = StateRows(model, LIMIT, PromptCache(1 << 24))
    rows.read([rows.begin(LONG)], 100)
    longer = rows.begin([*LONG, 30, 31])
    assert longer.left == 2
    rows.read([longer], 100)
    assert_close(longer.logits, write_alone(model, [*LONG, 30, 31], 1)[1][0], **CLOSE)
    same = rows.begin(LONG)
    assert same.left == 0
    assert_close(same.logits, write_alone(model, LONG, 1)[1][0], **CLOSE)
    other = rows.begin([*LONG[:-1], 33, 34])  # attention can go back to where both are alike, a recurrence cannot
    assert other.left == (2 if name == "decoder-tiny" else len(LONG) + 1)
    rows.read([other], 100)
    assert_close(other.logits, write_alone(model, [*LONG[:-1], 33, 34], 1)[1][0], **CLOSE)


def test_the_cache_of_prefixes_stays_within_its_bytes() -> None:
    model = make("decoder-tiny")
    cache = PromptCache(600_000)
    rows = StateRows(model, LIMIT, cache)
    with torch.inference_mode():
        for first in range(30):
            rows.read([rows.begin([first, *LONG])], 100)
    assert 0 < cache.bytes <= 600_000
    assert sum(entry.bytes for entry in cache.entries.values()) == cache.bytes
    assert cache.find((29, *LONG), partly=False) is not None
    assert cache.find((0, *LONG), partly=False) is None
    assert sum(map(len, cache.beginnings.values())) == len(cache.entries)


def test_the_common_beginning_of_two_texts_is_counted() -> None:
    assert common_length([1, 2, 3], [1, 2, 4]) == 2
    assert common_length([1, 2], [1, 2, 3]) == 2
    assert common_length([], [1]) == 0
