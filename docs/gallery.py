"""Draws the gallery: `python docs/gallery.py` writes `docs/gallery.md` and its pictures, taken by a headless Chromium.

Trained models are those of two comparisons, which have to be there: `attentif compare four-memories` and `attentif compare ten-models`.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import torch
from photograph import photograph
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import train_test_split
from tokenizers import Tokenizer, models, trainers

import attentif
from attentif import inspect
from attentif.data.builtin import numbers
from attentif.decode import GenerateOptions, search_trees
from attentif.models import Batch, Input, Model, build, resolve
from attentif.nn.position import SinusoidalConfig
from attentif.nn.seq import Seq
from attentif.view import comparison_figures as compared
from attentif.view import figures as draw
from attentif.view.blocks import Block, FigureBlock, Score
from attentif.view.figures.axes import LENGTH, SECONDS
from attentif.view.words import Lang, Text

DOCS = Path(__file__).parent
PICTURES = DOCS / "images" / "gallery"
LANG: Lang = "en"
WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog", "and", "the", "dog", "sleeps", "on"]
RUNS = DOCS.parent / "runs"
FOUR, TEN = "four-memories", "ten-models"
KEYS = "k1 v2 k3 v4 k5 v6 k7 v8 k3 v4 k7 v8 k1 v2"
CODE = "class Reader:\n    def __init__(self, path):\n        self.path = path\n        self.lines = "


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
    return Batch(Input(ids, Seq.from_padded([length])))


@cache
def part_of(suite: str, recipe: str) -> dict[str, Any]:
    """One comparison of a suite, as `attentif compare` wrote it."""
    data = json.loads((RUNS / f"{suite}-compare" / "compare.json").read_text(encoding="utf-8"))
    return next(part for part in data["comparisons"] if part["name"] == recipe)


@cache
def run_of(suite: str, recipe: str, model: str) -> Any:
    """The run of a suite's model with the first seed."""
    run = next(run for run in part_of(suite, recipe)["runs"] if run["model"] == model)
    return attentif.load(RUNS / f"{suite}-compare" / run["run"])


def figure_of(blocks: Callable[[dict[str, Any]], list[Block]], suite: str, recipe: str) -> go.Figure:
    """The first of the figures that a report has of a comparison."""
    return next(block for block in blocks(part_of(suite, recipe)) if isinstance(block, FigureBlock)).draw(lang=LANG)


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


def code(model: str, text: str = CODE) -> tuple[Any, Batch, list[str]]:
    """A model that was trained on Python's library, a piece of code as it reads it, and its tokens."""
    run = run_of(TEN, "stdlib", model)
    ids = run.tokenizer.encode(text, wrap="none").ids
    return run.model, inspect.make_batch([ids]), [run.token_name(token) for token in ids]


def draw_gates() -> go.Figure:
    model, batch, tokens = code("lstm-tiny")
    own = next(iter(inspect.gates(model, batch).values()))
    named = {Text("entrée", "input"): "input", Text("oubli", "forget"): "forget", Text("sortie", "output"): "output"}
    return draw.gates_over_time(tokens, {name: own[key][0] for name, key in named.items()}, lang=LANG)


def draw_routing() -> go.Figure:
    model, batch, tokens = code("mixtral-tiny")
    found = next(iter(inspect.routing(model, batch).values()))
    return draw.token_routing(tokens, found.chosen, found.weights, found.logits.shape[1], lang=LANG)


def draw_shares() -> go.Figure:
    model, batch, _ = code("mixtral-tiny", Path(json.__file__).read_text(encoding="utf-8"))
    found = inspect.routing(model, batch)
    return draw.expert_shares({path.split(".")[2]: one.shares.tolist() for path, one in found.items()}, lang=LANG)


def merges() -> go.Figure:
    text = ["low lower lowest new newer newest wide wider widest slow slower slowest"] * 4
    tokenizer = Tokenizer(models.BPE())
    tokenizer.train_from_iterator((word for line in text for word in line.split()), trainers.BpeTrainer(vocab_size=40, show_progress=False))
    learned = [(left, right) for left, right in json.loads(tokenizer.to_str())["model"]["merges"]]
    return draw.bpe_merges(draw.merge_steps("slowest", learned), lang=LANG)


def beam() -> go.Figure:
    run = run_of(TEN, "stdlib", "decoder-tiny")
    prompt = run.task.prompt(run.tokenizers, "        if not isinstance(")
    (search,) = search_trees(run.model, [prompt], GenerateOptions(max_tokens=6, beams=2), tree=True)
    return draw.beam_tree(draw.hypotheses_of(search, run.token_name), lang=LANG)


def count_agreeing(own: list[str], truth: list[str]) -> int:
    """Words until the first that differs."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(own, truth, strict=False)))


def errors() -> go.Figure:
    """Of numbers that were kept apart, the share that is right up to each word."""
    test = numbers.load(0)["test"]
    asked, references = test["source"][:500], [text.split() for text in test["target"][:500]]
    longest = max(map(len, references))
    lines, risks = {}, {}
    for model in ("transformer-tiny", "sutskever-2014-tiny"):
        written = [text.split() for text in run_of(FOUR, "numbers", model).translate(asked)]
        right = [longest if own == truth else count_agreeing(own, truth) for own, truth in zip(written, references, strict=True)]
        lines[model] = [sum(words > place for words in right) / len(right) for place in range(longest)]
        wrong = sum(words < longest for words in right)
        risks[model] = wrong / (wrong + sum(min(words, len(truth)) for words, truth in zip(right, references, strict=True)))
    return draw.error_accumulation(lines, error=risks["transformer-tiny"], lang=LANG)


def vectors() -> go.Figure:
    """What the encoder of a translation reads for the words of numbers."""
    run = run_of(FOUR, "numbers", "transformer-tiny")
    groups = {
        Text("unités", "units"): ["deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf"],
        Text("dizaines", "tens"): ["vingt", "trente", "quarante", "cinquante", "soixante"],
        Text("puissances", "powers"): ["cent", "mille"],
    }
    words = [word for group in groups.values() for word in group]
    table = run.model.frontend.tokens.weight.detach().numpy()
    rows = [table[run.tokenizer.encode(f" {word}", wrap="none").ids[0]] for word in words]
    return draw.embedding_projection(rows, words, [name for name, group in groups.items() for _ in group], lang=LANG)


def positions() -> torch.Tensor:
    return SinusoidalConfig().build(64)(torch.arange(64)[None], torch.float32)[0].detach()


def draw_alignment() -> go.Figure:
    (shown,) = run_of(FOUR, "numbers", "luong-2015-dot-tiny").maps("deux mille trois cent quarante-sept").maps
    return draw.alignment(next(iter(shown.weights.values()))[0], shown.rows, shown.keys, lang=LANG)


@cache
def compute_maps() -> Any:
    """The maps of an attention model that recalls values by their keys."""
    return run_of(FOUR, "recall", "decoder-tiny").maps(KEYS).maps[0]


def one_head() -> go.Figure:
    return draw.attention_map(compute_maps().weights["decoder 2 attn"][1], compute_maps().rows, lang=LANG)


@cache
def classify_digits() -> tuple[Any, Any]:
    """Probabilities and classes of a third of scikit-learn's digits, by a logistic regression of the others."""
    x, others, y, classes = train_test_split(*load_digits(return_X_y=True), test_size=1 / 3, random_state=0)
    return LogisticRegression(C=1e-4, max_iter=1000).fit(x, y).predict_proba(others), classes


def honest() -> go.Figure:
    p, classes = classify_digits()
    return draw.calibration(draw.reliability(p.max(1), p.argmax(1) == classes), lang=LANG)


def draw_confusion() -> go.Figure:
    p, classes = classify_digits()
    return draw.confusion_matrix(confusion_matrix(classes, p.argmax(1)), [str(digit) for digit in range(10)], lang=LANG)


FRESH = "Computed here: a small model with fresh weights."
HERE = "Computed here."
PROFILED = "Measured by `attentif profile`: [profile.md](profile.md)."
FOUR_MODELS = "Measured by `attentif compare four-memories`: [four-memories.md](four-memories.md)."
TEN_MODELS = "Measured by `attentif compare ten-models`: [ten-models.md](ten-models.md)."
RECALL = "A decoder of [four-memories.md](four-memories.md) that finds values by their keys."
PYTHON = "A model of [ten-models.md](ten-models.md) that read Python for a minute."
NUMBERS = "A translator of numbers of [four-memories.md](four-memories.md)."
DIGITS = "A logistic regression, held back on purpose, on a third of scikit-learn's digits."
ENTRIES = (
    Entry(
        "banded_curves", "Curves with bands: several seeds of each model.", FOUR_MODELS, lambda: figure_of(compared.curves, FOUR, "numbers")
    ),
    Entry(
        "intervals",
        "Intervals by model: the mean, its interval, each seed as a tick below; baselines in grey.",
        TEN_MODELS,
        lambda: figure_of(compared.quality, TEN, "reviews"),
    ),
    Entry(
        "pareto",
        "Quality against cost: the systems that no other beats at both, joined.",
        TEN_MODELS,
        lambda: figure_of(compared.costs, TEN, "stdlib"),
    ),
    Entry("scaling", "Training time against length with the fitted power laws.", PROFILED, growth),
    Entry("attention_map", "One head: the row's token looks at the column's.", RECALL, one_head),
    Entry("alignment", "Which source tokens each target token was written from.", NUMBERS, draw_alignment),
    Entry("head_grid", "Every head of every layer at a glance.", RECALL, lambda: draw.head_grid(compute_maps().weights, lang=LANG)),
    Entry(
        "gradient_by_distance",
        "What earlier tokens still weigh in the last vector: a straight line is exponential decay.",
        FRESH,
        distances,
    ),
    Entry("gradient_flow", "The gradient of each sublayer's weights, normalised before or after.", FRESH, flow),
    Entry("gates_over_time", "The gates of an LSTM, token after token: the median unit and the middle half.", PYTHON, draw_gates),
    Entry(
        "position_encodings",
        "Sinusoidal encodings: a row a position, a column a component.",
        HERE,
        lambda: draw.position_encodings(positions()),
    ),
    Entry("position_similarity", "How alike the encodings of two positions are.", HERE, lambda: draw.position_similarity(positions())),
    Entry("token_routing", "Which experts each token goes to.", PYTHON, draw_routing),
    Entry("expert_shares", "How evenly the experts of each layer are used.", PYTHON, draw_shares),
    Entry("embedding_projection", "Vectors on their two principal components.", NUMBERS, vectors),
    Entry("bpe_merges", "How byte-pair encoding puts a word together.", "Computed here: merges learned from a dozen words.", merges),
    Entry("beam_tree", "A beam search: what was tried, kept, given up, and the answer.", PYTHON, beam),
    Entry("error_accumulation", "Errors that add up when a model follows its own text.", NUMBERS, errors),
    Entry("confusion_matrix", "What a classifier takes for what.", DIGITS, draw_confusion),
    Entry("calibration", "Whether it knows when it is right.", DIGITS, honest),
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
