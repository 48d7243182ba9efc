"""The words of the `reviews` grammar: nouns with their gender, adjectives and verbs with the forms the rules ask for.

Evaluative words come in pairs of lists, praise then blame. Letters say what an adjective can be said of: r the story, v what is
seen, p the people who play, s what is heard, f the film as a whole, a the evening around it.
"""

import re
from dataclasses import dataclass

AGREEMENT = {"m": 0, "f": 1, "mp": 2, "fp": 3}  # masculine and feminine, singular and plural

@dataclass(frozen=True, slots=True)
class Noun:
    text: str
    agreement: int  # a value of AGREEMENT
    domain: str

    def joined(self, other: "Noun") -> "Noun":
        """Both nouns as one subject: plural, and masculine unless both are feminine."""
        return Noun(f"{self.text} {other.text}", 2 + self.agreement % 2 * (other.agreement % 2), self.domain + other.domain)


@dataclass(frozen=True, slots=True)
class Adjective:
    text: str
    forms: tuple[str, str, str, str]  # in the order of AGREEMENT
    domains: str


@dataclass(frozen=True, slots=True)
class Verb:
    """What a viewer does: on `present` `rest`; impossible de `infinitive`; je pensais `mine`; je `auxiliary` `participle` `my_rest`."""

    text: str
    present: str
    infinitive: str
    mine: str
    auxiliary: str
    participle: tuple[str, str]  # said by a man, by a woman
    rest: str
    my_rest: str


def nouns(domain: str, listing: str) -> list[Noun]:
    """Reads `scénario m; images fp`."""
    entries = (entry.rsplit(maxsplit=1) for entry in listing.split(";"))
    return [Noun(text.strip(), AGREEMENT[kind], domain) for text, kind in entries]


def adjectives(listing: str) -> list[Adjective]:
    """Reads `réussi rvsf; creux/creuse rf`: the feminine is written where no rule gives it."""
    words = []
    for entry in listing.split(";"):
        text, domains = entry.split()
        masculine, _, feminine = text.partition("/")
        words.append(Adjective(masculine, _forms(masculine, feminine), domains))
    return words


def _forms(masculine: str, feminine: str) -> tuple[str, str, str, str]:
    if not feminine:
        endings = (("e", "e"), ("eux", "euse"), ("f", "ve"), ("", "e"))
        end, feminine_end = next(pair for pair in endings if masculine.endswith(pair[0]))
        feminine = masculine.removesuffix(end) + feminine_end
    plural = masculine if masculine[-1] in "sx" else masculine.removesuffix("al") + "aux" if masculine == "original" else masculine + "s"
    return masculine, feminine, plural, feminine + "s"


def verbs(listing: str) -> list[Verb]:
    """Reads lines `present, infinitive, auxiliary, participle[/feminine], rest`."""
    words = []
    for line in listing.strip().splitlines():
        present, infinitive, auxiliary, participle, rest = (field.strip() for field in line.split(","))
        masculine, _, feminine = participle.partition("/")
        participles = (masculine, feminine or masculine)
        words.append(Verb(infinitive, present, infinitive, _first_person(infinitive), auxiliary, participles, rest, _first_person(rest)))
    return words


def _first_person(text: str) -> str:
    """s'ennuyer -> m'ennuyer, sa montre -> ma montre."""
    return re.sub(r"\bs(?='|e\b|a\b|on\b)", "m", text)


PARTS = [
    *nouns("r", "scénario m; intrigue f; récit m; histoire f; dialogues mp; dénouement m; suspense m; humour m; narration f; fin f"),
    *nouns("v", "mise en scène f; photographie f; décors mp; costumes mp; images fp; cadrages mp; effets spéciaux mp; montage m"),
    *nouns("p", "acteurs mp; actrice principale f; acteur principal m; seconds rôles mp; distribution f; casting m; interprétation f"),
    *nouns("s", "musique f; bande-son f; chansons fp; partition f"),
]
WORKS = nouns("r", "scénario m; intrigue f; récit m; histoire f; dialogues mp; dénouement m; narration f; mise en scène f; montage m")
PLAYERS = nouns("p", "acteurs mp; comédiens mp; actrice principale f; acteur principal m; seconds rôles mp; enfants mp")
BEGINNINGS = nouns("r", "début m; première demi-heure f; première scène f; idée de départ f; ouverture f; bande-annonce f")
FILMS = nouns("f", "film m; film m; long métrage m")
GENRES = nouns(
    "f",
    "comédie f; drame m; thriller m; western m; polar m; comédie musicale f; film d'animation m; film d'horreur m; documentaire m; "
    "fresque historique f; romance f; film de guerre m; film d'aventures m; film de science-fiction m; biopic m",
)
OTHERS = nouns("f", "premier volet m; film précédent m; roman m; version d'origine f; épisode précédent m; pièce de théâtre f")
AROUND = nouns("a", "salle f; pop-corn m; accueil m; soirée f; restaurant d'à côté m; fauteuils mp; son de la salle m; glaces fp; trajet m")

VERDICTS = (
    nouns(
        "f",
        "chef-d'œuvre m; bijou m; merveille f; réussite f; perle f; régal m; grand film m; coup de maître m; pépite f; "
        "leçon de cinéma f; triomphe m; bonheur m; délice m; bon film m; bonne surprise f",
    ),
    nouns(
        "f",
        "navet m; naufrage m; désastre m; catastrophe f; ratage m; purge f; gâchis m; échec m; calvaire m; "
        "leçon d'ennui f; fiasco m; supplice m; corvée f; mauvais film m; déception f",
    ),
)
# those whose negation is as clear as they are: "ce n'est pas un navet" may be faint praise, "ce n'est pas un échec" is not
PLAIN_VERDICTS = (
    nouns("f", "réussite f; bon film m; bonne surprise f; grand film m"),
    nouns("f", "ratage m; échec m; mauvais film m; déception f"),
)

# an adjective whose negation clearly means the contrary
PLAIN = (
    adjectives(
        "réussi rvsf; convaincant rvpf; soigné rvsf; maîtrisé rvf; inspiré rvpsf; brillant rvpsf; original rvsf; intelligent rf; "
        "captivant rsf; passionnant rf; prenant rsf; subtil rvps; crédible rvp; émouvant rpsf; touchant rpsf; élégant rvsf; "
        "harmonieux vs; attachant pf; efficace rvsf; agréable rvpsfa; intéressant rvpsfa"
    ),
    adjectives(
        "raté rvsf; bâclé rvsf; médiocre rvpsfa; maladroit rvpf; décevant rvpsfa; laborieux rvf; poussif rf; prévisible rsf; "
        "ennuyeux rsf; creux/creuse rf; fade rvpsf; paresseux rvf; ridicule rvpf; banal rvsf; confus rvf; lourd rsf; "
        "pénible rpsfa; agaçant vpsf; faible rpf; terne vpsf; criard vs"
    ),
)
# too strong for that: "pas catastrophique" is no praise; they are reversed only by what surrounds the clause
STRONG = (
    adjectives(
        "magnifique vpsfa; sublime vpsf; formidable rvpsfa; remarquable rvpsfa; admirable rvpsf; exceptionnel/exceptionnelle rvpsfa; "
        "bouleversant rpsf; impeccable rvpsfa; irrésistible rpf; délicieux rsfa"
    ),
    adjectives(
        "catastrophique rvpsfa; lamentable rvpsfa; affligeant rvpsf; consternant rvpf; pitoyable rvpsf; désastreux rvpsfa; "
        "insupportable rpsfa; navrant rvpf; exécrable rvpsfa; grotesque rvpf"
    ),
)
BOTH = (PLAIN[0] + STRONG[0], PLAIN[1] + STRONG[1])

FEELINGS = (
    adjectives("ravi f; ému f; enchanté f; comblé f; bouleversé f; conquis f; heureux f; émerveillé f"),
    adjectives("déçu f; agacé f; furieux f; frustré f; consterné f; accablé f; écœuré f; fâché f"),
)

VERBS = (
    verbs("""
        rit, rire, ai, ri,
        vibre, vibrer, ai, vibré,
        s'amuse, s'amuser, me suis, amusé/amusée,
        y croit, y croire, y ai, cru,
        frissonne, frissonner, ai, frissonné,
        s'attache, s'attacher aux personnages, me suis, attaché/attachée, aux personnages
        se régale, se régaler, me suis, régalé/régalée,
        entre, entrer dans l'histoire, suis, entré/entrée, dans l'histoire
        s'émerveille, s'émerveiller, me suis, émerveillé/émerveillée,
    """),
    verbs("""
        s'ennuie, s'ennuyer, me suis, ennuyé/ennuyée,
        bâille, bâiller, ai, bâillé,
        soupire, soupirer, ai, soupiré,
        décroche, décrocher, ai, décroché,
        regarde, regarder sa montre, ai, regardé, sa montre
        se lasse, se lasser, me suis, lassé/lassée,
        s'impatiente, s'impatienter, me suis, impatienté/impatientée,
        perd, perdre son temps, ai, perdu, son temps
        pense, penser à autre chose, ai, pensé, à autre chose
    """),
)
LOVED = (["adoré", "aimé", "savouré", "apprécié", "admiré"], ["détesté", "subi", "enduré", "maudit", "haï"])
MANNERS = (["juste", "bien"], ["faux", "mal"])
# after "c'est": what people say first
SPOKEN = (
    ["bien joué", "bien écrit", "bien filmé", "bien rythmé", "bien", "génial", "super", "beau", "drôle"],
    ["mal joué", "mal écrit", "mal filmé", "mal rythmé", "mauvais", "nul", "long", "laid", "moche"],
)

Word = Noun | Adjective | Verb | str


def _neutral(words: list[Noun]) -> tuple[list[Noun], list[Noun]]:
    return words, words


LEXICON = {
    "part": _neutral(PARTS),
    "work": _neutral(WORKS),
    "players": _neutral(PLAYERS),
    "beginning": _neutral(BEGINNINGS),
    "film": _neutral(FILMS),
    "genre": _neutral(GENRES),
    "other": _neutral(OTHERS),
    "around": _neutral(AROUND),
    "verdict": VERDICTS,
    "plain_verdict": PLAIN_VERDICTS,
    "adj": BOTH,
    "plain": PLAIN,
    "feel": FEELINGS,
    "verb": VERBS,
    "loved": LOVED,
    "manner": MANNERS,
    "spoken": SPOKEN,
}
