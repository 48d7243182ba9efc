"""French sentences with persons, places, organisations and dates, written by a grammar: synthetic, seeded, free of anyone's text.

Lists of names do not solve them. Half of the names serve two types (Florence, Orange, Saint-Laurent, Mars ...) and only the words around
decide; common nouns share letters with names and differ in case alone (rose, pierre, orange), except at the beginning of a sentence,
where case says nothing; many names are made of syllables. In two sentences of five nothing near the name tells its type, only what is
said of it further on or before ("Vardin , selon nos informations , compte trois mille habitants"). One test sentence in two has a name
that training never had: `group` says so.

Tags are IOB2: PER, LOC, ORG, DATE. Words are written as French corpora do: l' école, M. Vardin.
"""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from random import Random

from attentif.data.builtin.lists import phrases, words
from attentif.data.builtin.registry import BuiltIn
from attentif.data.conll import encode_list

KNOWN, NEW = "known names", "new names"
MEN = words(
    """
    Pierre Jean Luc Paul Marc Louis Antoine Julien Hugo Léo Simon Victor Jules Denis Alain Yves Bruno Martin Thomas Laurent
    """
)
WOMEN = words(
    """
    Rose Florence Claire Marie Jeanne Lucie Emma Alice Inès Sophie Chloé Zoé Agathe Violette Margot Olive Aurore Lorraine
    """
)
TOWNS = words(
    """
    Florence Nice Orange Valence Lorraine Vienne Tours Angers Brest Dole Sète Lens Mende Auch Laval Rodez Saint-Laurent Laurent
    """
)
COMPANIES = words(
    """
    Orange Mars Olive Violette Aurore Valence Vienne Saint-Laurent Pierre Lens Horizon Boréal Tandem Méridien Cobalt
    """
)
SYLLABLES = words(
    """
    ba be bi bo bru ca ce cha cor da de du fa fo ga gri la le lo ma me mo na no pa per ra ri ro sa su ta ti to va ve vi zo
    """
)
SURNAME_ENDS = words("rd n t x lin ron ret lac vel ssin det mier quet gnol")
TOWN_ENDS = words("ville court gny mont bourg zac nay sur-Vègre")
COMPANY_ENDS = words("tec lia nov dis gaz soft matic")
MONTHS = words("janvier février mars avril mai juin juillet août septembre octobre novembre décembre")
DAYS = words("lundi mardi mercredi jeudi vendredi samedi dimanche")
NOUNS = phrases(
    """
    la rose | la pierre | le marc | une orange | une olive | la violette | l' aurore | la claire fontaine | le jardin | le marché |
    la tour | le lac
    """
)
FORMS = ("SA", "SAS", "et Fils", "Industries", "France")
INSTITUTIONS = ("la mairie de {town}", "l' université de {town}", "le tribunal de {town}", "le lycée {surname}", "le musée {surname}")
ELIDED = {"de": "d'", "que": "qu'"}  # before a name that begins with a vowel
VOWELS = tuple("AEIOUYH")
HELD_OUT = 0.15  # share of the made-up names kept for the test

# {P} a person, {S} a surname, {L} a place, {O} an organisation, {I} an institution, {D} when something happened, {d} a day, {y} a year;
# {n} a common noun, {N} the same at the beginning of a sentence
TEMPLATES = """
{P} habite à {L} depuis {d} .
{P} a grandi à {L} jusqu' en {y} .
{P} travaille chez {O} .
{P} a quitté {O} {D} pour rejoindre {O} .
{P} a critiqué {I} {D} .
{O} a ouvert une usine à {L} .
{O} a licencié vingt personnes à {L} {D} .
{O} , dirigée par {P} , s' installe à {L} .
{D} , {P} a vendu {n} à {P} .
{D} , {O} a publié ses comptes .
À {L} , {P} a trouvé {n} .
À {L} , {n} prend la pluie .
{N} a disparu dans la rivière .
{N} plaît à {P} .
{N} de {L} attire les visiteurs .
{N} coûte cher à {L} .
Le train pour {L} part sans {P} .
Le train de {L} est arrivé en retard {D} .
La route de {L} à {L} est fermée depuis {d} .
Les ouvriers de {O} ont fait grève {D} .
Le directeur de {O} a reçu {P} à {L} .
La ville de {L} a choisi {O} pour ses bus .
Selon {P} , {O} va racheter {O} .
Selon {O} , {n} se vend mieux à {L} .
Sans {n} , rien ne va plus .
Hier , {P} et {P} ont visité {L} .
Il pense que {P} aime {n} .
Elle a offert {n} à {P} {D} .
Elle a acheté {n} au marché de {L} .
Nous avons vu {L} sous la neige {D} .
Nous avons vu {P} sous la neige .
On parle de {O} dans tout {L} .
Demain , {P} quittera {L} pour {L} .
Avec {P} , tout va bien .
Avec {n} , tout va bien .
Depuis {d} , {P} écrit à {O} .
Les actions de {O} ont perdu dix pour cent .
Les habitants de {L} remercient {P} .
{I} recrute {P} .
{P} travaille pour {I} .
{I} a fermé {D} .
Monsieur {S} dirige {I} .
Madame {S} préside {O} .
""".strip().splitlines()

# Sentences whose neighbours of the name say nothing: {X} is a person, a place or an organisation by what {t} says of it, or {h}.
FAR = """
{X} , selon nos informations , {t} .
{X} , comme chacun sait , {t} .
{X} , on l' a appris hier soir , {t} .
On raconte que {X} , depuis quelque temps , {t} .
Il paraît que {X} , malgré tout , {t} .
À propos , {X} , pour la première fois , {t} .
D' après le journal , {X} , une fois de plus , {t} .
{h} dont tout le monde parle ces jours-ci s' appelle {X} .
{h} que nous cherchions depuis une heure se nomme {X} .
""".strip().splitlines()
SAID = {  # the tails and the heads of each type
    "PER": (
        phrases(
            """
            a épousé sa voisine | aura bientôt quarante ans | souffre du dos | ne mange plus de viande | a perdu ses clés |
            apprend le violon | a les yeux bleus
            """
        ),
        phrases("Le chanteur | La couturière | Le boulanger | L' avocate | Mon cousin"),
    ),
    "LOC": (
        phrases(
            """
            compte trois mille habitants | a élu son maire | se trouve au bord de la mer | manque d' eau potable | n' a plus de gare |
            a repeint son église
            """
        ),
        phrases("Le village | La ville | Le hameau | La commune | La vallée"),
    ),
    "ORG": (
        phrases(
            """
            va émettre des actions | a fermé deux filiales | recrute des ingénieurs | a doublé ses bénéfices | change de siège social |
            a déposé le bilan
            """
        ),
        phrases("La société | L' entreprise | Le fabricant | La banque | L' assureur"),
    ),
}
FAR_SHARE = 0.4

Piece = tuple[list[str], str, bool]  # its words, its type, whether a held-out name is in it


def load(seed: int = 0, *, train: int = 6_000, valid: int = 600, test: int = 1_000) -> dict[str, dict[str, list[str]]]:
    """The three splits, roles `tokens` and `tags`, a word a line; `test` also has `group`. All sentences are distinct."""
    writer = SentenceWriter(seed)
    seen: set[str] = set()
    sizes = {"train": (train, 0), "valid": (valid, 0), "test": (test - test // 2, test // 2)}
    splits: dict[str, dict[str, list[str]]] = {}
    for split, (known, new) in sizes.items():
        rows = [(*writer.sentence(KNOWN, seen), KNOWN) for _ in range(known)] + [(*writer.sentence(NEW, seen), NEW) for _ in range(new)]
        writer.rng.shuffle(rows)
        splits[split] = {"tokens": [encode_list(words) for words, _, _ in rows], "tags": [encode_list(tags) for _, tags, _ in rows]}
        if split == "test":
            splits[split]["group"] = [group for _, _, group in rows]
    return splits


class SentenceWriter:
    """Draws sentences; which made-up names are held out is a function of the seed."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(f"entities {seed}")
        names = Random(f"entities names {seed}")
        self.made: dict[str, tuple[list[str], list[str]]] = {}  # of each kind: those of training, those kept for the test
        for kind, ends, count in (("surname", SURNAME_ENDS, 600), ("town", TOWN_ENDS, 200), ("company", COMPANY_ENDS, 200)):
            made = sorted({self._name(names, ends) for _ in range(count)})
            names.shuffle(made)
            kept = round(HELD_OUT * len(made))
            self.made[kind] = made[kept:], made[:kept]
        self.pieces: dict[str, Callable[[bool], Piece]] = {
            "P": self._person, "S": self._surname, "L": self._town, "O": self._company, "I": self._institution,
            "p": partial(self._bare, "PER"), "l": partial(self._bare, "LOC"), "o": partial(self._bare, "ORG"),
            "D": self._date, "d": self._day, "y": self._year, "n": self._noun, "N": self._noun,
        }  # fmt: skip

    @staticmethod
    def _name(rng: Random, ends: list[str]) -> str:
        return "".join(rng.choice(SYLLABLES) for _ in range(rng.randrange(1, 3))).capitalize() + rng.choice(ends)

    def sentence(self, group: str, seen: set[str]) -> tuple[list[str], list[str]]:
        """Words and tags that no sentence before had; with held-out names where the group asks for them, and never else."""
        while True:
            words, tags, new = self._draft(group == NEW)
            if new == (group == NEW) and (text := " ".join(words)) not in seen:
                seen.add(text)
                return words, tags

    def _draft(self, new: bool) -> tuple[list[str], list[str], bool]:
        words: list[str] = []
        tags: list[str] = []
        held = False
        for piece in self._template():
            own, kind, fresh = self.pieces[piece[1]](new) if piece[0] == "{" else ([piece], "", False)
            tags += [f"{'I' if place else 'B'}-{kind}" if kind else "O" for place in range(len(own))]
            words += own
            held |= fresh
        words = [ELIDED.get(word, word) if after.startswith(VOWELS) else word for word, after in pairwise([*words, ""])]
        words[0] = words[0][0].upper() + words[0][1:]
        return words, tags, held

    def _template(self) -> list[str]:
        """Words and slots; of a far one, the tail or head of the type that it is about."""
        if self.rng.random() >= FAR_SHARE:
            return self.rng.choice(TEMPLATES).split()
        kind = self.rng.choice(sorted(SAID))
        tail, head = (self.rng.choice(said) for said in SAID[kind])
        return (
            self.rng.choice(FAR)
            .replace("{t}", tail)
            .replace("{h}", head)
            .replace("{X}", {"PER": "{p}", "LOC": "{l}", "ORG": "{o}"}[kind])
            .split()
        )

    def _bare(self, kind: str, new: bool) -> Piece:
        """A name that could be of any type."""
        name, fresh = self._pick("surname", new)
        return ([name], kind, fresh) if self.rng.random() < 0.6 else ([self.rng.choice(sorted({*TOWNS, *COMPANIES}))], kind, False)

    def _pick(self, kind: str, new: bool) -> tuple[str, bool]:
        known, held = self.made[kind]
        fresh = new and self.rng.random() < 0.7
        return self.rng.choice(held if fresh else known), fresh

    def _person(self, new: bool) -> Piece:
        first = self.rng.choice(MEN + WOMEN)
        how = self.rng.random()
        if how < 0.45:
            return [first], "PER", False
        surname, fresh = self._pick("surname", new)
        if how < 0.8:
            return [first, surname], "PER", fresh
        if how < 0.9:
            return [first[0] + ".", surname], "PER", fresh
        return [surname], "PER", fresh

    def _surname(self, new: bool) -> Piece:
        surname, fresh = self._pick("surname", new)
        return ([self.rng.choice(MEN + TOWNS)], "PER", False) if self.rng.random() < 0.3 else ([surname], "PER", fresh)

    def _town(self, new: bool) -> Piece:
        if self.rng.random() < 0.5:
            return [self.rng.choice(TOWNS)], "LOC", False
        town, fresh = self._pick("town", new)
        return [town], "LOC", fresh

    def _company(self, new: bool) -> Piece:
        fresh = False
        name = self.rng.choice(COMPANIES)
        if self.rng.random() >= 0.5:
            kind = self.rng.choice(("company", "surname"))
            name, fresh = self._pick(kind, new)
        form = self.rng.choice(FORMS).split() if self.rng.random() < 0.3 else []
        return [name, *form], "ORG", fresh

    def _institution(self, new: bool) -> Piece:
        kind = self.rng.choice(INSTITUTIONS)
        name, fresh = self._pick("town" if "{town}" in kind else "surname", new)
        if "{town}" in kind and self.rng.random() < 0.5:
            name, fresh = self.rng.choice(TOWNS), False
        return kind.format(town=name, surname=name).split(), "ORG", fresh

    # what has no held-out names ignores whether any are asked for

    def _day(self, new: bool) -> Piece:
        day = ["le", str(self.rng.randrange(2, 29)), self.rng.choice(MONTHS)]
        return [*day, *self._year(new)[0]] if self.rng.random() < 0.5 else day, "DATE", False

    def _year(self, new: bool) -> Piece:
        return [str(self.rng.randrange(1950, 2030))], "DATE", False

    def _date(self, new: bool) -> Piece:
        how = self.rng.random()
        if how < 0.4:
            return self._day(new)
        if how < 0.8:
            return ["en", *([self.rng.choice(MONTHS)] if how < 0.6 else []), *self._year(new)[0]], "DATE", False
        return [self.rng.choice(DAYS), self.rng.choice(("dernier", "matin", "soir"))], "DATE", False

    def _noun(self, new: bool) -> Piece:
        return self.rng.choice(NOUNS).split(), "", False


SET = BuiltIn(
    name="entities",
    roles=("tokens", "tags"),
    description="French sentences with persons, places, organisations and dates, tagged word by word",
    size="6,000 train, 600 valid, 1,000 test sentences",
    synthetic=True,
    load=load,
)
