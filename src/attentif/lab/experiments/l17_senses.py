"""L17: static vectors give one vector per word, contextual models separate its senses.

    static       v(word): the same in every sentence                   (Word2Vec, Mikolov et al. 2013)
    contextual   h_t = f(x_1 … x_T)_t: of the word in its sentence      (BERT, Devlin et al. 2019)

Which sense a use has is known, because the ambiguous words are made: each is two words of different themes that are written alike
(pseudo-words: Gale et al. 1992, Schütze 1992). Both models learn from the same sentences; neither is told of senses or themes.
"""

from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attentif.lab.experiment import Experiment, Measurements, Settings, Verdict, at_least, over_seeds
from attentif.lab.seeds import lead, seed_band
from attentif.lab.small import Generate, Rows, make_tick, reading_both_ways, train_model
from attentif.models import Model
from attentif.tasks.base import Progress
from attentif.tasks.embeddings.senses import token_states
from attentif.tasks.embeddings.sentences import Vectors, cosines
from attentif.tasks.pretraining.masking import Vocabulary, choose, hide
from attentif.text.kinds import Word
from attentif.text.vectors import BREAK, WordStream, WordVectors
from attentif.text.word2vec import Word2VecConfig
from attentif.view.blocks import FigureBlock
from attentif.view.figures import Axis, Band, banded_curves, embedding_projection
from attentif.view.words import Text, percent

BOTH = 0.8  # of ambiguous words, those whose one vector has the themes of its two senses as nearest ones
SEPARATED = 0.9  # of uses, those whose nearest other use has the same sense; 0.5 is chance
FURTHER = 0.2  # cosine: how much further apart two uses are where their senses differ
OWN, COMPANY = 20, 7  # words of a theme; words beside the ambiguous one in a sentence
FAITHFUL = 0.5  # of these, the share that is of the sentence's theme; the others are of any
HIDDEN = 0.15  # of the words, which the contextual model has to find, as for BERT
PASSES = 30  # of Word2Vec
EQUAL = 1e-9  # cosines that differ by less are the same
Ints = NDArray[np.int64]


def sentences(themes: int, count: int, seed: int, *, mixed: bool) -> tuple[Ints, Ints]:
    """Words in any order (count, 1 + COMPANY), one of them ambiguous, and its sense (count,).

    Ambiguous word w, the number themes · OWN + w, belongs to theme w in its sense 0 and to theme w + 1 in its sense 1; `mixed`, the
    sentences are about any theme, whatever the sense.
    """
    rng = np.random.default_rng(seed)
    words, senses = rng.integers(0, themes, count), rng.integers(0, 2, count)
    about = rng.integers(0, themes, count) if mixed else (words + senses) % themes
    company = (count, COMPANY)
    own, any_theme = OWN * about[:, None] + rng.integers(0, OWN, company), rng.integers(0, themes * OWN, company)
    beside = np.where(rng.random(company) < FAITHFUL, own, any_theme)
    return rng.permuted(np.column_stack([themes * OWN + words, beside]), axis=1), senses


def static_vectors(rows: Ints, words: int, size: int, seed: int) -> Vectors:
    """(words, size), by Word2Vec: all words of a sentence are neighbours, and none is frequent enough to be passed over."""
    numbers = np.pad(rows, ((0, 0), (0, 1)), constant_values=BREAK).astype(np.int32).ravel()
    stream = WordStream([str(word) for word in range(words)], lambda: iter([numbers]), len(numbers))
    model = Word2VecConfig(size=size, window=COMPANY, epochs=PASSES, sample=0.0, seed=seed).build()
    model.fit(stream)
    vectors: WordVectors = model.vectors
    return vectors.unit[[vectors.number(str(word)) for word in range(words)]]


def encoder(vocab: int, width: int, layers: int) -> dict[str, Any]:
    """As BERT, small; without positions, since the order of these words means nothing."""
    mixers = {"attn": {"kind": "attention", "heads": 2}, "ffn": {"kind": "feed-forward", "hidden": 2 * width}}
    return reading_both_ways(mixers, vocab=vocab, width=width, layers=layers)


def mask_words(rows: Ints, vocabulary: Vocabulary) -> Generate:
    """Some of these sentences, words hidden in them as BERT hides them."""

    def some(count: int, seed: int) -> Rows:
        ids = torch.from_numpy(rows[np.random.default_rng(seed).integers(0, len(rows), count)])
        draws = torch.Generator().manual_seed(seed)
        read, wanted = hide(ids, choose(ids, vocabulary, HIDDEN, generator=draws), vocabulary, generator=draws)
        return read.numpy(), wanted.numpy()

    return some


def contextual_vectors(model: Model, ids: Ints, places: Ints) -> list[Vectors]:
    """The vector of the word at one place of each sentence, by layer: (N, D) of the embedding, then of each block."""
    states = (token_states(model, row.tolist()) for row in ids)
    rows = [[layer[place].numpy() for layer in own] for own, place in zip(states, places.tolist(), strict=True)]
    return [np.stack(layer) for layer in zip(*rows, strict=True)]


def themes_of_both(vectors: Vectors, themes: int) -> float:
    """How often the two themes nearest to the one vector of an ambiguous word are those of its two senses."""
    middles = vectors[: themes * OWN].reshape(themes, OWN, -1).mean(1)
    middles /= np.linalg.norm(middles, axis=1, keepdims=True)
    nearest = np.argsort(-(vectors[themes * OWN :] @ middles.T), axis=1)[:, :2]
    return float(np.mean([set(own) == {word, (word + 1) % themes} for word, own in enumerate(nearest.tolist())]))


def measure_separation(vectors: Vectors, words: Ints, senses: Ints) -> dict[str, float]:
    """Over the ambiguous words: uses whose nearest other use has the same sense, and cosines within a sense and between two."""
    found: dict[str, list[float]] = {"nearest": [], "same": [], "other": []}
    for word in np.unique(words):
        own = senses[words == word]
        near, alike, others = cosines(vectors[words == word]), own[:, None] == own, ~np.eye(len(own), dtype=bool)
        nearest = np.where(others, near, -np.inf)
        nearest = nearest >= nearest.max(1, keepdims=True) - EQUAL  # all uses of a static vector are as near, and each counts in part
        found["nearest"].append(float(((nearest & alike).sum(1) / nearest.sum(1)).mean()))
        found["same"].append(float(near[alike & others].mean()))
        found["other"].append(float(near[~alike].mean()))
    return {name: float(np.mean(values)) for name, values in found.items()}


def measure(settings: Settings, progress: Progress) -> Measurements:
    themes, count = settings.pick(tiny=4, normal=8, full=12), settings.pick(tiny=1000, normal=4000, full=20_000)
    width, layers = settings.pick(tiny=16, normal=32, full=64), settings.pick(tiny=1, normal=2, full=4)
    steps, rate = settings.pick(tiny=600, normal=1500, full=4000), settings.pick(tiny=1e-2, normal=5e-3, full=3e-3)
    seeds = settings.seeds(tiny=1, normal=6, full=10)
    names = [f"w{word}" for word in range(themes * (OWN + 1))]
    tokenizer = Word(min_count=1).fit([" ".join(names)])
    numbers = np.array([tokenizer.id_of(name) for name in names])
    contextual = encoder(tokenizer.vocab, width, layers)
    draw = partial(sentences, themes, mixed=settings.without_effect)
    tick = make_tick(progress, len(seeds) * steps)
    found: Measurements = {"sentences": count, "steps": steps, "seeds": len(seeds), "both": [], "bag": [], "layers": []}
    for seed in seeds:
        rows, _ = draw(count, seed)
        asked, senses = draw(settings.pick(tiny=40, normal=80, full=80) * themes, 7_000_000 + seed)
        ambiguous = asked >= themes * OWN
        words, places = asked[ambiguous], ambiguous.argmax(1)
        static = static_vectors(rows, len(names), width, seed)
        found["both"].append(themes_of_both(static, themes))
        beside = np.where(ambiguous[:, :, None], 0, static[asked]).mean(1)
        found["bag"].append(measure_separation(beside, words, senses)["nearest"])
        given = mask_words(numbers[rows], Vocabulary(tokenizer))
        model = train_model(contextual, given, steps=steps, batch=64, lr=rate, seed=seed, tick=tick)
        by_layer = contextual_vectors(model, numbers[asked], places)
        found["layers"].append([measure_separation(layer, words, senses) for layer in by_layer])
        one = words == words[0]
        found.setdefault("map", {"vectors": by_layer[-1][one].round(4).tolist(), "senses": senses[one].tolist()})
    return found


def verdict(found: Measurements) -> Verdict:
    last = {name: [layers[-1][name] for layers in found["layers"]] for name in ("nearest", "same", "other")}
    return Verdict(
        [
            at_least(
                Text(
                    "de {value} des mots ambigus, l’unique vecteur statique a pour thèmes les plus proches ceux de ses deux sens",
                    "for {value} of ambiguous words the one static vector has the themes of its two senses as nearest themes",
                ),
                over_seeds(found["both"]),
                BOTH,
                percent,
            ),
            at_least(
                Text(
                    "d’un vecteur contextuel, l’emploi le plus proche a le même sens dans {value} des cas",
                    "the use nearest to a contextual vector has the same sense in {value} of cases",
                ),
                over_seeds(last["nearest"]),
                SEPARATED,
                percent,
            ),
            at_least(
                Text(
                    "entre deux sens, le cosinus est plus bas qu’au sein d’un sens de {value}",
                    "between two senses the cosine is lower than within one by {value}",
                ),
                over_seeds(lead(last["same"], last["other"])),
                FURTHER,
            ),
        ],
        Text(
            "La moyenne des vecteurs statiques du reste de la phrase donne {bag} d’emplois les plus proches du même sens.",
            "The mean of the static vectors of the rest of the sentence gives {bag} of nearest uses of the same sense.",
        ).with_(bag=percent(over_seeds(found["bag"]).value)),
    )


def figures(found: Measurements) -> list[FigureBlock]:
    depth = list(range(len(found["layers"][0])))
    curve = lambda words, name: seed_band(words, depth, [[layers[place][name] for layers in found["layers"]] for place in depth])
    level = lambda words, value: Band(words, [depth[0], depth[-1]], [value, value], baseline=True)
    across = Axis(Text("couche (0 : vecteur statique)", "layer (0: static vector)"), ticks=depth)
    bands = [
        curve(Text("emploi le plus proche", "nearest use"), "nearest"),
        level(Text("moyenne statique de la phrase", "static mean of the sentence"), over_seeds(found["bag"]).value),
        level(Text("au hasard", "by chance"), 0.5),
    ]
    apart = [curve(Text("même sens", "same sense"), "same"), curve(Text("sens différents", "different senses"), "other")]
    senses = [Text("premier sens", "first sense"), Text("second sens", "second sense")]
    uses = found["map"]
    return [
        FigureBlock(
            Text("Les emplois avec ceux de leur sens, par couche", "Uses with those of their sense, by layer"),
            partial(banded_curves, bands, across, Axis(Text("emplois", "uses"), share=True)),
            Text(
                f"{found['sentences']} phrases, {found['steps']} pas. La bande est l’intervalle à 95 % sur les graines.",
                f"{found['sentences']} sentences, {found['steps']} steps. The band is the 95 % interval over seeds.",
            ),
        ),
        FigureBlock(
            Text("Le cosinus de deux emplois d’un mot, par couche", "The cosine of two uses of a word, by layer"),
            partial(banded_curves, apart, across, Axis(Text("cosinus", "cosine"))),
            Text("Ce qui compte est l’écart entre les deux courbes.", "What counts is the gap between the two curves."),
        ),
        FigureBlock(
            Text("Les emplois d’un mot ambigu", "The uses of one ambiguous word"),
            partial(
                embedding_projection,
                uses["vectors"],
                [str(number + 1) for number in range(len(uses["senses"]))],
                [senses[sense] for sense in uses["senses"]],
            ),
            Text("Dernière couche, première graine.", "Last layer, first seed."),
        ),
    ]


EXPERIMENT = Experiment(
    number=17,
    title=Text("Un mot, plusieurs sens", "One word, several senses"),
    claim=Text(
        "les vecteurs statiques donnent un vecteur par mot, les modèles contextuels en séparent les sens",
        "static vectors give one vector per word, contextual models separate its senses",
    ),
    says={
        2: "key: learn representations based on bidirectional context. We went to the river bank. I need to go to bank to make a deposit.",
        4: "chaque mots est représenté par un seul vecteur indépendemment de son contexte […] ces modèles […] ne distinguent pas les "
        "différentes significations d’un mot polysème […] BERT génère des embeddings qui varient en fonction du contexte",
    },
    method=Text(
        f"Des phrases sont tirées au hasard : un mot ambigu, et {COMPANY} autres dont la moitié sont du thème de son sens. Word2Vec et un "
        "petit encodeur, qui retrouve des mots cachés comme BERT, apprennent des mêmes phrases. Ce qui décide : quels thèmes sont les plus "
        "proches de l’unique vecteur statique d’un mot ; et, dans des phrases nouvelles, si l’emploi le plus proche d’un autre (cosinus, "
        "dernière couche) a le même sens, et de combien les cosinus d’un sens à l’autre sont plus bas.",
        f"Sentences are drawn at random: an ambiguous word, and {COMPANY} others of which half are of its sense’s theme. Word2Vec and a "
        "small encoder, which finds hidden words as BERT does, learn from the same sentences. What decides: which themes are nearest to "
        "a word’s one static vector; and, in new sentences, whether the use nearest to another (cosine, last layer) has the same "
        "sense, and by how much cosines are lower from one sense to the other.",
    ),
    sabotage=Text("la phrase ne dépend pas du sens", "the sentence does not depend on the sense"),
    tiny="+..",
    measure=measure,
    verdict=verdict,
    figures=figures,
    papers=["Gale et al. 1992", "Schütze 1992", "Mikolov et al. 2013", "Devlin et al. 2019", "Ethayarajh 2019"],
    remarks=[
        Text(
            "Ces sens n’ont en commun que l’écriture, ce qui est plus facile que ceux d’un mot réel, et seuls les mots voisins les disent, "
            "non leur ordre : la moyenne des vecteurs statiques de ces voisins les sépare aussi.",
            "These senses share nothing but their spelling, which is easier than those of a real word, and only the words beside them tell "
            "them, not their order: the mean of these words’ static vectors separates them too.",
        ),
        Text(
            "L’écart des cosinus varie d’une graine à l’autre (de 0,08 à 0,43 sur douze), bien plus que la part des emplois les plus "
            "proches qui sont justes (de 92 à 98 %) ; sans doute dépend-il aussi de ce que tous les vecteurs ont en commun (Ethayarajh "
            "2019).",
            "The gap between cosines varies from seed to seed (from 0.08 to 0.43 over twelve), much more than the share of nearest uses "
            "that are right (92 to 98%); it probably also depends on what all vectors have in common (Ethayarajh 2019).",
        ),
    ],
    choices=[
        Text(
            "Les tailles et le nombre de graines ont été choisis après des essais, les limites avant.",
            "Sizes and the number of seeds were chosen after trials, limits before.",
        )
    ],
)
