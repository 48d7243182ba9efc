import pytest

from attentif.text import TOKENIZERS
from attentif.text.explain import format_token, is_byte_level, list_learned, walk

TEXTS = ["un film génial, vraiment génial !", "la série était très mauvaise", "l'été dernier, les films étaient bons"] * 20
LEARNED = [kind for kind in TOKENIZERS if kind != "given"]
SIZES = {"bpe": 330, "wordpiece": 150, "unigram": 330, "word": 40, "char": 60}


def fitted(kind):
    return TOKENIZERS[kind].model_validate({"kind": kind} | ({"vocab": SIZES[kind]} if kind in SIZES else {})).fit(TEXTS)


@pytest.mark.parametrize("kind", LEARNED)
@pytest.mark.parametrize("text", ["les séries géniales étaient filmées", "un film !", "dernièrement"])
def test_the_walk_ends_where_the_library_ends(kind, text):
    tokenizer = fitted(kind)
    assert [token for cut in walk(tokenizer, text) for token in cut.tokens] == tokenizer.encode(text, wrap="none").tokens


def test_each_step_of_bpe_applies_the_merge_it_names():
    tokenizer = fitted("bpe")
    merges = list_learned(tokenizer, 10_000)
    (cut,) = walk(tokenizer, "génialement")
    assert len(cut.steps) > 3
    for before, after in zip(cut.steps, cut.steps[1:], strict=False):
        assert merges[after.rank].pair == after.pair
        assert len(after.symbols) == len(before.symbols) - 1
        assert "".join(after.symbols) == "".join(before.symbols)


def test_merges_build_on_symbols_known_before_them():
    tokenizer = fitted("bpe")
    known = {symbol for symbol in tokenizer.rust.get_vocab() if len(symbol) == 1}
    for merge in list_learned(tokenizer, 10_000):
        assert set(merge.pair) <= known
        known.add(merge.result)


def test_the_first_merge_is_the_most_frequent_pair():
    assert list_learned(TOKENIZERS["bpe"](vocab=270).fit(["abab abab cd"] * 3), 1)[0].pair == ("a", "b")


def test_wordpiece_takes_the_longest_piece_first():
    tokenizer = fitted("wordpiece")
    (cut,) = walk(tokenizer, "génialfilm")
    vocab = tokenizer.rust.get_vocab()
    assert cut.tokens[0] == max((piece for piece in vocab if "génialfilm".startswith(piece)), key=len)


def test_unigram_gives_the_best_cut_first_and_others_after():
    (cut,) = walk(fitted("unigram"), "génial")
    totals = [float(step.said.split()[-1]) for step in cut.steps]
    assert totals == sorted(totals, reverse=True)
    assert len({step.symbols for step in cut.steps}) == len(cut.steps) > 1


def test_nothing_was_learned_for_bytes():
    assert list_learned(fitted("byte"), 5) == []


def test_tokens_are_shown_as_people_read_them():
    assert format_token("Ġfilm", byte_level=True) == "␣film"
    assert format_token("Ã©t", byte_level=True) == "ét"
    assert format_token("Ã", byte_level=True) == "⟨C3⟩"
    assert format_token("Ċ", byte_level=True) == "⏎"
    assert format_token("▁film", byte_level=False) == "␣film"
    assert format_token("[MASK]", byte_level=True) == "[MASK]"


def test_byte_level_is_told_from_the_file():
    assert [kind for kind in LEARNED if is_byte_level(fitted(kind))] == ["bpe", "byte"]
