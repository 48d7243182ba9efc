"""L23: on a small corpus GloVe is weaker than Word2Vec.

    Word2Vec   log σ(u_cᵀ v_w) + Σ_n log σ(−u_nᵀ v_w)          one pair of neighbours after the other     (Mikolov et al. 2013)
    GloVe      Σ_ij f(X_ij) (w_iᵀ w̃_j + b_i + b̃_j − log X_ij)²   f(x) = min(1, (x / x_max)^α)                (Pennington et al. 2014)

The text is generated, so that which words are alike is known: words of one kind keep the same company. A likely reason, not
measured here: pairs that never met, most of them in a small text, are drawn by Word2Vec as negatives and stand in no sum of GloVe's.
"""

from functools import partial

import numpy as np

from attentif.lab.experiment import Experiment, Measurements, Settings, Verdict, at_least, at_most, over_seeds
from attentif.lab.seeds import seed_band
from attentif.tasks.base import Progress
from attentif.text.glove import GloveConfig
from attentif.text.vectors import BREAK, WordStream, WordVectors
from attentif.text.word2vec import FittedVectors, Word2VecConfig
from attentif.view.blocks import FigureBlock
from attentif.view.figures import Axis, Band, banded_curves
from attentif.view.words import Text, count, percent

WEAKER = 0.05  # of nearest neighbours of the right kind that GloVe has less of in the smallest text
LEVEL = 0.02  # and by how much less at most in the largest: no difference to speak of
KINDS, ALIKE, COMPANY = 20, 15, 8  # kinds of words; words of a kind; words that accompany a kind
IN_SENTENCE, FAITHFUL = (2, 4), 0.6  # words of the kind and companions in a sentence; how many companions are the kind's own
SIZE, WINDOW = 50, 5  # of the vectors, the same for both
PASSES = 30  # of Word2Vec
TRIES = [(30, 10.0), (100, 10.0), (100, 100.0)]  # passes and x_max of GloVe; the last as in the paper. The best counts, by hindsight
NAMES = {
    "word2vec": Text("Word2Vec", "Word2Vec"),
    "glove": Text("GloVe, au mieux de ses réglages", "GloVe at its best settings"),
    "paper": Text("GloVe, x_max = 100 comme dans l’article", "GloVe, x_max = 100 as in the paper"),
}


def score_systems(given: WordStream, seed: int) -> dict[str, float]:
    """The score of each system. Word2Vec has one setting, without subsampling: no generated word is too frequent."""
    tries = [GloveConfig(size=SIZE, window=WINDOW, epochs=passes, x_max=x_max, seed=seed).build() for passes, x_max in TRIES]
    models: list[FittedVectors] = [Word2VecConfig(size=SIZE, window=WINDOW, epochs=PASSES, seed=seed, sample=0.0).build(), *tries]
    for model in models:
        model.fit(given)
    word2vec, *glove = (right_kind(model.vectors) for model in models)
    return {"word2vec": word2vec, "glove": max(glove), "paper": glove[-1]}


def text(sentences: int, seed: int) -> WordStream:
    """Sentences of words of one kind and their company, in any order; the number of a word tells its kind."""
    rng = np.random.default_rng(seed)
    words, companions = IN_SENTENCE
    kinds = rng.integers(0, KINDS, (sentences, 1))
    alike = ALIKE * kinds + rng.integers(0, ALIKE, (sentences, words))
    own = COMPANY * kinds + rng.integers(0, COMPANY, (sentences, companions))
    any_kind = rng.integers(0, KINDS * COMPANY, own.shape)
    company = KINDS * ALIKE + np.where(rng.random(own.shape) < FAITHFUL, own, any_kind)
    rows = rng.permuted(np.concatenate([alike, company], 1), axis=1)
    numbers = np.pad(rows, ((0, 0), (0, 1)), constant_values=BREAK).astype(np.int32).ravel()
    return WordStream([str(word) for word in range(KINDS * (ALIKE + COMPANY))], lambda: iter([numbers]), len(numbers))


def right_kind(vectors: WordVectors) -> float:
    """How often the nearest of the words that have a kind has the same one; words that the text has not are wrong."""
    known = [word for word in range(KINDS * ALIKE) if str(word) in vectors]
    unit = vectors.unit[[vectors.number(str(word)) for word in known]]
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -np.inf)
    kinds = np.array(known) // ALIKE
    return float((kinds[cosines.argmax(1)] == kinds).sum() / (KINDS * ALIKE))


def measure(settings: Settings, progress: Progress) -> Measurements:
    """By system and size of the text, seed by seed."""
    sizes = settings.pick(tiny=[300, 2000], normal=[300, 600, 1200, 2400, 5000], full=[150, 300, 600, 1200, 2400, 5000, 20_000])
    seeds = settings.seeds(tiny=1, normal=5, full=10)
    right: dict[str, list[list[float]]] = {name: [[] for _ in sizes] for name in NAMES}
    done = 0
    for seed in seeds:
        for place, size in enumerate(sizes):
            given = text(sizes[-1] if settings.without_effect else size, seed)
            for name, score in score_systems(given, seed).items():
                right[name][place].append(score)
            progress(done := done + 1, len(seeds) * len(sizes))
    return {"sizes": [size * sum(IN_SENTENCE) for size in sizes], "seeds": len(seeds), "right": right}


def verdict(found: Measurements) -> Verdict:
    small, large = (count(found["sizes"][place]) for place in (0, -1))
    pairs = [zip(found["right"]["word2vec"][place], found["right"]["glove"][place], strict=True) for place in (0, -1)]
    first, last = (over_seeds([one - other for one, other in pair]) for pair in pairs)
    mean = {name: over_seeds(rows[0]).value for name, rows in found["right"].items()}
    return Verdict(
        [
            at_least(
                Text(
                    f"dans un texte de {small.fr} mots, GloVe trouve {{value}} de bons voisins de moins",
                    f"in a text of {small.en} words GloVe finds {{value}} fewer right neighbours",
                ),
                first,
                WEAKER,
                percent,
            ),
        ],
        Text(
            "Dans le petit texte, {word2vec} des plus proches voisins de Word2Vec sont les bons, {glove} de ceux de GloVe, et {paper} avec "
            "le x_max de l’article.",
            "In the small text {word2vec} of Word2Vec’s nearest neighbours are right, {glove} of GloVe’s, and {paper} with the "
            "paper’s x_max.",
        ).with_(**{name: percent(value) for name, value in mean.items()}),
        controls=[
            at_most(
                Text(f"dans un texte de {large.fr} mots, {{value}} de moins", f"in a text of {large.en} words, {{value}} fewer"),
                last,
                LEVEL,
                percent,
            ),
        ],
    )


def figures(found: Measurements) -> list[FigureBlock]:
    sizes = found["sizes"]
    bands = [seed_band(words, sizes, found["right"][name]) for name, words in NAMES.items()]
    guess = (ALIKE - 1) / (KINDS * ALIKE - 1)
    bands.append(Band(Text("au hasard", "by chance"), [sizes[0], sizes[-1]], [guess, guess], baseline=True))
    axes = (
        Axis(Text("mots du texte", "words of the text"), log=True, ticks=sizes),
        Axis(Text("plus proches voisins du bon genre", "nearest neighbours of the right kind"), share=True),
    )
    return [
        FigureBlock(
            Text("Bons voisins selon la taille du texte", "Right neighbours against the size of the text"),
            partial(banded_curves, bands, *axes),
            Text(
                "La bande est l’intervalle à 95 % entre les graines. Plus une courbe monte tôt, moins il lui faut de texte.",
                "The band is the 95 % interval over seeds. The earlier a curve rises, the less text it needs.",
            ),
        )
    ]


EXPERIMENT = Experiment(
    number=23,
    title=Text("GloVe et Word2Vec sur un petit corpus", "GloVe and Word2Vec on a small corpus"),
    claim=Text("sur un petit corpus, GloVe est plus faible que Word2Vec", "on a small corpus GloVe is weaker than Word2Vec"),
    says={4: "il est moins efficace sur de petits corpus"},
    method=Text(
        f"Un texte est tiré au hasard : {KINDS} genres de {ALIKE} mots ; les mots d’un genre ont la même compagnie, donc des voisins "
        f"connus. Les deux ont autant de composantes et la même fenêtre ; de GloVe compte, après coup, le meilleur de {len(TRIES)} "
        "réglages, de Word2Vec un seul. Ce qui décide : "
        "la part des mots dont le plus proche voisin est du même genre, dans le plus petit texte et dans le plus grand.",
        f"A text is drawn at random: {KINDS} kinds of {ALIKE} words; words of a kind keep the same company, so that their neighbours are "
        f"known. Both have as many components and the same window; of GloVe the best of {len(TRIES)} settings counts, by hindsight, of "
        "Word2Vec a single one. What decides: the share of words whose "
        "nearest neighbour is of the same kind, in the smallest text and in the largest.",
    ),
    sabotage=Text("les petits textes sont aussi longs que le plus grand", "the small texts are as long as the largest"),
    tiny="+",
    measure=measure,
    verdict=verdict,
    figures=figures,
    papers=["Mikolov et al. 2013", "Pennington et al. 2014", "Levy, Goldberg & Dagan 2015"],
    choices=[
        Text(
            f"De GloVe compte, après coup, le meilleur de {len(TRIES)} réglages. Word2Vec en a un seul, choisi "
            "après un essai avec cinq passages où il restait près du hasard.",
            f"Of GloVe the best of {len(TRIES)} settings counts, by hindsight. Word2Vec has a single one, chosen "
            "after a trial with five passes in which it stayed near chance.",
        )
    ],
    remarks=[
        Text(
            "Les réglages comptent autant que la méthode : avec le x_max de l’article, GloVe reste près du hasard dans le "
            "petit texte ; dans un essai avec cinq passages seulement, Word2Vec aussi.",
            "Settings matter as much as the method: with the paper’s x_max GloVe stays near chance in the small text; in a trial with "
            "five passes only, so did Word2Vec.",
        )
    ],
)
