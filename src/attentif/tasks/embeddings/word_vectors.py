"""Word vectors: Word2Vec, GloVe. Read from text, scored on what stands together in other text, and against people's judgement.

attentif evaluate RUN                      words that stand together, told from words drawn at random
attentif evaluate RUN --data rg65.tsv      similarity judgements: word ⇥ word ⇥ score
attentif evaluate RUN --data analogies.txt questions-words: a is to b as c is to d
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from attentif.data import DataConfig, TokenStream
from attentif.errors import DataError
from attentif.tasks.answers import Baseline, EvalOptions, Evaluation
from attentif.tasks.base import Prepared, Say, Sizes, TaskState, Tokenizers
from attentif.tasks.batches import say_all
from attentif.tasks.details import details_of
from attentif.tasks.fitted import Examples, FittedData, FittedTask, register_fitted
from attentif.tasks.metrics import interval, share
from attentif.tasks.streams import read_streams
from attentif.tasks.tokenizers import TokenizerSource
from attentif.text import Tokenizer
from attentif.text.glove import GloveConfig
from attentif.text.judgements import (
    Similarity,
    answer_analogies,
    compare_similarity,
    is_analogies,
    read_analogies,
    read_similarity,
    spearman,
)
from attentif.text.vectors import BREAK, WordStream, WordVectors, is_word
from attentif.text.word2vec import FittedVectors, Word2VecConfig, cooccurrence_accuracy
from attentif.view.blocks import Block, Cell, FigureBlock, Paragraph, Section, TableBlock
from attentif.view.words import IN_WORDS, Text, with_decimals

PIECE = 1 << 20  # tokens that are worked on at once
SENTENCE_ENDS = frozenset(".!?…;:")
SHOWN, NEAR, DRAWN = 12, 6, 160  # words whose neighbours are listed, how many of those, words drawn on the map
ONE_HOT_WORDS = 2000  # of the contrast: a matrix of so many rows and columns
SMALL = 100_000  # words of text below which neighbours are mostly chance
TINY = 20_000  # bytes of text below which none is kept apart
DRAWS = 1000  # of a bootstrap


class WordDetails(TypedDict):
    neighbours: list[tuple[str, list[tuple[str, float]]]]  # with their cosines
    map: list[tuple[str, float, float]]  # words on a plane
    words: int


@register_fitted("words")
class WordVectorsTask(FittedTask):
    config: Word2VecConfig | GloveConfig
    metric = "together"
    unit = IN_WORDS
    offers = ("neighbours",)

    def prepare(self, data: DataConfig, text: TokenizerSource, model: Any, say: Say, state: TaskState | None = None) -> FittedData:
        whole = _is_tiny(data)
        if whole:
            data = data.replace(valid=data.train, test=data.train)
        streams = read_streams(data, text, say)
        examples = {name: _examples(name, getattr(streams, name), streams.tokenizer) for name in ("train", "valid", "test")}
        notes = [*streams.notes, f"{examples['train'].size:,} words of text, {len(examples['train'].of.words):,} different ones"]
        if whole:
            notes.append("too little text to keep some apart: the vectors are fitted to all of it and scored on the same words")
        if examples["train"].size < SMALL:
            notes.append(f"warning: {examples['train'].size:,} words are too few for vectors that mean something; millions are needed")
        say_all(notes, say)
        return Prepared(
            TaskState(), **examples, tokenizers={"tokenizer": streams.tokenizer}, sizes=Sizes(), digest=streams.digest, notes=notes
        )

    def read(self, state: TaskState, data: DataConfig, tokenizers: Tokenizers, model: Any, say: Say) -> Examples:
        (file,) = data.files("train")
        found: Any = read_analogies(file) if is_analogies(file) else read_similarity(file)
        return Examples("test", found, sum(map(len, found.values())) if isinstance(found, dict) else len(found))

    def score(self, model: FittedVectors, state: TaskState, dataset: Examples, options: EvalOptions) -> Evaluation:
        if isinstance(dataset.of, WordStream):
            scores = model.score(dataset.of)
            return Evaluation(scores, examples=dataset.size, details=_show_words(model.vectors, dataset), split=dataset.name)
        return evaluate_judgements(model.vectors, dataset.of)

    def baselines(self, prepared: FittedData, say: Say) -> list[Baseline]:
        test = prepared.test.of
        hot = WordVectors.one_hot(prepared.train.of.words[:ONE_HOT_WORDS])
        return [
            Baseline(
                Text("un code par mot (one-hot)", "one-hot vectors"), {"together": cooccurrence_accuracy(hot, test, self.config.window)}
            )
        ]

    def sections(self, evaluation: Evaluation) -> list[Section]:
        return words_sections(evaluation)


def _is_tiny(data: DataConfig) -> bool:
    """Whether files of the user's are so short that a split would leave nothing to learn from, or to score."""
    if data.train is None or data.valid is not None or data.test is not None:
        return False
    return sum(file.stat().st_size for file in data.files("train") if file.is_file()) < TINY


def evaluate_judgements(vectors: WordVectors, asked: Any) -> Evaluation:
    """Against similarity judgements, or analogies by section; words without a vector are left out and counted."""
    if isinstance(asked, list):
        pairs = compare_similarity(vectors, asked)
        _refuse_none(vectors, len(pairs), f"{len(asked):,} pairs")
        _refuse_uncorrelated(vectors, pairs, asked)
        rng = np.random.default_rng(0)
        drawn = [spearman([pairs[row] for row in rng.integers(0, len(pairs), len(pairs))]) for _ in range(DRAWS if len(pairs) > 2 else 0)]
        intervals = {"spearman": interval([value for value in drawn if np.isfinite(value)])} if drawn else {}
        scores = {"spearman": spearman(pairs), "asked": len(pairs) / len(asked)}
        details: dict[str, object] = {"pairs": [[pair.one, pair.other, pair.people, round(pair.cosine, 4)] for pair in pairs]}
        return Evaluation(scores, intervals, len(pairs), details)
    sections = answer_analogies(vectors, asked)
    right, known, total = (sum(values) for values in zip(*((int(s.right.sum()), len(s.right), s.questions) for s in sections), strict=True))
    _refuse_none(vectors, known, f"{total:,} analogies")
    scores = {"analogies": right / known, "asked": known / total}
    intervals = {"analogies": share(right, known)[1]}
    details = {"sections": [[s.name, int(s.right.sum()), len(s.right), s.questions] for s in sections]}
    return Evaluation(scores, intervals, known, details)


def _refuse_none(vectors: WordVectors, known: int, asked: str) -> None:
    """Refuse to score when no question has vectors."""
    if not known:
        raise DataError(f"none of the {asked} can be asked: each has a word that is not among the {len(vectors):,} with a vector")


def _refuse_uncorrelated(vectors: WordVectors, pairs: Sequence[Similarity], asked: Sequence[tuple[str, str, float]]) -> None:
    """A correlation is one of ranks that differ: of one pair, or of pairs that are all alike, there is none."""
    words = {word for one, other, _ in asked for word in (one, other)}
    known = sum(vectors.find(word) is not None for word in words)
    coverage = f"{len(pairs):,} of {len(asked):,} pairs and {known:,} of {len(words):,} words are known"
    if len(pairs) < 2:
        raise DataError(f"a correlation needs at least two pairs whose words both have a vector: {coverage}")
    for whose, values in (("people's scores", {pair.people for pair in pairs}), ("cosines", {pair.cosine for pair in pairs})):
        if len(values) == 1:
            raise DataError(f"a correlation needs pairs that differ, and all {whose} are {values.pop():g}: {coverage}")


# ---------------------------------------------------------------------------------------------------------------- words


def _examples(name: str, stream: TokenStream, tokenizer: Tokenizer) -> Examples:
    """The words of a stream, numbered by frequency; punctuation ends sentences or is skipped, as unknown words are."""
    counts = np.zeros(tokenizer.vocab, dtype=np.int64)
    for start in range(0, len(stream), PIECE):
        counts += np.bincount(stream.window(start, min(PIECE, len(stream) - start)), minlength=tokenizer.vocab)
    special = set(tokenizer.special.values())
    numbers = np.full(tokenizer.vocab, BREAK - 1, dtype=np.int32)
    words: list[str] = []
    for token in np.argsort(-counts, kind="stable").tolist():
        text = tokenizer.rust.id_to_token(token) or ""
        if token == tokenizer.eos or text in SENTENCE_ENDS:
            numbers[token] = BREAK
        elif counts[token] and token not in special and is_word(text):
            numbers[token] = len(words)
            words.append(text)
    size = int(counts[numbers >= 0].sum())
    return Examples(name, WordStream(words, partial(_pieces, stream, numbers), len(stream)), size)


def _pieces(stream: TokenStream, numbers: NDArray[np.int32]) -> Iterator[NDArray[np.int32]]:
    for start in range(0, len(stream), PIECE):
        piece = numbers[stream.window(start, min(PIECE, len(stream) - start))]
        yield piece[piece >= BREAK]


# --------------------------------------------------------------------------------------------------------------- report


def _show_words(vectors: WordVectors, examples: Examples) -> WordDetails:
    """Neighbours of some words, frequent and rare, and the most frequent ones on a map."""
    long = [number for number, word in enumerate(vectors.words) if len(word) > 3 and word.isalpha()] or list(range(len(vectors)))
    ranks = np.unique(np.geomspace(1, len(long), SHOWN).astype(np.int64) - 1)
    chosen = [vectors.words[long[rank]] for rank in ranks.tolist()]
    return {
        "neighbours": [(word, [(near.word, round(near.cosine, 3)) for near in vectors.neighbours(word, NEAR)]) for word in chosen],
        "map": word_map(vectors, [vectors.words[number] for number in long[:DRAWN]]),
        "words": examples.size,
    }


def word_map(vectors: WordVectors, words: Sequence[str]) -> list[tuple[str, float, float]]:
    """Words on the plane that keeps most of their differences (principal components of their directions)."""
    unit = np.stack([vectors.unit[vectors.number(word)] for word in words]).astype(np.float64)
    centred = unit - unit.mean(0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    plane = centred @ axes[:2].T if len(axes) > 1 else np.zeros((len(words), 2))
    return [(word, round(float(x), 4), round(float(y), 4)) for word, (x, y) in zip(words, plane, strict=True)]


def _neighbours(near: list[tuple[str, float]]) -> Text:
    """Each with its cosine; where decimals have commas, semicolons stand between them."""
    cosines = [(word, with_decimals(cosine, 2)) for word, cosine in near]
    return Text(" ; ".join(f"{word} {cosine.fr}" for word, cosine in cosines), ", ".join(f"{word} {cosine.en}" for word, cosine in cosines))


def words_sections(evaluation: Evaluation) -> list[Section]:
    if (details := details_of(evaluation, WordDetails)) is None:
        return []
    from attentif.view.figures.words import word_plane

    blocks: list[Block] = []
    if details["words"] < SMALL / 10:  # of the test, a tenth of the whole
        blocks.append(
            Paragraph(
                Text(
                    "Le texte est petit : les voisins ci-dessous relèvent surtout du hasard. Il faut des millions de mots.",
                    "The text is small: the neighbours below are mostly chance. Millions of words are needed.",
                ),
                "warning",
            )
        )
    rows: list[list[Cell]] = [[word, _neighbours(near)] for word, near in details["neighbours"]]
    about = Text("Du mot le plus fréquent au plus rare, avec le cosinus.", "From the most frequent word to the rarest, with the cosine.")
    blocks.append(TableBlock([Text("mot", "word"), Text("ses voisins", "its neighbours")], rows, about))
    about = Text(
        "Les mots les plus fréquents sur le plan qui garde le plus de leurs différences. Deux axes sur cent : proches ici ne dit pas tout.",
        "The most frequent words on the plane that keeps most of their differences. Two axes of a hundred: near here is not all.",
    )
    drawn = FigureBlock(Text("Une carte des mots", "A map of the words"), partial(word_plane, details["map"]), about)
    hot = Text(
        "Un code par mot (one-hot) ne sait rien de tout cela : deux mots quelconques y font toujours un angle de 90° et sont à √2 l'un de "
        "l'autre, chien de chat comme chien de gratte-ciel.",
        "One-hot vectors know nothing of this: any two words make an angle of 90° and are √2 apart, dog from cat as dog from skyscraper.",
    )
    return [
        Section(Text("Qui est proche de qui", "Who is near to whom"), blocks),
        Section(Text("Carte", "Map"), [drawn, Paragraph(hot, "note")]),
    ]
