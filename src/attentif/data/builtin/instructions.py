"""Four small tasks told apart by the words before the text, in French: synthetic, seeded, free of anyone's text.

    traduire      French number words to English ones, below ten thousand                       (see `numbers`)
    juger         is a film review positive or negative: the answer is the word itself         (see `reviews`)
    résumer       a news report in one sentence                                                (see `reports`)
    conjuguer     a regular verb in -er, a person and a tense to the form: "chanter, nous, futur" to "nous chanterons"

The task is the role `prefix`; `source` and `target` are texts whatever the task (Raffel et al. 2020).
"""

from random import Random

from attentif.data.builtin import numbers, reports, reviews
from attentif.data.builtin.lists import words
from attentif.data.builtin.registry import BuiltIn

LARGEST = 10_000  # of the numbers to translate
VERBS = words(
    """
    chanter danser parler marcher porter trouver donner regarder écouter aimer poser rester monter tomber passer penser montrer
    laisser demander garder tirer sauter rouler pousser fermer casser couper laver brosser dessiner compter raconter inventer
    réparer inviter habiter arriver oublier plier crier étudier saluer jouer louer tourner chercher chasser cacher coller creuser
    critiquer cuisiner débuter déjeuner deviner discuter douter dresser durer écraser embrasser emporter enfermer entrer épouser
    espionner fêter filmer former frapper fumer gagner gronder hésiter imaginer imiter installer
    """
)
PEOPLE = ("je", "tu", "il", "elle", "nous", "vous", "ils", "elles")
ENDS = {  # in the order je, tu, il, nous, vous, ils; the future follows the infinitive
    "présent": "e es e ons ez ent",
    "imparfait": "ais ais ait ions iez aient",
    "futur": "ai as a ons ez ont",
    "conditionnel": "ais ais ait ions iez aient",
}


def load(seed: int = 0, *, train: int = 12_000, valid: int = 600, test: int = 1_200) -> dict[str, dict[str, list[str]]]:
    """The three splits, roles `prefix`, `source` and `target`, as many rows of each task, in chance order; no source is in two splits."""
    rng = Random(f"instructions {seed}")
    sizes = {"train": train // 4, "valid": valid // 4, "test": test // 4}
    splits: dict[str, list[tuple[str, str, str]]] = {split: [] for split in sizes}
    for prefix, pairs in _tasks(rng, seed, sizes).items():
        start = 0
        for split, size in sizes.items():
            splits[split] += [(prefix, *pair) for pair in pairs[start : start + size]]
            start += size
    for rows in splits.values():
        rng.shuffle(rows)
    roles = ("prefix", "source", "target")
    return {split: {role: [row[place] for row in rows] for place, role in enumerate(roles)} for split, rows in splits.items()}


def _tasks(rng: Random, seed: int, sizes: dict[str, int]) -> dict[str, list[tuple[str, str]]]:
    """Distinct pairs of each task, in chance order."""
    total = sum(sizes.values())
    words = [(numbers.french(n), numbers.english(n)) for n in rng.sample(range(LARGEST), min(total, LARGEST))]
    written = reviews.load(seed, train=total, valid=2, test=4)["train"]
    news = reports.load(seed, train=total, valid=0, test=0)["train"]
    asked = [(verb, who, tense, negated) for verb in VERBS for who in PEOPLE for tense in ENDS for negated in (False, True)]
    forms = [
        (f"{verb}, {who}, {tense}{', négation' * negated}", _form(verb, who, tense, negated=negated)) for verb, who, tense, negated in asked
    ]
    return {
        "traduire": words,
        "juger": list(zip(written["text"], written["label"], strict=True)),
        "résumer": list(zip(news["text"], news["summary"], strict=True)),
        "conjuguer": rng.sample(forms, min(total, len(forms))),
    }


def _form(verb: str, who: str, tense: str, *, negated: bool) -> str:
    place = {"je": 0, "tu": 1, "il": 2, "elle": 2, "nous": 3, "vous": 4, "ils": 5, "elles": 5}[who]
    stem = verb if tense in ("futur", "conditionnel") else verb[:-2]
    form = stem + ENDS[tense].split()[place]
    vowel = form[0] in "aeéiouh"
    if negated:
        return f"{who} {'n' + chr(39) if vowel else 'ne '}{form} pas"
    return f"j'{form}" if who == "je" and vowel else f"{who} {form}"


SET = BuiltIn(
    name="instructions",
    roles=("prefix", "source", "target"),
    description="four small tasks in French, named by a prefix",
    size="12,000 train, 600 valid, 1,200 test texts",
    synthetic=True,
    load=load,
)
