"""The same tokens as transformers' tokenizers give, from every format that a vocabulary is kept in, on texts that break tokenizers.

Exact: ids, offsets and texts are compared as they are. transformers reads special tokens wherever they are typed; ours do so when asked
(`specials_in_text`), and are asked here.
"""

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from vocabularies import FOLDERS, PAGE, TRICKY

from attentif.hub.tokenizer_files import write_tokenizer_files
from attentif.hub.vocabulary import read_target_tokenizer, read_tokenizer
from attentif.text import TOKENIZERS, Tokenizer

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")]
transformers.logging.set_verbosity_error()

SLOW = {"marian", "wav2vec2"}  # transformers has no fast tokenizer for these
FAST = [name for name in FOLDERS if name not in SLOW]
PARTS = ("pad", "unk", "cls", "sep", "mask", "bos", "eos")

# letters of several scripts, marks that combine, joiners, blanks, controls, and anything else that Unicode has
ODD = st.sampled_from(list("aéÉe\u0301œ'’-. ,?12<>[]|#▁Ġ \t\n\u00a0\u200b\u200d👍🏽🇫عَ你界カﾀ\0\x85\ufffd\ufeff"))
TEXTS = st.text(ODD, max_size=40) | st.text(max_size=30)


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The folder of each kind, made once, and its config.json."""
    root = tmp_path_factory.mktemp("vocabularies")

    @cache
    def made(name: str) -> tuple[Path, dict[str, Any]]:
        return root / name, FOLDERS[name].make(root / name)

    return made


def both(folder: Path, config: dict[str, Any]) -> tuple[Tokenizer, Any]:
    ours = read_tokenizer(folder, config)
    assert ours is not None
    return ours, transformers.AutoTokenizer.from_pretrained(folder)


def agree(ours: Tokenizer, theirs: Any, text: str) -> None:
    """One text, and as the first of a pair: ids, offsets, and the text again."""
    given, own = theirs(text, return_offsets_mapping=True), ours.encode(text, specials_in_text=True)
    assert own.ids == given["input_ids"]
    assert own.offsets == given["offset_mapping"]
    pair = theirs(text, "et l'autre", return_token_type_ids=True)
    encoded = ours.encode(text, "et l'autre", specials_in_text=True)
    assert encoded.ids == pair["input_ids"]
    for skip in (True, False):
        assert ours.decode(own.ids, skip_special=skip) == theirs.decode(own.ids, skip_special_tokens=skip)


def agree_on_all(ours: Tokenizer, theirs: Any, examples: int = 40) -> None:
    assert ours.vocab == len(theirs)
    named = {part: getattr(theirs, f"{part}_token_id") for part in PARTS}
    assert {part: ours.special.get(part) for part, number in named.items() if number is not None} == {
        part: number for part, number in named.items() if number is not None
    }
    for text in [*PAGE, *TRICKY]:
        agree(ours, theirs, text)

    @settings(max_examples=examples, deadline=None, database=None, derandomize=True)
    @given(TEXTS)
    def on_any(text: str) -> None:
        agree(ours, theirs, text)

    on_any()


@pytest.mark.parametrize("name", [name for name in FAST if name != "siglip"])  # whose own is a slow one: below
def test_older_vocabulary_files_give_the_tokens_of_transformers(name: str, folders: Any) -> None:
    agree_on_all(*both(*folders(name)))


# SigLIP has no tokenizer.json there; transformers forgets `legacy` and GPT-NeoX's `add_bos_token` when it saves, and dresses its own
# tokenizer.json in another way when it reads it again: we go by the file
@pytest.mark.parametrize("name", [name for name in FAST if name not in ("llama-legacy", "neox-bos", "siglip")])
def test_tokenizer_json_saved_by_transformers_gives_the_same_tokens(name: str, folders: Any, tmp_path: Path) -> None:
    folder, config = folders(name)
    transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path)
    assert (tmp_path / "tokenizer.json").is_file()
    shutil.copy(folder / "config.json", tmp_path)
    agree_on_all(*both(tmp_path, config), examples=15)


@pytest.mark.parametrize("name", [*FAST, "marian"])
def test_files_that_we_write_give_transformers_our_tokens(name: str, folders: Any, tmp_path: Path) -> None:
    folder, config = folders(name)
    ours = read_tokenizer(folder, config)
    assert ours is not None
    write_tokenizer_files(tmp_path, ours, family=config["model_type"], max_len=64)
    shutil.copy(folder / "config.json", tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert theirs.model_max_length == 64
    agree_on_all(ours, theirs, examples=15)
    again = read_tokenizer(tmp_path, config)
    assert again is not None
    assert again.special == ours.special
    assert [again.encode(text).ids for text in TRICKY] == [ours.encode(text).ids for text in TRICKY]


@pytest.mark.parametrize("kind", [kind for kind in TOKENIZERS if kind != "given"])
def test_tokenizers_trained_here_are_the_same_in_transformers(kind: str, tmp_path: Path) -> None:
    size = {"vocab": 400} if "vocab" in TOKENIZERS[kind].model_fields else {}
    ours = TOKENIZERS[kind](**size).fit(PAGE * 3)
    write_tokenizer_files(tmp_path, ours, family="bert", segments=2)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    agree_on_all(ours, theirs, examples=15)
    pair = theirs("un", "deux")
    assert pair["token_type_ids"] == ours.encode("un", "deux").segments


def test_marian_has_a_tokenizer_for_each_language(folders: Any) -> None:
    """As transformers' slow one, but for control characters (sentencepiece's program keeps some), and where unknown characters meet: it
    looks up the two as one token, which is unknown too, and we find each."""
    folder, config = folders("marian")
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    compared = 0
    for file, ours, asked in (
        ("source.spm", read_tokenizer(folder, config), {}),
        ("target.spm", read_target_tokenizer(folder, config), {"text_target": True}),
    ):
        assert ours is not None
        cutter = sentencepiece.SentencePieceProcessor(model_file=str(folder / file))
        for text in [*PAGE, *TRICKY[:11], *TRICKY[12:-2]]:
            if any(len(piece.removeprefix("▁")) > 1 for piece in cutter.encode(text, out_type=str) if cutter.PieceToId(piece) == 0):
                continue
            expected = theirs(text_target=text) if asked else theirs(text)
            own = ours.encode(text)
            assert own.ids == expected["input_ids"], text
            if ours.unk not in own.ids:
                assert ours.decode(own.ids) == theirs.decode(own.ids, skip_special_tokens=True)
            compared += 1
    assert compared > 20


def test_siglip_cuts_texts_as_transformers_slow_one(folders: Any) -> None:
    """But for special tokens that stand in a text, and for control characters and what is none (�): one drops them, the other does not."""
    ours, theirs = both(*folders("siglip"))
    assert not theirs.is_fast

    def compare(text: str) -> None:
        own = ours.encode(text, specials_in_text=True)
        assert own.ids == theirs(text)["input_ids"]
        assert ours.encode(text, "et l'autre", specials_in_text=True).ids == theirs(text, "et l'autre")["input_ids"]
        if ours.unk not in own.ids:  # around which they put blanks
            assert ours.decode(own.ids) == theirs.decode(own.ids, skip_special_tokens=True)

    for text in [*PAGE, *(text for text in TRICKY if "<unk>" not in text)]:
        compare(text)

    @settings(max_examples=40, deadline=None, database=None, derandomize=True)
    @given(st.text(st.sampled_from(list("aéÉe\u0301œ'’-. ,?12>[]|#👍🏽🇫عَ你界カﾀ\t\n\u00a0")), max_size=40))
    def on_any(text: str) -> None:
        compare(text)

    on_any()


@pytest.mark.parametrize("lower", [False, True])
def test_letters_of_speech_are_those_of_transformers(lower: bool, folders: Any, tmp_path: Path) -> None:
    shutil.copytree(folders("wav2vec2")[0], tmp_path / "letters")
    (tmp_path / "letters" / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": lower}))
    ours, theirs = both(tmp_path / "letters", folders("wav2vec2")[1])
    write_tokenizer_files(tmp_path / "written", ours, family="wav2vec2-conformer", max_len=64)
    shutil.copy(folders("wav2vec2")[0] / "config.json", tmp_path / "written")
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "written")
    for text in ["BONJOUR LA MER", "bonjour la mer", "L'ÉTÉ  ET L’hiver", "", " a ", *PAGE]:
        assert ours.encode(text).ids == theirs(text)["input_ids"] == again(text)["input_ids"], text
    ids = ours.encode("LA MER" if not lower else "la mer").ids
    assert ours.decode(ids) == theirs.decode(ids) == ("la mer" if lower else "LA MER")


def test_sentence_pieces_are_cut_as_sentencepiece_cuts_them(folders: Any) -> None:
    """Its own program is the reference of transformers'; they differ in control characters, which one drops and the other keeps."""
    folder, config = folders("llama")
    ours = read_tokenizer(folder, config)
    assert ours is not None
    reference = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    for text in [*PAGE, *TRICKY[3:11], *TRICKY[14:20]]:
        assert ours.encode(text, wrap="none").ids == reference.encode(text), text
