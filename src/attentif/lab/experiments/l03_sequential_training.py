"""L3: an RNN trains sequentially, a transformer in parallel.

    LSTM            s_t = cell(x_t, s_{t-1})              n steps, each of which waits for the one before
    attention       Y = softmax(QKᵀ/√d) V                 all places at once, whatever their number

How many operations wait for each other is a property of the computation, and is counted: the longest path through the graph that
training goes back along. What it costs is a property of the machine, and is timed. On thousands of cores the longest chain is the time; on
two, the time is the work, as long as a step keeps a core busy. So the same number of tokens is trained on as many short rows and as fewer,
longer ones: only the chain becomes longer, and attention's n² is what else changes.
"""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from attentif.lab.experiment import SECONDS, Experiment, Measurements, Settings, Verdict, at_least
from attentif.lab.seeds import over_rounds, seed_band
from attentif.lab.small import make_tick
from attentif.lab.timing import interleave
from attentif.nn.ffn import FeedForwardConfig
from attentif.nn.mixer import Site
from attentif.nn.mixers.attention import AttentionConfig
from attentif.nn.mixers.lstm import LSTM, LSTMConfig
from attentif.nn.seq import Seq
from attentif.tasks.base import Progress
from attentif.view.blocks import FigureBlock, Score
from attentif.view.figures import Axis, Band, banded_curves
from attentif.view.words import Text, count, with_decimals

WAITS = 1.0  # operations that a token more adds to a chain: at least one, if tokens wait for each other
SLOWER = 1.5  # times the transformer's seconds: a bottleneck, and not a matter of taste
DECIDES = 512  # tokens of a row from which seconds decide: shorter ones are mostly what a call costs at all
NAMES = {
    "lstm": Text("LSTM, noyau compilé", "LSTM, compiled kernel"),
    "transformer": Text("transformeur", "transformer"),
    "steps": Text("LSTM, pas à pas", "LSTM, a step at a time"),
}
Read = Callable[[Tensor], Tensor]  # (rows, n, width) to the same


class Transformer(nn.Module):
    """Attention and a feed-forward network of half the usual width: 8 d² weights, as many as an LSTM's."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attn = AttentionConfig(heads=4, causal=True).build(Site(width=width))
        self.ffn = FeedForwardConfig(hidden=2 * width).build(Site(width=width))

    def forward(self, x: Tensor) -> Tensor:
        seq = rows_of(x)
        x = x + self.attn(x, seq)
        return x + self.ffn(x, seq)


def rows_of(x: Tensor) -> Seq:
    return Seq.from_padded([x.shape[1]] * len(x))


def by_the_kernel(lstm: LSTM, x: Tensor) -> Tensor:
    return lstm(x, rows_of(x))


def step_by_step(lstm: LSTM, x: Tensor, *, forgetful: bool) -> Tensor:
    """The definition, as torch runs it. `forgetful`: each step begins anew."""
    begin: Sequence[Tensor] = [x.new_zeros(len(x), lstm.hidden)] * 2
    state = begin
    outputs = []
    for gates in lstm.x(x).unbind(1):
        state = lstm.step(gates, begin if forgetful else state)
        outputs.append(state[0])
    return torch.stack(outputs, 1)


def chain(y: Tensor) -> int:
    """Operations on the longest path back from y, each of which waits for the next."""
    longest: dict[object, int] = {None: 0}
    waiting = [y.grad_fn]
    while waiting:
        node = waiting[-1]
        before = [] if node is None else [parent for parent, _ in node.next_functions]
        if missing := [parent for parent in before if parent not in longest]:
            waiting += missing
            continue
        waiting.pop()
        longest[node] = 1 + max((longest[parent] for parent in before), default=0) if node is not None else 0
    return longest[y.grad_fn]


def train_step(read: Read, parameters: list[nn.Parameter], rows: int, length: int, width: int) -> Callable[[], None]:
    """Forward and backward over all tokens, once."""
    x = torch.randn(rows, length, width, generator=torch.Generator().manual_seed(0))

    def once() -> None:
        read(x).sum().backward()
        for parameter in parameters:
            parameter.grad = None

    return once


def measure(settings: Settings, progress: Progress) -> Measurements:
    lengths = settings.pick(tiny=[4, 16, 64], normal=[2**power for power in range(4, 12)], full=[2**power for power in range(4, 14)])
    width, repeats = settings.pick(tiny=16, normal=128, full=256), settings.pick(tiny=2, normal=5, full=9)
    torch.manual_seed(settings.seed)
    lstm, transformer = LSTM(LSTMConfig(), Site(width=width)), Transformer(width)
    steps = partial(step_by_step, lstm, forgetful=settings.without_effect)
    reads: dict[str, Read] = {
        "lstm": steps if settings.without_effect else partial(by_the_kernel, lstm),
        "steps": steps,
        "transformer": transformer,
    }
    chains = {name: [chain(reads[name](torch.randn(1, n, width))) for n in lengths] for name in ("steps", "transformer")}
    tokens, parameters = lengths[-1], [*lstm.parameters(), *transformer.parameters()]
    jobs = {(name, n): train_step(read, parameters, tokens // n, n, width) for n in lengths for name, read in reads.items()}
    tick = make_tick(progress, (repeats + 1) * len(jobs))
    timing = interleave(jobs, repeats, after=lambda _: tick())
    seconds = {name: [timing.seconds[name, n] for n in lengths] for name in reads}
    weights = {
        name: sum(weight.numel() for weight in module.parameters()) for name, module in (("lstm", lstm), ("transformer", transformer))
    }
    return {"lengths": lengths, "tokens": tokens, "width": width, "weights": weights, "chains": chains, SECONDS: seconds}


def ratio(found: Measurements, peer: str, place: int) -> Score:
    """Seconds of a peer over the transformer's: the median of the rounds, and their quartiles."""
    rounds = zip(found[SECONDS][peer][place], found[SECONDS]["transformer"][place], strict=True)
    return over_rounds([slow / fast for slow, fast in rounds])


def verdict(found: Measurements) -> Verdict:
    first, last = found["lengths"][0], found["lengths"][-1]
    added = {name: (chain[-1] - chain[0]) / (last - first) for name, chain in found["chains"].items()}
    chains = {name: chain[-1] for name, chain in found["chains"].items()}
    parts = [
        at_least(
            Text(
                f"de {first} à {last} jetons, chaque jeton allonge la chaîne d’opérations du LSTM de {{value}} de plus que celle du "
                f"transformeur",
                f"from {first} to {last} tokens, each adds {{value}} operations more to the LSTM’s chain than to the transformer’s",
            ),
            added["steps"] - added["transformer"],
            WAITS,
        )
    ]
    if last >= DECIDES:
        said = Text(
            f"sur une ligne de {last} jetons, le LSTM met {{value}} fois le temps du transformeur par jeton d’entraînement",
            f"on one row of {last} tokens the LSTM takes {{value}} times the transformer’s time for a token of training",
        )
        parts.append(at_least(said, ratio(found, "lstm", -1), SLOWER))
    slow = ratio(found, "steps", -1).value
    remark = Text(
        "À {n} jetons la chaîne compte {lstm} opérations pour le LSTM, {transformer} pour le transformeur. Exécuté pas à pas, comme le "
        "fait une machine dont chaque opération a un coût fixe, le LSTM met {slow} fois le temps du transformeur.",
        "At {n} tokens the chain has {lstm} operations for the LSTM, {transformer} for the transformer. Run a step at a time, as on a "
        "machine where each operation has a fixed cost, the LSTM takes {slow} times the transformer’s time.",
    ).with_(n=count(last), lstm=count(chains["steps"]), transformer=count(chains["transformer"]), slow=with_decimals(slow, 1))
    return Verdict(parts, remark)


def figures(found: Measurements) -> list[FigureBlock]:
    lengths, tokens = found["lengths"], found["tokens"]
    length = Axis(Text("longueur d’une ligne (jetons)", "length of a row (tokens)"), log=True, ticks=lengths)
    each = {name: [[1e6 * second / tokens for second in rounds] for rounds in found[SECONDS][name]] for name in NAMES}
    bands = [seed_band(words, lengths, each[name], over_rounds) for name, words in NAMES.items()]
    chains = [Band({"steps": Text("LSTM", "LSTM")}.get(name, NAMES[name]), lengths, counted) for name, counted in found["chains"].items()]
    return [
        FigureBlock(
            Text("La plus longue chaîne d’opérations", "The longest chain of operations"),
            partial(banded_curves, chains, length, Axis(Text("opérations à la suite", "operations in a row"), log=True)),
            Text("Comptées le long du graphe de la rétropropagation.", "Counted along the graph of backpropagation."),
        ),
        FigureBlock(
            Text("Temps d’entraînement par jeton", "Training time per token"),
            partial(banded_curves, bands, length, Axis(Text("microsecondes par jeton", "microseconds per token"), log=True)),
            Text(
                f"{tokens} jetons à chaque fois : beaucoup de lignes courtes à gauche, une seule longue à droite. La médiane des tours et "
                f"leurs quartiles.",
                f"{tokens} tokens each time: many short rows on the left, one long row on the right. The median of the rounds, and their "
                f"quartiles.",
            ),
        ),
    ]


EXPERIMENT = Experiment(
    number=3,
    title=Text("Un pas après l’autre, ou tous à la fois", "A step after the other, or all at once"),
    claim=Text(
        "un RNN s’entraîne pas à pas, ce qui le ralentit ; un transformeur en parallèle",
        "an RNN trains sequentially, which slows it down; a transformer trains in parallel",
    ),
    says={
        1: "les états h_t dépendent de h_{t-1}, ce qui empêche un entraînement parallèle ⇒ bottleneck en vitesse",
        2: "sequential processing preventing parallelization",
        3: "impossible de paralléliser",
    },
    method=Text(
        "Une couche de LSTM et un bloc de transformeur du même nombre de paramètres. La chaîne d’opérations qui s’attendent l’une "
        "l’autre est comptée. Le temps d’une passe d’entraînement est mesuré à nombre de jetons constant, en lignes de plus en plus "
        f"longues, les concurrents à tour de rôle ; il ne décide qu’à partir de {DECIDES} jetons par ligne, où il n’est plus fait du seul "
        "coût des appels.",
        "A layer of LSTM and a block of transformer with as many parameters. The chain of operations that wait for each other is counted. "
        "The time of a training pass is measured at a constant number of tokens, in longer and longer rows, the contestants taking turns; "
        f"it decides only from {DECIDES} tokens a row on, where it is more than what calls cost.",
    ),
    sabotage=Text(
        "chaque pas du LSTM repart de zéro : il n’attend plus le précédent",
        "each step of the LSTM begins anew: it waits for none before it",
    ),
    tiny="+",
    measure=measure,
    verdict=verdict,
    figures=figures,
    papers=["Vaswani et al. 2017, table 1", "Hochreiter & Schmidhuber 1997"],
    remarks=[
        Text(
            "La chaîne est une propriété du calcul, le temps celle d’une machine : avec deux cœurs et un noyau qui fait toute la boucle, "
            "attendre coûte peu ; avec des milliers de cœurs, c’est la chaîne qui fait le temps. Le n² de l’attention, lui, est du "
            "travail partout.",
            "The chain is a property of the computation, time one of the machine: with two cores and a kernel that does the whole loop, "
            "waiting costs little; with thousands of cores, the chain is the time. The n² of attention is work everywhere.",
        )
    ],
)
