"""Word vectors against gensim: neighbours, analogies, judgements, and its readers and writers of files."""

import numpy as np
import pytest
from gensim.models import KeyedVectors

from attentif.text.judgements import answer_analogies, compare_similarity, read_analogies, read_similarity, spearman
from attentif.text.vectors import FORMATS, WordVectors, read_vectors, write_vectors

pytestmark = pytest.mark.parity

WORDS = ["roi", "reine", "homme", "femme", "été", "naïve", "œuvre", "日本", "l'", "42"] + [f"mot{n}" for n in range(40)]


@pytest.fixture(scope="module")
def vectors() -> WordVectors:
    return WordVectors(WORDS, np.random.default_rng(0).normal(size=(len(WORDS), 12)).astype(np.float32))


@pytest.fixture(scope="module")
def theirs(vectors: WordVectors) -> KeyedVectors:
    keyed = KeyedVectors(vectors.size)
    keyed.add_vectors(vectors.words, vectors.matrix)
    return keyed


def test_neighbours_and_analogies_are_gensims(vectors: WordVectors, theirs: KeyedVectors) -> None:
    for word in ("roi", "été", "mot7"):
        expected = theirs.most_similar(word, topn=8)
        found = vectors.neighbours(word, 8)
        assert [near.word for near in found] == [name for name, _ in expected]
        assert [near.cosine for near in found] == pytest.approx([cosine for _, cosine in expected], abs=1e-6)
    expected = theirs.most_similar(positive=["roi", "femme"], negative=["homme"], topn=5)
    assert [near.word for near in vectors.analogy("roi", "homme", "femme")] == [name for name, _ in expected]
    near = vectors.compare("roi", "reine")
    assert near.cosine == pytest.approx(theirs.similarity("roi", "reine"), abs=1e-6)
    assert near.distance == pytest.approx(np.linalg.norm(theirs["roi"] - theirs["reine"]), abs=1e-5)
    assert np.cos(np.radians(near.angle)) == pytest.approx(near.cosine)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of a file without a header gensim leaves one open
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_gensim_reads_what_is_written(form, suffix, vectors: WordVectors, tmp_path) -> None:
    file = tmp_path / f"mots{suffix}"
    write_vectors(file, vectors, form)
    read = KeyedVectors.load_word2vec_format(str(file), binary=form == "word2vec-binary", no_header=form == "glove")
    assert read.index_to_key == WORDS
    assert np.array_equal(read.vectors, vectors.matrix)
    assert (again := read_vectors(file)).words == WORDS
    assert np.array_equal(again.matrix, vectors.matrix)


@pytest.mark.parametrize("binary", [False, True])
def test_what_gensim_writes_is_read(binary: bool, vectors: WordVectors, theirs: KeyedVectors, tmp_path) -> None:
    file = tmp_path / "theirs.bin"
    theirs.save_word2vec_format(str(file), binary=binary)
    read = read_vectors(file, wanted={"roi", "mot39", "absent"})
    assert read.words == ["roi", "mot39"]
    assert np.array_equal(read["mot39"], vectors["mot39"])


def test_agreement_with_people_is_gensims(vectors: WordVectors, theirs: KeyedVectors, tmp_path) -> None:
    file = tmp_path / "paires.tsv"
    rng = np.random.default_rng(1)
    rows = [(*rng.choice(WORDS, 2, replace=False), round(float(rng.random()), 1)) for _ in range(30)] + [("roi", "inconnu", 0.5)]
    file.write_text("".join(f"{a}\t{b}\t{score}\n" for a, b, score in rows))
    pairs = compare_similarity(vectors, read_similarity(file))
    _, (expected, _), left_out = theirs.evaluate_word_pairs(str(file), case_insensitive=False)
    assert spearman(pairs) == pytest.approx(expected)  # ties share their rank
    assert 100 * (1 - len(pairs) / len(rows)) == pytest.approx(left_out)


def test_analogies_are_gensims(tmp_path) -> None:
    rng = np.random.default_rng(2)
    matrix = rng.normal(size=(len(WORDS), 12)).astype(np.float32)
    matrix[1] = matrix[0] - matrix[2] + matrix[3] + 0.3 * rng.normal(size=12)  # reine = roi - homme + femme, nearly
    vectors, keyed = WordVectors(WORDS, matrix), KeyedVectors(12)
    keyed.add_vectors(WORDS, matrix)
    file = tmp_path / "questions.txt"
    file.write_text(": famille\nhomme roi femme reine\nroi reine mot1 mot2\nroi inconnu mot1 mot2\n: autre\nmot3 mot4 mot5 mot6\n")
    found = answer_analogies(vectors, read_analogies(file))
    _, expected = keyed.evaluate_word_analogies(str(file), case_insensitive=False)
    assert [int(section.right.sum()) for section in found] == [len(section["correct"]) for section in expected[:2]]
    assert [len(section.right) for section in found] == [len(s["correct"]) + len(s["incorrect"]) for s in expected[:2]]
    assert found[0].right[0]
    assert [section.questions for section in found] == [3, 1]
