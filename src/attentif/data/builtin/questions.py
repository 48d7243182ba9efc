"""French passages and questions about them, written by a grammar: synthetic, seeded, free of anyone's text.

A passage tells of a few people, each with a town, a job, a year, a thing bought and its price; sentences about them are shuffled and
pronouns stand for the name that came last. A question asks one thing about one of them, in words that are not always the passage's ("Où
vit Zoé ?" of "Zoé habite à Sète"), so that its sentence must be found among others of the same form, and the answer inside it. One
question in five has no answer: it asks for what the passage says of nobody, or of somebody else only. `group` tells the kinds apart.
"""

from random import Random

from attentif.data.builtin.lists import phrases, words
from attentif.data.builtin.registry import BuiltIn
from attentif.data.squad import ContextAnswer, write_answers

WOMEN = words("Zoé Inès Lucie Agathe Chloé Emma Alice Rose Clara Judith Nadia Sofia Ursule Céline Élise Gilda")
MEN = words("Paul Hugo Marc Simon Victor Bruno Denis Yves Léon Karim Omar Tom Basile Dario Félix Henri")
TOWNS = words(
    """
    Sète Brest Nice Mende Auch Rodez Laval Dole Lens Angers Tours Vienne Valence Orange Cahors Dax Vichy Royan Gap Foix Guéret Die
    """
)
JOBS = phrases(
    """
    médecin | pianiste | libraire | architecte | pilote | photographe | bibliothécaire | journaliste | fleuriste | dentiste |
    garagiste | interprète | géographe | professeur de dessin | guide de montagne | chef de gare
    """
)
THINGS = phrases(
    """
    une bicyclette rouge | un piano ancien | une barque | deux chèvres | un vieux camion | une armoire en chêne | un télescope |
    trois ruches | une horloge | un tapis bleu | une guitare | un four à pain | des skis neufs | un cerf-volant
    """
)
REASONS = phrases(
    """
    pour sa sœur | pour le marché | pour l'été | par amour de la mer | à cause du bruit | pour changer de vie | faute de mieux
    """
)

# what is known about a person: sentences that tell it ({n} the name or a pronoun, {v} the answer, {e} the mark of the
# feminine, {il} the pronoun), and questions that ask for it
FACTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "town": (
        ("{n} habite à {v}.", "{n} vit à {v} depuis longtemps.", "{n} s'est installé{e} à {v}."),
        ("Où habite {n} ?", "Dans quelle ville vit {n} ?", "Où {n} s'est-{il} installé{e} ?"),
    ),
    "job": (
        ("{n} travaille comme {v}.", "{n} gagne sa vie comme {v}.", "{n} est {v} de métier."),
        ("Comme quoi travaille {n} ?", "Que fait {n} dans la vie ?", "Quel métier exerce {n} ?"),
    ),
    "year": (
        ("{n} est arrivé{e} en {v}.", "C'est en {v} que tout a commencé pour {n}.", "{n} a signé le bail en {v}."),
        ("En quelle année {n} est-{il} arrivé{e} ?", "Quand {n} est-{il} arrivé{e} ?", "En quelle année tout a-t-il commencé pour {n} ?"),
    ),
    "thing": (
        ("{n} a acheté {v} hier.", "Samedi, {n} a rapporté {v} de la foire.", "{n} possède {v}."),
        ("Qu'a acheté {n} ?", "Que possède {n} ?", "Qu'a rapporté {n} de la foire ?"),
    ),
    "price": (
        ("{n} a payé {v} euros en tout.", "Cela lui a coûté {v} euros, dit {n}.", "{n} a dépensé {v} euros."),
        ("Combien {n} a-t-{il} payé ?", "Combien a dépensé {n} ?", "Combien cela a-t-il coûté à {n} ?"),
    ),
    "reason": (
        ("{n} a déménagé {v}.", "{n} dit être venu{e} {v}."),
        ("Pourquoi {n} a-t-{il} déménagé ?", "Pourquoi {n} est-{il} venu{e} ?"),
    ),
}
FILLERS = (
    "La place du village est calme le matin.", "Le vent souffle souvent du nord.", "On y sert un café très fort.", "La gare a fermé.",
    "Les volets restent clos en hiver.", "Personne ne se souvient de la dernière fête.", "Il a plu toute la semaine.",
)  # fmt: skip
SAME, OTHER, PRONOUN, NONE = "same words", "other words", "pronoun", "no answer"


def load(seed: int = 0, *, train: int = 24_000, valid: int = 600, test: int = 1_000) -> dict[str, dict[str, list[str]]]:
    """The three splits, roles `question`, `context`, `answers`; `test` also has `group`. No passage is in two splits."""
    rng = Random(f"questions {seed}")
    splits: dict[str, dict[str, list[str]]] = {}
    for split, size in (("train", train), ("valid", valid), ("test", test)):
        rows: list[tuple[str, str, str, str]] = []
        while len(rows) < size:
            rows += _passage(rng)
        rows = rows[:size]
        splits[split] = {role: [row[place] for row in rows] for place, role in enumerate(("question", "context", "answers"))}
        if split == "test":
            splits[split]["group"] = [row[3] for row in rows]
    return splits


def _passage(rng: Random) -> list[tuple[str, str, str, str]]:
    """One passage with four questions: (question, context, answers, kind)."""
    people = rng.sample(MEN + WOMEN, rng.randrange(2, 4))
    told: dict[tuple[str, str], tuple[int, str, int, bool]] = {}  # (person, fact): place, value, which sentence form, told by a pronoun
    text = ""
    for person in people:
        for place, fact in enumerate(rng.sample(sorted(FACTS), rng.randrange(2, 4))):
            if rng.random() < 0.1:
                text += rng.choice(FILLERS) + " "
            value, form = _value(rng, fact), rng.randrange(len(FACTS[fact][0]))
            template = FACTS[fact][0][form]
            pronoun = place > 0 and template.startswith("{n} ") and rng.random() < 0.4
            before, after = (_phrase(part, person, pronoun=pronoun) for part in template.split("{v}"))
            told[person, fact] = (len(text) + len(before), value, form, pronoun)
            text += before + value + after + " "
    text = text.strip()
    known = list(told)
    rows = []
    for person, fact in rng.sample(known, min(3, len(known))):
        start, value, form, pronoun = told[person, fact]
        asked = rng.randrange(len(FACTS[fact][1]))
        kind = PRONOUN if pronoun else SAME if asked == form else OTHER
        rows.append((_phrase(FACTS[fact][1][asked], person), text, write_answers([ContextAnswer(value, start)]), kind))
    absent = [(person, fact) for person in [*people, rng.choice(MEN + WOMEN)] for fact in FACTS if (person, fact) not in told]
    person, fact = rng.choice(absent)
    if rng.random() < 0.75:
        rows.append((_phrase(rng.choice(FACTS[fact][1]), person), text, write_answers([]), NONE))
    return rows


def _phrase(template: str, person: str, *, pronoun: bool = False) -> str:
    """A piece of a sentence about somebody."""
    woman = person in WOMEN
    il = "elle" if woman else "il"
    return template.format(n=il.capitalize() if pronoun else person, e="e" if woman else "", il=il)


def _value(rng: Random, fact: str) -> str:
    if fact == "year":
        return str(rng.randrange(1950, 2025))
    if fact == "price":
        return str(rng.randrange(2, 400) * 5)
    return rng.choice({"town": TOWNS, "job": JOBS, "thing": THINGS, "reason": REASONS}[fact])


SET = BuiltIn(
    name="questions",
    roles=("question", "context", "answers"),
    description="French passages and questions about them, one in five without an answer",
    size="24,000 train, 600 valid, 1,000 test questions",
    synthetic=True,
    load=load,
)
