"""Short French news reports and their summaries, written by a grammar: synthetic, seeded, free of anyone's text.

A report tells what happened and where in its first sentence, and the rest in any order among sentences that do not matter: the cause,
the damage, the number of injured people. One report in two corrects a number that it gave before ("on parlait d'abord de trois blessés ;
ils sont sept"), and one in three denies a first cause: the summary takes what holds in the end. It is one sentence, a function of the
report, so that a summary can be exactly right; the first sentences alone (the lead) never are.
"""

from random import Random

from attentif.data.builtin.lists import phrases, words
from attentif.data.builtin.numbers import french
from attentif.data.builtin.registry import BuiltIn

TOWNS = words(
    """
    Sète Brest Nice Mende Auch Rodez Laval Dole Lens Angers Tours Vienne Valence Orange Cahors Dax Vichy Royan Gap Foix Guéret Die
    Albi Agen Arles Bastia Calais Dijon Évreux Fréjus Grasse Hyères
    """
)
EVENTS = {  # what happened, by whose article; where; what it is called in the summary
    "un incendie": ("dans un entrepôt", "dans une école", "dans un immeuble", "dans une usine"),
    "une explosion": ("dans un garage", "dans un restaurant", "sur un chantier", "dans une usine"),
    "une inondation": ("dans le centre", "dans un camping", "près de la gare", "dans une école"),
    "un accident de car": ("sur la rocade", "près de la gare", "à l'entrée du pont", "sur la place du marché"),
    "un effondrement": ("sur un chantier", "au marché couvert", "dans un immeuble", "près du pont"),
}
CAUSES = phrases(
    """
    un court-circuit | une fuite de gaz | l'orage | une erreur humaine | une pièce usée | le gel | un mégot mal éteint | la rupture
    d'une conduite
    """
)
DAMAGE = phrases("dix mille euros | cinquante mille euros | cent mille euros | deux cent mille euros | un million d'euros")
DAYS = phrases("Lundi | Mardi | Mercredi | Jeudi | Vendredi | Samedi | Dimanche | Hier | Cette nuit | Ce matin")
FILLERS = phrases(
    """
    Les pompiers sont arrivés très vite. | La rue restera fermée plusieurs jours. | Le maire s'est rendu sur place. | Une enquête
    est ouverte. | Les voisins ont été logés dans un gymnase. | Une foule de curieux s'est rassemblée. | La circulation a repris
    dans la soirée. | Le préfet a salué le sang-froid de tous. | Les secours ont travaillé jusqu'à l'aube. | L'électricité a été
    coupée dans le quartier.
    """
)


def load(seed: int = 0, *, train: int = 12_000, valid: int = 600, test: int = 1_000) -> dict[str, dict[str, list[str]]]:
    """The three splits, roles `text` and `summary`: all texts distinct."""
    rng = Random(f"reports {seed}")
    seen: set[str] = set()
    splits = {}
    for split, size in (("train", train), ("valid", valid), ("test", test)):
        rows: list[tuple[str, str]] = []
        while len(rows) < size:
            row = report(rng)
            if row[0] not in seen:
                seen.add(row[0])
                rows.append(row)
        splits[split] = {"text": [text for text, _ in rows], "summary": [summary for _, summary in rows]}
    return splits


def report(rng: Random) -> tuple[str, str]:
    """A report and its summary."""
    event, where, town = (what := rng.choice(sorted(EVENTS))), rng.choice(EVENTS[what]), rng.choice(TOWNS)
    lead = f"{rng.choice(DAYS)}, {event} s'est produit{'e' if event.startswith('une') else ''} {where} à {town}."
    cause, injured = rng.choice(CAUSES), rng.randrange(0, 13)
    blocks = [_cause(rng, cause), _write_injured(rng, injured), [f"Les dégâts sont estimés à {rng.choice(DAMAGE)}."]]
    blocks += [[filler] for filler in rng.sample(FILLERS, rng.randrange(1, 4))]
    rng.shuffle(blocks)
    name = event.split(" ", 1)[1]
    hurt = "aucun blessé" if not injured else f"{_count(injured)} blessé{'s' if injured > 1 else ''}"
    return " ".join(
        [lead, *(sentence for block in blocks for sentence in block)]
    ), f"{name.capitalize()} à {town} : {hurt}, à cause {_of(cause)}."


def _cause(rng: Random, cause: str) -> list[str]:
    if rng.random() < 1 / 3:
        wrong = rng.choice([other for other in CAUSES if other != cause])
        return [f"On a d'abord accusé {wrong}.", f"L'origine est en fait {cause}."]
    return [rng.choice((f"La cause est {cause}.", f"Tout est parti d{_of(cause)[1:]}.", f"Selon les pompiers, c'est {cause}."))]


def _write_injured(rng: Random, injured: int) -> list[str]:
    if rng.random() < 0.5:
        wrong = rng.choice([n for n in range(2, 13) if n != injured])
        holds = "il n'y en a aucun" if not injured else f"il y en a {_count(injured)}"
        return [f"On parlait d'abord de {_count(wrong)} blessés ; {holds}."]
    if not injured:
        return [rng.choice(("Personne n'a été blessé.", "On ne compte aucun blessé."))]
    who = f"{_count(injured)} personne{'s' if injured > 1 else ''}".replace("un personne", "une personne")
    verb = "ont été blessées" if injured > 1 else "a été blessée"
    return [rng.choice((f"{who.capitalize()} {verb}.", f"On compte {_count(injured)} blessé{'s' if injured > 1 else ''}."))]


def _count(number: int) -> str:
    return french(number)


def _of(cause: str) -> str:
    """ "d'une fuite de gaz", "du gel", "de l'orage"."""
    if cause.startswith(("un ", "une ")):
        return f"d'{cause}"
    return f"du {cause[3:]}" if cause.startswith("le ") else f"de {cause}"


SET = BuiltIn(
    name="reports",
    roles=("text", "summary"),
    description="short French news reports and their one-sentence summaries",
    size="12,000 train, 600 valid, 1,000 test reports",
    synthetic=True,
    load=load,
)
