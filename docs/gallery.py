"""Draws the gallery: `python docs/gallery.py` writes `docs/gallery.md` and its pictures, taken by a headless Chromium.

Each entry says what its numbers are: computed here from the models of Attentif, or made up to show the form.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import torch
from tokenizers import Tokenizer, models, trainers

from attentif import inspect
from attentif.models import Batch, Input, Model, build, resolve
from attentif.nn.position import SinusoidalConfig
from attentif.nn.seq import Seq
from attentif.nn.tape import record
from attentif.view import figures as draw
from attentif.view.blocks import Score
from attentif.view.figures.axes import LENGTH, SECONDS, TOKENS_READ, Axis
from attentif.view.words import Lang, Text, metric
from photograph import photograph

DOCS = Path(__file__).parent
PICTURES = DOCS / "images" / "gallery"
LANG: Lang = "en"
WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog", "and", "the", "dog", "sleeps", "on"]
MADE_UP = "Made-up numbers."
RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Entry:
    name: str  # of the picture, and of the function
    about: str
    data: str
    figure: Callable[[], go.Figure]


def model_of(base: str, **values: Any) -> Model:
    """A small model with fresh weights, for words numbered as they stand."""
    torch.manual_seed(0)
    vocab = {"vocab": len(WORDS)}
    return build(resolve({"base": base, "dropout": 0.0, "frontend": vocab} | values).with_any_size()).eval()


def sentence(length: int = len(WORDS)) -> Batch:
    ids = torch.arange(length)[None] % len(WORDS)
    return Batch(Input(ids, Seq.padded([length])))


def recorded(base: str) -> dict[str, np.ndarray[Any, Any]]:
    model = model_of(base)
    with torch.no_grad(), record(model) as tape:
        model.hidden(sentence())
    return {f"layer {path.split('.')[2]}": tape.maps(path)[0].numpy() for path in tape}


def seeds(name: str, start: float, floor: float) -> draw.Band:
    x = [2.0**n for n in range(10, 20)]
    middle = [floor + start * n**-0.3 for n in x]
    spread = [0.02 + 0.4 * n**-0.25 for n in x]
    return draw.Band(
        name, x, middle, [m - s for m, s in zip(middle, spread, strict=True)], [m + s for m, s in zip(middle, spread, strict=True)]
    )


def curves() -> go.Figure:
    bands = [seeds("lstm", 9, 1.2), seeds("transformer", 8.5, 0.95), seeds("mamba", 7.5, 1.0)]
    trigram = draw.Band("trigram", bands[0].x, [1.7] * 10, baseline=True)
    return draw.banded_curves([*bands, trigram], TOKENS_READ.logarithmic(), Axis.of(metric("loss")), lang=LANG)


SYSTEMS = {"rnn": (3, 0.80), "gru": (8, 0.85), "lstm": (10, 0.86), "mamba": (12, 0.905), "performer": (14, 0.84), "transformer": (20, 0.91)}


def estimates() -> go.Figure:
    rows = [
        draw.Estimate(name, Score(value, value - 0.018, value + 0.018), [value - 0.012, value, value + 0.012], stressed=value > 0.9)
        for name, (_, value) in sorted(SYSTEMS.items(), key=lambda one: -one[1][1])
    ]
    return draw.intervals(rows, Axis.of(metric("accuracy")), lang=LANG)


def front() -> go.Figure:
    choices = [
        draw.Choice(name, Score(cost, 0.9 * cost, 1.1 * cost), Score(v, v - 0.018, v + 0.018)) for name, (cost, v) in SYSTEMS.items()
    ]
    return draw.pareto(choices, SECONDS.logarithmic(), Axis.of(metric("accuracy")), lang=LANG)


def growth() -> go.Figure:
    """The training times of `docs/profile.json`, as `attentif profile` measured them."""
    data = json.loads((DOCS / "profile.json").read_text(encoding="utf-8"))
    fits = {fit["subject"]: fit for fit in data["fits"] if fit["phase"] == "training" and fit["quantity"] == "seconds"}
    series = []
    for name in data["subjects"]:
        points = [
            (point["length"], Score(point["median"]))
            for point in data["points"]
            if point["subject"] == name and point["phase"] == "training"
        ]
        law = fits.get(name)
        series.append(draw.Growth(name, points, law and draw.Law(law["law"]["factor"], law["law"]["exponent"], *law["lengths"])))
    return draw.scaling(series, LENGTH.logarithmic(data["settings"]["lengths"]), SECONDS, lang=LANG)


def distances() -> go.Figure:
    found = {}
    for name, base in (("rnn", "rnn-tiny"), ("lstm", "lstm-tiny"), ("transformer", "decoder-tiny"), ("mamba", "mamba-tiny")):
        norms = inspect.gradient_by_distance(model_of(base, layers=2, width=64), sentence(64), probes=8)[0]
        found[name] = norms.tolist()
    return draw.gradient_by_distance(found, lang=LANG)


def flow() -> go.Figure:
    """What the weights of each block get at the first step, normalised before or after."""
    lines: dict[Text, list[float]] = {}
    paths: list[str] = []
    loss = lambda model, batch: torch.nn.functional.cross_entropy(model(batch)[0][0, :-1], batch.source.data[0, 1:], reduction="sum")
    for name, placement in ((Text("norme avant", "norm before"), "pre"), (Text("norme après", "norm after"), "post")):
        model = model_of("decoder-tiny", layers=8, decoder={"placement": placement})
        norms = inspect.gradient_norms(model, loss(model, sentence()))
        paths = [path for path in norms if ".blocks." in path]
        lines[name] = [norms[path] for path in paths]
    return draw.gradient_flow([path.removeprefix("decoder.blocks.") for path in paths], lines, lang=LANG)


def opened() -> go.Figure:
    gates = inspect.gates(model_of("lstm-tiny", layers=1), sentence())
    own = next(iter(gates.values()))
    named = {Text("entrée", "input"): "input", Text("oubli", "forget"): "forget", Text("sortie", "output"): "output"}
    return draw.gates_over_time(WORDS, {name: own[key][0] for name, key in named.items()}, lang=LANG)


def routed() -> go.Figure:
    found = next(iter(inspect.routing(model_of("mixtral-tiny", layers=2), sentence()).values()))
    return draw.token_routing(WORDS, found.chosen, found.weights, found.logits.shape[1], lang=LANG)


def shared() -> go.Figure:
    found = inspect.routing(model_of("mixtral-tiny", layers=4), sentence(512))
    return draw.expert_shares({path.split(".")[2]: one.shares.tolist() for path, one in found.items()}, lang=LANG)


def merges() -> go.Figure:
    text = ["low lower lowest new newer newest wide wider widest slow slower slowest"] * 4
    tokenizer = Tokenizer(models.BPE())
    tokenizer.train_from_iterator((word for line in text for word in line.split()), trainers.BpeTrainer(vocab_size=40, show_progress=False))
    learned = [(left, right) for left, right in json.loads(tokenizer.to_str())["model"]["merges"]]
    return draw.bpe_merges(draw.merge_steps("slowest", learned), lang=LANG)


def beam() -> go.Figure:
    tree = [
        draw.Hypothesis("the", None, -0.6, chosen=True),
        draw.Hypothesis("a", None, -1.1),
        draw.Hypothesis("cat", 0, -1.9, chosen=True),
        draw.Hypothesis("dog", 0, -2.0),
        draw.Hypothesis("cat", 1, -2.6, kept=False),
        draw.Hypothesis("small", 1, -2.7, kept=False),
        draw.Hypothesis("sleeps", 2, -2.5, chosen=True),
        draw.Hypothesis("is", 2, -3.4, kept=False),
        draw.Hypothesis("barks", 3, -2.8),
        draw.Hypothesis("sleeps", 3, -3.3, kept=False),
    ]
    return draw.beam_tree(tree, lang=LANG)


def errors() -> go.Figure:
    steps = np.arange(1, 41)
    lines = {"trained on the truth alone": 0.95**steps, "trained on its own text too": 0.965**steps}
    return draw.error_accumulation(lines, error=0.03, lang=LANG)


def words() -> go.Figure:
    centres = {"animals": (3, 0), "places": (-2, 2), "verbs": (-1, -3)}
    names = {
        "animals": ["cat", "dog", "fox", "horse"],
        "places": ["Paris", "Lyon", "Rome", "Nice"],
        "verbs": ["runs", "sleeps", "jumps", "eats"],
    }
    mix = RNG.normal(size=(2, 16))
    vectors = [np.asarray(centres[group]) @ mix + 2.5 * RNG.normal(size=16) for group in names for _ in names[group]]
    labels = [word for group in names.values() for word in group]
    return draw.embedding_projection(vectors, labels, [group for group in names for _ in names[group]], lang=LANG)


def positions() -> torch.Tensor:
    return SinusoidalConfig().build(64)(torch.arange(64)[None], torch.float32)[0].detach()


def aligned() -> go.Figure:
    target, source = ["j'", "ai", "un", "chat", "."], ["I", "have", "a", "cat", "today", "."]
    weights = RNG.dirichlet(np.ones(6), 5) * 0.3 + 0.7 * np.eye(5, 6)[:, [0, 1, 2, 3, 5, 4]]
    return draw.alignment(weights, target, source, lang=LANG)


def honest() -> go.Figure:
    announced = RNG.beta(4, 1.5, 800)
    return draw.calibration(draw.reliability(announced, RNG.random(800) < announced**1.4), lang=LANG)


def confused() -> go.Figure:
    return draw.confusion_matrix([[46, 3, 1], [4, 40, 6], [0, 5, 45]], ["bad", "fair", "good"], lang=LANG)


def one_head() -> go.Figure:
    return draw.attention_map(recorded("decoder-tiny")["layer 0"][0], WORDS, lang=LANG)


FRESH = "Computed here: a small model with fresh weights."
HERE = "Computed here."
PROFILED = "Measured by `attentif profile`: [profile.md](profile.md)."
ENTRIES = (
    Entry("banded_curves", "Curves with bands: several seeds of each model, a baseline dotted.", MADE_UP, curves),
    Entry("intervals", "Intervals by model: the mean, its interval, each seed as a tick below.", MADE_UP, estimates),
    Entry("pareto", "Quality against cost: the systems that no other beats at both, joined.", MADE_UP, front),
    Entry("scaling", "Training time against length with the fitted power laws.", PROFILED, growth),
    Entry("attention_map", "One head: the row's token looks at the column's.", FRESH, one_head),
    Entry("alignment", "Which source tokens each target token was written from.", MADE_UP, aligned),
    Entry("head_grid", "Every head of every layer at a glance.", FRESH, lambda: draw.head_grid(recorded("decoder-tiny"), lang=LANG)),
    Entry(
        "gradient_by_distance",
        "What earlier tokens still weigh in the last vector: a straight line is exponential decay.",
        FRESH,
        distances,
    ),
    Entry("gradient_flow", "The gradient of each sublayer's weights, normalised before or after.", FRESH, flow),
    Entry("gates_over_time", "The gates of an LSTM, token after token: the median unit and the middle half.", FRESH, opened),
    Entry(
        "position_encodings",
        "Sinusoidal encodings: a row a position, a column a component.",
        HERE,
        lambda: draw.position_encodings(positions()),
    ),
    Entry("position_similarity", "How alike the encodings of two positions are.", HERE, lambda: draw.position_similarity(positions())),
    Entry("token_routing", "Which experts each token goes to.", FRESH, routed),
    Entry("expert_shares", "How evenly the experts of each layer are used.", FRESH, shared),
    Entry("embedding_projection", "Vectors on their two principal components.", MADE_UP, words),
    Entry("bpe_merges", "How byte-pair encoding puts a word together.", "Computed here: merges learned from a dozen words.", merges),
    Entry("beam_tree", "A beam search: what was tried, kept, given up, and the answer.", MADE_UP, beam),
    Entry("error_accumulation", "Errors that add up when a model follows its own text.", MADE_UP, errors),
    Entry("confusion_matrix", "What a classifier takes for what.", MADE_UP, confused),
    Entry("calibration", "Whether it knows when it is right.", MADE_UP, honest),
)


def page() -> str:
    lines = [
        "# Gallery of figures",
        "",
        'Every figure is a function of `attentif.view.figures` from plain numbers to a plotly figure, in French or English (`lang="fr"`):',
        "reports, notebooks and pages use the same ones. Colours are those of Okabe & Ito; symbols and dashes tell series apart too;",
        "pages redraw them for dark screens. This page and its pictures are written by `python docs/gallery.py`.",
        "",
    ]
    for entry in ENTRIES:
        lines += [f"## `{entry.name}`", "", f"{entry.about} *{entry.data}*", "", f"![{entry.about}](images/gallery/{entry.name}.png)", ""]
    return "\n".join(lines)


def main() -> None:
    photograph({entry.name: entry.figure() for entry in ENTRIES}, PICTURES)
    (DOCS / "gallery.md").write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
