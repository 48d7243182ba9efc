"""Files of word vectors and of judgements that cannot be read; what one-hot vectors know; Word2Vec and GloVe on a text with structure."""

from pathlib import Path

import numpy as np
import pytest

from attentif.errors import DataError, UsageError
from attentif.text.glove import GloveConfig
from attentif.text.judgements import is_analogies, read_analogies, read_similarity
from attentif.text.vectors import BREAK, WordStream, WordVectors, format_of, read_vectors, vector_size, write_vectors
from attentif.text.word2vec import Word2VecConfig, cooccurrence_accuracy

TWO = WordVectors(["un", "deux"], np.array([[1, 0], [0.5, -2]], dtype=np.float32))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"2 3\nun 1 2 3\n", "announces 2 words and it holds 1"),
        (b"1 0\n", "vectors of 0 components"),
        (b"un 1 2\ndeux 1\n", ":2: "),
        (b"un .1 .2\ndeux .1 .2 .3\n", ":2: more numbers than the 2 of the others"),
        (b"un 1 2\ndeux 1 1e39\n", ":2: a number is not finite"),
        (b"un 1 2\ndeux 1 x\n", ":2: not a word and 2 numbers"),
        (b"un 1 2\ndeux 1 nan\n", ":2: a number is not finite"),
        (b"un 1 2\n\xff\xfe 1 2\n", ":2: is not UTF-8"),
        (b"seul\n", ":1: is no file of word vectors"),
        (b"2 2\nun \x00\x00\x80\x3f\x00\x00\x00\x00\ndeux \x00\x00", "announces 2 words and it holds 1"),
        (b"1 1\nun \x00\x00\xc0\x7f\n", "'un' is not finite"),
    ],
)
def test_a_file_that_holds_no_vectors_is_one_line(content: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "mots.vec"
    file.write_bytes(content)
    with pytest.raises(DataError) as failed:
        read_vectors(file)
    assert message in str(failed.value)
    assert str(file) in str(failed.value)


def test_files_that_are_not_there_or_cut_are_one_line(tmp_path: Path) -> None:
    for ask in (read_vectors, vector_size):
        with pytest.raises(DataError, match="no such file"):
            ask(tmp_path / "rien.vec")
    write_vectors(tmp_path / "mots.vec.gz", TWO)
    cut = (tmp_path / "mots.vec.gz").read_bytes()[:-12]
    (tmp_path / "cut.vec.gz").write_bytes(cut)
    with pytest.raises(DataError, match="gzip"):
        read_vectors(tmp_path / "cut.vec.gz")


@pytest.mark.parametrize(
    "content", ["un 1 0\nNew York .5 -2\n", "2 2\r\nun\t1\t0\r\nNew York\t.5\t-2\r\n", "\ufeffun 1 0 \nNew York .5 -2 \n"]
)
def test_what_other_programs_write_is_read(content: str, tmp_path: Path) -> None:
    file = tmp_path / "mots.vec"
    file.write_bytes(content.encode())
    found = read_vectors(file)
    assert found.words == ["un", "New York"]
    assert np.array_equal(found.matrix, TWO.matrix)


def test_numbers_of_words_that_are_not_wanted_are_not_read(tmp_path: Path) -> None:
    file = tmp_path / "mots.vec"
    file.write_text("3 2\nun 1 0\nautre x y\ndeux .5 -2\n")
    assert read_vectors(file, {"un", "deux"}).words == ["un", "deux"]
    file.write_text("3 2\nun 1 0\nautre 1\ndeux .5 -2\n")
    with pytest.raises(DataError, match=r":3: 1 numbers.*2"):
        read_vectors(file, {"un", "deux"})


def test_the_name_decides_the_format_and_the_first_lines_the_size(tmp_path: Path) -> None:
    assert [format_of(Path(name)) for name in ("a.vec", "a.bin", "a.txt", "a.vec.gz", "a")] == [
        "word2vec", "word2vec-binary", "glove", "word2vec", "glove",
    ]  # fmt: skip
    for name in ("a.vec", "a.bin", "a.txt"):
        write_vectors(tmp_path / name, TWO)
        assert vector_size(tmp_path / name) == 2
    with pytest.raises(UsageError, match="space ends"):
        write_vectors(tmp_path / "b.vec", WordVectors(["deux mots"], np.ones((1, 2), np.float32)))
    assert not (tmp_path / "b.vec").exists()


def test_an_unknown_word_is_refused_with_the_nearest_spelling() -> None:
    with pytest.raises(UsageError, match=r"'deus' .*'deux'"):
        TWO.neighbours("deus")
    assert TWO.neighbours("UN")[0].word == "deux"  # in lower case it is known
    assert len(TWO.neighbours("un", 10)) == 1


def test_one_hot_words_are_all_as_far_from_one_another() -> None:
    hot = WordVectors.one_hot(["chien", "chat", "gratte-ciel"])
    assert {(round(near.angle, 4), round(near.distance, 4)) for near in hot.neighbours("chien")} == {(90.0, round(2**0.5, 4))}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "has no pair"),
        ("un\tdeux\n", ":1: not two words and a score"),
        ("mot\tautre\tscore\nun\tdeux\tbeaucoup\n", ":2: the score 'beaucoup' is not a number"),
        ("un\tdeux\tnan\n", "a score is not a number"),
    ],
)
def test_judgements_that_cannot_be_used_are_one_line(content: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "paires.tsv"
    file.write_text(content)
    with pytest.raises(DataError) as failed:
        read_similarity(file)
    assert message in str(failed.value)


@pytest.mark.parametrize(
    "content",
    [
        "roi\treine\t8,5\nun\tdeux\t1\n",
        "roi reine 8.5\nun deux 1\n",  # MEN
        "Word 1,Word 2,Human (mean)\nroi,reine,8.5\nun,deux,1\n",  # WordSim-353
        "word1\tword2\tPOS\tSimLex999\tconc(w1)\nroi\treine\tN\t8.5\t4.9\nun\tdeux\tN\t1\t3\n",
    ],
)
def test_judgements_are_read_as_they_are_published(content: str, tmp_path: Path) -> None:
    file = tmp_path / "paires.txt"
    file.write_text(content)
    assert read_similarity(file) == [("roi", "reine", 8.5), ("un", "deux", 1.0)]


def test_analogies_are_recognised_and_have_four_words(tmp_path: Path) -> None:
    file = tmp_path / "questions.txt"
    file.write_text("\n: famille\nroi reine homme femme\nroi reine homme\n")
    assert is_analogies(file)
    with pytest.raises(DataError, match=r":4:.*analogy.*3"):
        read_analogies(file)


# ---------------------------------------------------------------------------------------------------------------- fitting


def stream(seed: int = 0, sentences: int = 400) -> WordStream:
    """Sentences of words of one of two worlds: 0 to 9, or 10 to 19."""
    rng = np.random.default_rng(seed)
    parts = [np.append(rng.integers(0, 10, 8) + 10 * rng.integers(0, 2), BREAK) for _ in range(sentences)]
    whole = np.concatenate(parts).astype(np.int32)
    return WordStream([f"mot{n}" for n in range(20)], lambda: iter([whole[:1000], whole[1000:]]), len(whole))


MODELS = {
    "skip-gram": Word2VecConfig(size=8, epochs=10, lr=0.05, sample=0.0),
    "cbow": Word2VecConfig(size=8, epochs=10, lr=0.2, sample=0.0, algorithm="cbow"),
    "glove": GloveConfig(size=8, epochs=30, x_max=10.0, window=5, lr=0.1),
}


@pytest.mark.parametrize("name", MODELS)
def test_words_that_keep_company_are_near_and_the_same_seed_gives_the_same_vectors(name: str, tmp_path: Path) -> None:
    config, other = MODELS[name], stream(1)
    model, again = config.build(), config.build()
    seen: list[tuple[int, int]] = []
    rows = model.fit(stream(), lambda what, done, total: seen.append((done, total)))
    again.fit(stream())
    assert np.array_equal(model.vectors.matrix, again.vectors.matrix)
    assert sorted(model.vectors.words) == sorted(other.words)
    worlds = [{int(near.word[3:]) // 10 for near in model.vectors.neighbours(f"mot{n}", 5)} for n in (0, 13)]
    assert worlds == [{0}, {1}]
    assert model.score(other)["together"] > 0.65  # half the words drawn at random are of the same world: three quarters at best
    assert cooccurrence_accuracy(WordVectors.one_hot(other.words), other, 5) == 0.5
    assert [row["epoch"] for row in rows] == list(range(1, config.epochs + 1))
    assert seen[-1][0] == seen[-1][1]
    model.save(tmp_path)
    assert np.array_equal(config.build().load(tmp_path).vectors.matrix, model.vectors.matrix)


def test_a_text_without_neighbours_is_refused() -> None:
    alone = WordStream(["un"], lambda: iter([np.array([0, BREAK, 0], dtype=np.int32)]), 3)
    with pytest.raises(DataError, match="no two words"):
        GloveConfig().build().fit(alone)
