import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from attentif.config import Document, Layer
from attentif.errors import ConfigError, DataError, RunError, UsageError
from attentif.tasks.tokenizers import fit_tokenizer
from attentif.text import TOKENIZERS, Tokenizer
from attentif.text.tokenizer import SPECIAL_TOKENS

SENTENCE = "le la un film série acteur est était sera vraiment très bon mauvais génial pas mal l'été d'hier où ça 12 1999 ! ? ,"
WORDS = SENTENCE.split()
TEXTS = [" ".join(WORDS[(7 * i + i * i * j) % len(WORDS)] for j in range(12)) for i in range(200)]
LEARNED = [kind for kind in TOKENIZERS if kind != "given"]
SMALL = {"bpe": 330, "wordpiece": 150, "unigram": 340, "word": 40, "char": 60}


def config(kind: str, **values):
    size = {"vocab": SMALL[kind]} if kind in SMALL else {}
    return Document([Layer({"kind": kind} | size | values, "test")]).build(TOKENIZERS[kind])


def fitted(kind: str, **values) -> Tokenizer:
    return config(kind, **values).fit(TEXTS)


@pytest.fixture(scope="module")
def bpe() -> Tokenizer:
    return fitted("bpe")


@pytest.mark.parametrize("kind", LEARNED)
def test_special_tokens_come_first_in_the_same_order(kind):
    tokenizer = fitted(kind, special=["[USER]"])
    assert [tokenizer.rust.id_to_token(i) for i in range(8)] == [*SPECIAL_TOKENS, "[USER]"]
    named = [tokenizer.pad, tokenizer.unk, tokenizer.cls, tokenizer.sep, tokenizer.mask, tokenizer.bos, tokenizer.eos]
    assert named == list(range(7))


@pytest.mark.parametrize("kind", LEARNED)
def test_vocabulary_is_not_larger_than_asked_for(kind):
    assert fitted(kind).vocab <= SMALL.get(kind, 263)


@pytest.mark.parametrize("split", [False, True], ids=["one long text", "short texts"])
def test_of_a_text_too_large_pieces_from_beginning_to_end_are_learned_from(split):
    words = [f"{place:05d}" for place in range(2000)]
    texts, notes = words if split else [" ".join(words)], []
    total = sum(map(len, texts))
    found = config("bpe", sample=total // 4).sample_texts(iter(texts), notes.append)
    kept = list(found)
    assert 0.9 * (total // 4) < sum(map(len, kept)) <= total // 4
    assert list(found) == kept
    assert all(any(piece in text for text in texts) for piece in kept)
    assert {int(re.findall(r"\d{5}", piece)[0]) // 200 for piece in kept} == set(range(10))
    assert len(notes) == 1
    assert "tokenizer.sample" in notes[0]


def test_a_text_that_is_not_too_large_is_learned_from_as_it_is():
    notes = []
    assert config("bpe", sample=sum(map(len, TEXTS))).sample_texts(TEXTS, notes.append) is TEXTS
    assert config("byte").sample_texts(TEXTS, notes.append) is TEXTS
    assert not notes


def test_a_run_learns_its_tokenizer_from_the_sample():
    notes = []
    texts = ["aaaa bbbb "] * 500 + ["cccc dddd "] * 500
    few = fit_tokenizer(config("bpe", sample=400), "tokenizer", texts, notes.append)
    assert {"Ġbbbb", "Ġdddd"} <= few.rust.get_vocab().keys()
    assert any("400 of 10,000" in note for note in notes)


@pytest.mark.parametrize("kind", LEARNED)
def test_training_again_in_another_process_gives_the_same_file(kind):
    script = (
        "import json, sys; from attentif.text import TOKENIZERS; "
        "asked = json.load(sys.stdin); print(TOKENIZERS[asked['config']['kind']](**asked['config']).fit(iter(asked['texts'])).digest)"
    )
    asked = json.dumps({"config": config(kind).model_dump(), "texts": TEXTS})
    runs = [
        subprocess.run(
            [sys.executable, "-c", script],
            input=asked,
            text=True,
            capture_output=True,
            check=True,
            env=os.environ | {"RAYON_NUM_THREADS": n},
        )
        for n in ("1", "2")
    ]
    assert {run.stdout.strip() for run in runs} == {fitted(kind).digest}


@pytest.mark.parametrize("kind", ["bpe", "byte"])
def test_byte_kinds_give_back_any_text_exactly(kind):
    tokenizer = fitted(kind, nfc=False)

    @settings(max_examples=200, deadline=None)
    @given(st.text())
    def gives_back(text):
        assert tokenizer.decode(tokenizer.encode(text).ids) == text

    gives_back()


def test_unknown_characters_of_unigram_are_spelt_in_bytes():
    text = "le film 你好"
    with_bytes, without = fitted("unigram"), fitted("unigram", byte_fallback=False)
    assert with_bytes.decode(with_bytes.encode(text).ids) == text
    assert without.unk in without.encode(text).ids


def test_composed_and_decomposed_accents_are_one_unless_asked_otherwise():
    composed, decomposed = "\u00e9t\u00e9", "e\u0301te\u0301"
    assert fitted("bpe").encode(composed).ids == fitted("bpe").encode(decomposed).ids
    assert fitted("bpe", nfc=False).encode(composed).ids != fitted("bpe", nfc=False).encode(decomposed).ids


def test_case_and_accents_can_be_taken_away():
    tokenizer = fitted("word", lowercase=True, strip_accents=True)
    assert tokenizer.encode("GÉNIAL").ids == tokenizer.encode("genial").ids
    assert tokenizer.unk not in tokenizer.encode("GÉNIAL").ids


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram", "word"])
def test_split_digits_makes_each_digit_a_token(kind):
    tokens = fitted(kind, split_digits=True).encode("1999", wrap="none").tokens
    assert [token.strip("#▁Ġ") for token in tokens if token.strip("#▁Ġ")] == ["1", "9", "9", "9"]
    assert len(fitted(kind).encode("1999", wrap="none")) < 4


def test_a_pair_is_wrapped_and_has_segments(bpe):
    encoding = bpe.encode("un film", "très bon")
    first, second = bpe.encode("un film", wrap="none").ids, bpe.encode("très bon", wrap="none").ids
    assert encoding.ids == [bpe.cls, *first, bpe.sep, *second, bpe.sep]
    assert encoding.segments == [0] * (len(first) + 2) + [1] * (len(second) + 1)
    assert bpe.segments(np.array(encoding.ids)).tolist() == encoding.segments
    assert encoding.tokens[0] == "[CLS]"


@pytest.mark.parametrize(
    ("wrap", "before", "after"), [("cls", 2, 3), ("bos-eos", 5, 6), ("bos", 5, None), ("eos", None, 6), ("none", None, None)]
)
def test_wraps_put_special_tokens_around_the_text(bpe, wrap, before, after):
    text = bpe.encode("un film", wrap="none").ids
    expected = [special for special in (before,) if special is not None] + text + [special for special in (after,) if special is not None]
    assert bpe.encode("un film", wrap=wrap).ids == expected
    assert bpe.ids_batch(["un film"], wrap=wrap)[0].tolist() == expected


def test_offsets_point_into_the_original_text(bpe):
    text = "Où était l'été ?"
    for (start, stop), token in zip(bpe.encode(text, wrap="none").offsets, bpe.encode(text, wrap="none").ids, strict=True):
        assert bpe.decode([token]).strip() in (text[start:stop].strip(), "�")


@pytest.mark.parametrize(
    ("lengths", "max_len", "kept"), [((9, 2), 10, (5, 2)), ((2, 9), 10, (2, 5)), ((9, 8), 10, (4, 3)), ((2, 2), 10, (2, 2))]
)
def test_of_a_pair_the_longer_text_is_cut_first(lengths, max_len, kept):
    tokenizer = fitted("char")
    encoding = tokenizer.encode("a" * lengths[0], "b" * lengths[1], max_len=max_len)
    ids = tokenizer.ids_batch(["a" * lengths[0]], ["b" * lengths[1]], max_len=max_len)[0]
    assert (encoding.segments.count(0) - 2, encoding.segments.count(1) - 1) == kept
    assert len(encoding) <= max_len
    assert ids.tolist() == encoding.ids
    assert len(encoding.tokens) == len(encoding.offsets) == len(encoding)


def test_a_length_that_leaves_no_room_is_refused(bpe):
    with pytest.raises(UsageError, match="leaves no room"):
        bpe.encode("un film", max_len=2)


def test_special_tokens_written_in_a_text_are_text_unless_asked_for(bpe):
    assert bpe.mask not in bpe.encode("Le [MASK] est bleu").ids
    assert bpe.decode(bpe.encode("Le [MASK] est bleu").ids) == "Le [MASK] est bleu"
    assert bpe.mask in bpe.encode("Le [MASK] est bleu", specials_in_text=True).ids


def test_half_a_character_decodes_to_a_replacement_sign(bpe):
    byte = fitted("byte")
    half = byte.encode("é", wrap="none").ids[:1]
    assert byte.decode(half) == "�"
    assert byte.decode(half + byte.encode("a", wrap="none").ids) == "�a"


def test_text_that_is_not_unicode_is_a_data_error(bpe):
    with pytest.raises(DataError, match=r"2.*Unicode"):
        bpe.encode_batch(["bon", "mal\ud800"])


@pytest.mark.parametrize("kind", LEARNED)
def test_the_saved_file_is_read_by_the_library_and_wraps_alike(kind, tmp_path):
    tokenizer = fitted(kind)
    tokenizer.save(tmp_path / "deep" / "tokenizer.json")
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "deep" / "tokenizer.json"))
    ours = Tokenizer.load(tmp_path / "deep")
    pair = theirs.encode("un film", "très bon")
    assert ours.encode("un film", "très bon").ids == pair.ids == tokenizer.encode("un film", "très bon").ids
    assert ours.encode("un film", "très bon").segments == pair.type_ids
    assert ours.digest == tokenizer.digest
    assert [file.name for file in (tmp_path / "deep").iterdir()] == ["tokenizer.json"]


@pytest.mark.parametrize(
    ("content", "message"), [(None, "no such file"), (b"{}", "is not a tokenizer"), (b"\xff\xfe", "is not a tokenizer")]
)
def test_what_is_no_tokenizer_is_refused_with_its_name(tmp_path, content, message):
    file = tmp_path / "tokenizer.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(RunError, match=message) as error:
        Tokenizer.load(file)
    assert error.value.file == file


def test_other_peoples_names_of_special_tokens_are_understood():
    vocab = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "<mask>": 4, "a": 5}
    theirs = Tokenizer(tokenizers.Tokenizer(tokenizers.models.WordLevel(vocab, unk_token="<unk>")))
    assert (theirs.cls, theirs.pad, theirs.sep, theirs.unk, theirs.mask, theirs.bos, theirs.eos) == (0, 1, 2, 3, 4, 0, 2)


def test_a_missing_special_token_is_said():
    bare = Tokenizer(tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, unk_token="a")))
    assert bare.unk is None
    with pytest.raises(UsageError, match=r"no \[MASK\] token"):
        _ = bare.mask


@pytest.mark.parametrize("texts", [[], ["", "  \n"]])
@pytest.mark.parametrize("kind", list(SMALL))
def test_nothing_to_learn_from_is_a_data_error(kind, texts):
    with pytest.raises(DataError, match="no text"):
        config(kind).fit(iter(texts))


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        ("bpe", {"vocab": 200}, "vocab: 200 is too small, 263"),
        ("word", {"special": ["[PAD]"]}, "there already"),
        ("word", {"special": [" "]}, "empty"),
        ("byte", {"vocab": 300}, "vocab: unknown key"),
        ("bpe", {"lower_case": True}, "did you mean 'lowercase'"),
    ],
)
def test_impossible_configurations_are_refused(kind, values, message):
    with pytest.raises(ConfigError, match=message):
        config(kind, **values)


def test_wordpiece_learns_the_same_from_an_iterator_and_from_a_list():
    assert config("wordpiece").fit(iter(TEXTS)).digest == fitted("wordpiece").digest


def test_a_hyphen_between_letters_stays_in_its_word_where_that_is_asked():
    text = "Le gratte-ciel - dit-il -, l'eau (5€ + 2_3) 1990-1995 : -non, arc-en-ciel…«là»"
    cut = [piece for piece, _ in config("word")._make_pre_tokenizer().pre_tokenize_str(text)]
    kept = [piece for piece, _ in config("word", hyphens=True)._make_pre_tokenizer().pre_tokenize_str(text)]
    assert [piece for piece in kept if "-" in piece and piece != "-"] == ["gratte-ciel", "dit-il", "arc-en-ciel"]
    apart = [part for piece in kept for part in (re.split("(-)", piece) if piece != "-" else [piece])]
    assert apart == cut  # all else is cut as it was


def test_words_come_back_with_punctuation_as_written():
    tokenizer = fitted("word")
    assert tokenizer.decode(tokenizer.encode("l'été, un film.").ids).startswith("l'été, un film")


def test_saving_over_a_folder_leaves_nothing_behind(bpe, tmp_path: Path):
    (tmp_path / "tokenizer.json").mkdir()
    with pytest.raises(OSError):
        bpe.save(tmp_path / "tokenizer.json")
    assert [file.name for file in tmp_path.iterdir()] == ["tokenizer.json"]


def test_training_is_interrupted_at_once_and_reads_no_further():
    before = set(threading.enumerate())

    def endless():
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # as Ctrl-C does
        while True:
            yield "un film génial"

    with pytest.raises(KeyboardInterrupt):
        config("bpe").fit(endless())
    for thread in set(threading.enumerate()) - before:
        thread.join(30)
        assert not thread.is_alive()


def test_an_interruption_while_training_begins_stops_it_too(monkeypatch: pytest.MonkeyPatch):
    before, start = set(threading.enumerate()), threading.Thread.start

    def interrupted(thread):
        start(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr("attentif.text.learned.Thread.start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        config("bpe").fit("un film génial" for _ in iter(int, 1))  # without end
    for thread in set(threading.enumerate()) - before:
        thread.join(30)
        assert not thread.is_alive()


def test_an_error_in_the_texts_reaches_the_caller():
    def broken():
        yield from TEXTS
        raise DataError("a bad row", file="avis.csv", line=3)

    with pytest.raises(DataError, match=r"avis.csv:3: a bad row"):
        config("bpe").fit(broken())


@pytest.mark.parametrize("kind", [kind for kind in TOKENIZERS if kind != "given"])
def test_special_tokens_that_are_typed_are_letters(kind):
    """Also where the model has a piece of that name (unigram)."""
    tokenizer = fitted(kind)
    typed = " ".join(token for token in SPECIAL_TOKENS if token != "[UNK]")
    special = set(tokenizer.special.values()) - {tokenizer.unk}
    assert not special & set(tokenizer.encode(typed, wrap="none").ids)
    assert not special & set(tokenizer.ids_batch([typed], wrap="none")[0].tolist())
    found = tokenizer.encode(typed, wrap="none", specials_in_text=True).ids
    assert special <= set(found)
    plain = tokenizer.encode("le film était très bon, l'été 你好")
    assert plain.ids == tokenizer.encode("le film était très bon, l'été 你好", specials_in_text=True).ids
    assert plain.tokens[0] == "[CLS]"
