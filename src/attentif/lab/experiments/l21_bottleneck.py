"""L21: attention is the bottleneck past 2,048 tokens, and padding makes it worse.

    attention       8 n d²  projections  +  4 n² d  scores and weighted sums
    feed-forward   16 n d²                                             they are equal at n = 2 d

So the length at which attention overtakes the feed-forward part is not a number but a multiple of the width. Operations are counted while
each sublayer runs (on paper, where weights are not needed), at the widths of three models that everybody knows; time is measured at one.

Padding: real rows are of many lengths. A batch padded to its longest row is compared with the same rows packed one after the other.
"""

from collections.abc import Callable
from functools import cache, partial

import numpy as np
import torch
from torch import Tensor

from attentif.data.builtin.stdlib import documents
from attentif.lab.experiment import SECONDS, Experiment, Measurements, Settings, Verdict, at_least, ratio_over_seeds
from attentif.lab.flops import Counting
from attentif.lab.profile.crossings import crossing, round_length
from attentif.lab.seeds import over_rounds, seed_band
from attentif.lab.small import make_tick
from attentif.lab.timing import interleave
from attentif.nn.ffn import FeedForward, FeedForwardConfig
from attentif.nn.init import on_meta_device
from attentif.nn.mixer import Mixer, Site
from attentif.nn.mixers.attention import Attention, AttentionConfig
from attentif.nn.seq import Seq
from attentif.tasks.base import Progress
from attentif.view.blocks import FigureBlock, Score
from attentif.view.figures import Axis, Band, banded_curves
from attentif.view.words import Text, Words, count, percent

SAID = 2048  # tokens, by the document
MODELS = {512: "Transformer base", 768: "BERT base, GPT-2", 4096: "LLaMA 7B"}  # by their width
OVERTAKES = 1.0  # attention's operations or seconds over the feed-forward network's
WASTES = 1.2  # operations of a padded batch over those of a packed one: a fifth for nothing
NEAR = 64  # tokens that see each other in the sabotaged variant
ROWS, LONGEST = 32, 512  # of a batch; longer ones are cut, as one does
SUBLAYERS = {"attention": Text("attention", "attention"), "feed-forward": Text("réseau feed-forward", "feed-forward network")}


def sublayers(width: int) -> dict[str, Mixer]:
    """As transformers have them: heads of 64, and a hidden layer four times as wide."""
    site = Site(width=width)
    return {
        "attention": Attention(AttentionConfig(heads=max(1, width // 64)), site),
        "feed-forward": FeedForward(FeedForwardConfig(), site),
    }


def one_row(length: int, width: int, device: str, *, cut: bool) -> tuple[Tensor, Seq]:
    """`cut`: into pieces of NEAR tokens, which do not see each other."""
    pieces = length // NEAR if cut else 1
    seq = Seq.from_padded([length // pieces] * pieces)
    return torch.zeros(pieces, length // pieces, width, device=device), seq.to(device)


def operations(mixer: Mixer, x: Tensor, seq: Seq) -> int:
    with torch.no_grad(), Counting() as counted:
        mixer(x, seq)
    return counted.total


@cache
def paragraphs() -> list[int]:
    """Words of the paragraphs of Python's standard library, as one reads them in a real corpus."""
    found = [len(paragraph.split()) for document in documents("test") for paragraph in document.text.split("\n\n")]
    return [min(words, LONGEST) for words in found if words]


def make_pass(mixers: dict[str, Mixer], lengths: list[int], width: int, *, packed: bool) -> Callable[[], int]:
    """A pass over the rows, one sublayer after the other: its operations."""
    seq = Seq.from_packed(lengths) if packed else Seq.from_padded(lengths)
    x = torch.zeros(*((sum(lengths),) if packed else (len(lengths), max(lengths))), width)
    return lambda: sum(operations(mixer, x, seq) for mixer in mixers.values())


def measure(settings: Settings, progress: Progress) -> Measurements:
    counted_at = [2**power for power in range(8, 16)]
    timed_at = settings.pick(tiny=[64, 128], normal=[256, 512, 1024, 2048, 4096], full=[2**power for power in range(8, 15)])
    width, padded_width = settings.pick(tiny=64, normal=512, full=768), settings.pick(tiny=32, normal=128, full=512)
    repeats, batches = settings.pick(tiny=2, normal=5, full=9), settings.seeds(tiny=3, normal=10, full=20)
    cut = settings.without_effect
    with on_meta_device():
        paper = {size: sublayers(size) for size in MODELS}
    counted = {
        name: {size: [operations(paper[size][name], *one_row(n, size, "meta", cut=cut)) for n in counted_at] for size in MODELS}
        for name in SUBLAYERS
    }
    torch.manual_seed(settings.seed)
    timed, narrow = sublayers(width), sublayers(padded_width)
    jobs = {
        (name, n): torch.no_grad()(partial(mixer, *one_row(n, width, "cpu", cut=cut))) for n in timed_at for name, mixer in timed.items()
    }
    tick = make_tick(progress, (repeats + 1) * len(jobs) + len(batches))
    timing = interleave(jobs, repeats, after=lambda _: tick())
    waste, fill = [], []
    for seed in batches:
        lengths = np.random.default_rng(seed).choice(paragraphs(), ROWS).tolist()
        lengths = [max(lengths)] * ROWS if cut else lengths
        waste.append(make_pass(narrow, lengths, padded_width, packed=False)() / make_pass(narrow, lengths, padded_width, packed=True)())
        fill.append(sum(lengths) / (ROWS * max(lengths)))
        tick()
    return {
        "lengths": counted_at,
        "operations": {name: {str(size): own for size, own in by_width.items()} for name, by_width in counted.items()},
        "timed": {"width": width, "lengths": timed_at},
        "padding": {"width": padded_width, "waste": waste, "fill": fill},
        SECONDS: {name: [timing.seconds[name, n] for n in timed_at] for name in SUBLAYERS},
    }


def share(found: Measurements, width: int) -> list[float]:
    """Attention's operations over the feed-forward network's, at each length."""
    attention, rest = (found["operations"][name][str(width)] for name in SUBLAYERS)
    return [one / other for one, other in zip(attention, rest, strict=True)]


def ratio_of_times(found: Measurements, length: int) -> Score:
    place = found["timed"]["lengths"].index(length)
    rounds = zip(*(found[SECONDS][name][place] for name in SUBLAYERS), strict=True)
    return over_rounds([attention / rest for attention, rest in rounds])


def verdict(found: Measurements) -> Verdict:
    at, timed, padding = found["lengths"].index(SAID), found["timed"], found["padding"]
    parts = [
        at_least(
            Text(
                f"à {SAID} jetons et d = {width} ({name}), l’attention compte {{value}} fois les opérations du feed-forward",
                f"at {SAID} tokens and d = {width} ({name}), attention has {{value}} times the feed-forward’s operations",
            ),
            share(found, width)[at],
            OVERTAKES,
        )
        for width, name in MODELS.items()
    ]
    if SAID in timed["lengths"]:
        said = Text(
            f"chronométrée à {SAID} jetons et d = {timed['width']}, elle met {{value}} fois le temps du feed-forward",
            f"timed at {SAID} tokens and d = {timed['width']}, it takes {{value}} times the feed-forward’s time",
        )
        parts.append(at_least(said, ratio_of_times(found, SAID), OVERTAKES))
    parts.append(
        at_least(
            Text(
                f"un lot de {ROWS} paragraphes complétés à la même longueur demande {{value}} fois les opérations du lot sans remplissage",
                f"a batch of {ROWS} paragraphs padded to one length takes {{value}} times the operations of the same rows packed",
            ),
            ratio_over_seeds(padding["waste"]),
            WASTES,
        )
    )
    return Verdict(parts, crossings(found))


def crossings(found: Measurements) -> Text | None:
    """Where the two were equally fast, where that was measured."""
    first, second = (dict(zip(found["timed"]["lengths"], found[SECONDS][name], strict=True)) for name in SUBLAYERS)
    met = crossing(("attention", "feed-forward"), first, second, "forward")
    if met is None or met.winner != "feed-forward" or met.since is None or SAID not in first:
        return None
    return Text(
        "À d = {d}, l’attention met plus de temps à partir d’environ {n} jetons (2 d = {twice}).",
        "At d = {d}, attention takes longer from about {n} tokens on (2 d = {twice}).",
    ).with_(d=count(found["timed"]["width"]), n=count(round_length(met.since)), twice=count(2 * found["timed"]["width"]))


def figures(found: Measurements) -> list[FigureBlock]:
    lengths, timed = found["lengths"], found["timed"]
    name = lambda width: Text(f"d = {width} ({MODELS[width]})", f"d = {width} ({MODELS[width]})")
    bands = [Band(name(width), lengths, share(found, width)) for width in MODELS]
    equal = Text("à égalité", "equal")
    times = Axis(Text("attention / feed-forward", "attention / feed-forward"), log=True, ticks=[0.5, 1, 2, 5, 10, 20])
    tokens = Axis(Text("n (jetons)", "n (tokens)"), log=True, ticks=lengths[::2])
    per_token = lambda side: [[1e6 * one / n for one in rounds] for n, rounds in zip(timed["lengths"], found[SECONDS][side], strict=True)]
    clocked = [seed_band(words, timed["lengths"], per_token(side), over_rounds) for side, words in SUBLAYERS.items()]
    return [
        FigureBlock(
            Text("Opérations de l’attention rapportées à celles du feed-forward", "Attention’s operations over the feed-forward’s"),
            partial(banded_curves, [*bands, Band(equal, [lengths[0], lengths[-1]], [1, 1], baseline=True)], tokens, times),
            Text("Chaque courbe passe par 1 à n = 2 d.", "Each curve passes through 1 at n = 2 d."),
        ),
        FigureBlock(
            Text(f"Temps par jeton à d = {timed['width']}", f"Time per token at d = {timed['width']}"),
            partial(
                banded_curves,
                clocked,
                Axis(tokens.title, log=True, ticks=timed["lengths"]),
                Axis(Text("microsecondes par jeton", "microseconds per token")),
            ),
            _fill(found),
        ),
    ]


def _fill(found: Measurements) -> Words:
    return Text(
        "La médiane des tours et leurs quartiles. Dans les lots complétés, {full} des places portent un jeton.",
        "The median of the rounds, and their quartiles. In the padded batches {full} of the places hold a token.",
    ).with_(full=percent(float(np.mean(found["padding"]["fill"])), 0))


EXPERIMENT = Experiment(
    number=21,
    title=Text("Où est le goulot d’étranglement", "Where the bottleneck is"),
    claim=Text(
        "au-delà de 2 048 jetons l’attention est le goulot d’étranglement, et le remplissage aggrave le coût",
        "past 2,048 tokens attention is the bottleneck, and padding makes it worse",
    ),
    says={
        1: "les Transformers standards deviennent inefficaces lorsque n est grand (> 2048). Les modèles LLM nécessitent souvent du padding "
        "et du masking, ce qui augmente encore le coût"
    },
    method=Text(
        "Les opérations d’une sous-couche d’attention et d’une sous-couche feed-forward sont comptées aux largeurs de trois modèles "
        "connus, leur temps est mesuré à l’une d’elles, à tour de rôle. Puis des paragraphes de la bibliothèque standard de Python, par "
        "lots tirés au hasard : complétés à la plus grande longueur, ou mis bout à bout.",
        "The operations of an attention sublayer and of a feed-forward sublayer are counted at the widths of three known models, their "
        "time is measured at one of them, in turns. Then paragraphs of Python’s standard library in batches drawn at random: padded to "
        "the longest, or packed one after the other.",
    ),
    sabotage=Text(
        f"l’attention ne voit que des morceaux de {NEAR} jetons, et toutes les lignes ont la même longueur",
        f"attention sees pieces of {NEAR} tokens only, and all rows are of one length",
    ),
    tiny="++..",
    measure=measure,
    verdict=verdict,
    figures=figures,
    papers=["Kaplan et al. 2020, table 1"],
    erratum=Text(
        "La longueur à laquelle l’attention dépasse le feed-forward est 2 d, deux fois la largeur : 1 024 jetons pour d = 512, 8 192 pour "
        "d = 4096.",
        "The length at which attention overtakes the feed-forward network is 2 d, twice the width: 1,024 tokens at d = 512, 8,192 at d = "
        "4096.",
    ),
    remarks=[
        Text(
            "Une attention causale qui saute ce qu’elle ne voit pas fait la moitié des 4 n² d : l’égalité est alors à n = 4 d. Des lots "
            "de lignes de longueurs voisines perdent peu, sans rien mettre bout à bout.",
            "A causal attention that skips what it does not see does half of the 4 n² d: they are then equal at n = 4 d. Batches of rows "
            "of similar length waste little, without any packing.",
        )
    ],
)
