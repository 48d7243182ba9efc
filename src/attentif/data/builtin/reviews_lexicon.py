"""The words of the `reviews` grammar.

Evaluative words come in pairs of lists, praise then blame. Letters say what an adjective can be said of: r the story, v what is
seen, p the people who play, s what is heard, f the film as a whole, a the evening around it.
"""

from attentif.data.builtin.words import Lexicon, Noun, adjectives, nouns, verbs

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
# what is granted before a "mais": strong words oftener, to make up for the negations they never have
GRANTED = (PLAIN[0] + 4 * STRONG[0], PLAIN[1] + 4 * STRONG[1])

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


def _neutral(words: list[Noun]) -> tuple[list[Noun], list[Noun]]:
    return words, words


LEXICON: Lexicon = {
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
    "granted": GRANTED,
    "plain": PLAIN,
    "feel": FEELINGS,
    "verb": VERBS,
    "loved": LOVED,
    "manner": MANNERS,
    "spoken": SPOKEN,
}
