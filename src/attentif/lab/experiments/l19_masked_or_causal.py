"""L19: masked and causal pre-training against each other on the same classification.

    masked     −log p(x_t | all words but the hidden ones)       a word in seven is asked for, both sides are seen    (Devlin et al. 2019)
    causal     −log p(x_t | x_1 ... x_{t−1})                     every word is, from those before it                  (Radford et al. 2018)

The same texts, as many steps of as many words, then the same labelled passages. Each is also compared with its own body without
pre-training, so that what attention to both sides is worth by itself can be told apart.
"""

from statistics import mean

from attentif.lab.experiment import Experiment, Measurements, Settings, Verdict, at_least, over_seeds
from attentif.lab.seeds import lead, right_answers
from attentif.lab.small import make_tick
from attentif.lab.texts import SHARE, WORDS, Objective, School, TextSizes
from attentif.models import Model
from attentif.tasks.base import Progress
from attentif.view.blocks import FigureBlock
from attentif.view.words import Text, count, percent

PAYS = 0.05  # right answers more than without pre-training, for either: otherwise there is nothing to compare
AHEAD = 0.02  # right answers that masked pre-training brings more than causal: one in fifty
LABELS = (64, 256)  # of which the mean is taken
AND = Text(" et ".join(map(str, LABELS)), " and ".join(map(str, LABELS)))
NAMES = {
    "masked": Text("masqué", "masked"),
    "causal": Text("causal", "causal"),
    "encoder": Text("sans, attention des deux côtés", "none, attention to both sides"),
    "decoder": Text("sans, attention vers l’arrière", "none, attention to what came before"),
}


def measure(settings: Settings, progress: Progress) -> Measurements:
    """By way to pre-train, seed by seed: the mean over the numbers of labels."""
    sizes, seeds = TextSizes.of(settings), settings.seeds(tiny=1, normal=3, full=8)
    reading = 0 if settings.without_effect else 2 * sizes.reading
    tick = make_tick(progress, len(seeds) * (reading + len(LABELS) * len(NAMES) * sizes.teaching))
    right: dict[str, list[float]] = {name: [] for name in NAMES}
    for seed in seeds:
        school = School(sizes, seed, tick)
        starts: dict[str, tuple[Objective, Model | None]] = {
            "masked": ("masked", school.pretrain("masked") if reading else None),
            "causal": ("causal", school.pretrain("causal") if reading else None),
            "encoder": ("masked", None),
            "decoder": ("causal", None),
        }
        for name, (objective, begun) in starts.items():
            right[name].append(mean([school.right(objective, labels, begun) for labels in LABELS]))
    return {"texts": len(school.read), "steps": sizes.reading, "seeds": len(seeds), "chance": school.chance, "right": right}


def verdict(found: Measurements) -> Verdict:
    right = found["right"]
    brings = {"masked": lead(right["masked"], right["encoder"]), "causal": lead(right["causal"], right["decoder"])}
    return Verdict(
        [
            at_least(
                Text("le masqué apporte {value} de plus que le causal", "masked brings {value} more than causal"),
                over_seeds(lead(brings["masked"], brings["causal"])),
                AHEAD,
                percent,
            ),
        ],
        Text(
            "Réponses justes : {masked} après l’un, {causal} après l’autre ; sans pré-entraînement, {encoder} en voyant les deux côtés et "
            "{decoder} sinon.",
            "Right answers: {masked} after the one, {causal} after the other; without pre-training {encoder} seeing both sides, and "
            "{decoder} otherwise.",
        ).with_(**{name: percent(over_seeds(own).value) for name, own in right.items()}),
        controls=[
            at_least(
                Text(
                    f"avec {AND.fr} étiquettes, le pré-entraînement masqué apporte {{value}} de réponses justes",
                    f"with {AND.en} labels masked pre-training brings {{value}} more right answers",
                ),
                over_seeds(brings["masked"]),
                PAYS,
                percent,
            ),
            at_least(Text("le causal, {value}", "causal, {value}"), over_seeds(brings["causal"]), PAYS, percent),
        ],
    )


def figures(found: Measurements) -> list[FigureBlock]:
    steps = count(found["steps"])
    return [
        right_answers(
            Text("Ce que chaque pré-entraînement apporte", "What each way to pre-train brings"),
            NAMES,
            found["right"],
            found["chance"],
            Text(
                f"{steps.fr} pas de pré-entraînement, puis {AND.fr} passages étiquetés (moyenne) ; les graines vont par paires.",
                f"{steps.en} steps of pre-training, then {AND.en} labelled passages (the mean); seeds come in pairs.",
            ),
        )
    ]


EXPERIMENT = Experiment(
    number=19,
    title=Text("Masqué ou causal", "Masked or causal"),
    claim=Text(
        "pour la même classification, le pré-entraînement masqué, qui voit les deux côtés, sert mieux que le causal",
        "for the same classification masked pre-training, which sees both sides, serves better than causal",
    ),
    says={
        0: "BERT, RoBERTa, Camembert → classif. Ensuite : Generative Pretrained Transformers",
        2: "key: learn representations based on bidirectional context",
        3: "(Causal) Language Modeling : […] un modèle qui maximise la probabilité de chaque token d'apparaître dans sa séquence",
    },
    method=Text(
        f"Deux modèles de même forme lisent les mêmes passages de {WORDS} mots de la bibliothèque de Python, pendant autant de pas : l’un "
        "retrouve les mots cachés ({share} d’entre eux, comme BERT), l’autre le mot suivant. Chacun apprend ensuite, sur les mêmes "
        "passages étiquetés et avec la même tête sur la moyenne des places, de quel paquet un passage vient. Ce qui décide : ce que "
        "chacun gagne de réponses justes, sur d’autres passages, sur le même modèle sans pré-entraînement, graine par graine.",
        f"Two models of the same shape read the same passages of {WORDS} words of Python’s library, for as many steps: one finds hidden "
        "words ({share} of them, as BERT), the other the next word. Each then learns, from the same labelled passages and with the same "
        "head over the mean of all places, which package a passage is from. What decides: how many more right answers, on "
        "other passages, each has than the same model without pre-training, seed by seed.",
    ).with_(share=percent(SHARE, 0)),
    sabotage=Text("ni l’un ni l’autre n’a rien lu", "neither has read anything"),
    tiny="-",
    measure=measure,
    verdict=verdict,
    figures=figures,
    papers=["Radford et al. 2018", "Devlin et al. 2019, section 5.1"],
    remarks=[
        Text(
            "À pas égaux, le causal est interrogé sur tous les mots et le masqué sur un sur sept : la comparaison dépend de ce qu’on tient "
            "égal, et de la durée ; les modèles sont petits et lisent peu.",
            "At equal steps causal pre-training is asked about every word, masked about one in seven: the comparison depends on what is "
            "held equal, and on how long they read; the models are small, and read little.",
        ),
    ],
    choices=[
        Text(
            "La séparation entre l’affirmation et les contrôles date d’après les résultats : "
            "avant elle, les contrôles comptaient aussi, et l’affirmation était dite vérifiée en partie.",
            "Claim and controls were separated after the results had been seen: "
            "before, the controls counted too, and the claim was said to hold in part.",
        ),
        Text(
            "Textes, pas et taux d’apprentissage ont été choisis au vu d’essais à d’autres tailles ou avec d’autres graines, les limites "
            "avant ; c’est aussi depuis un essai que les gains décident, et non les réponses justes elles-mêmes, données à côté.",
            "Texts, steps and learning rates were chosen in view of trials at other sizes or with other seeds, the limits before; it is "
            "also since a trial that gains decide, and not the right answers themselves, which are given beside them.",
        ),
    ],
)
