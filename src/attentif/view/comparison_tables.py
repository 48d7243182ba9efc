"""The numbers of a comparison as tables, from `compare.json` alone."""

from collections.abc import Collection, Mapping
from typing import Any

from attentif.view.blocks import Block, Cell, Paragraph, TableBlock
from attentif.view.figures.scores import format_score
from attentif.view.verdict import Part, lower_is_better, rank_models, score_of
from attentif.view.words import Number, Text, Words, big, count, duration, metric, percent, size


def seeds_of(part: Part, model: str) -> list[float]:
    values = [run["scores"].get(part["metric"]) for run in part["runs"] if run["model"] == model and run["scores"]]
    return [value for value in values if value is not None]


def rows_of(part: Part) -> list[dict[str, Any]]:
    """A row a model, the best first, as plain numbers."""
    order = [*rank_models(part), *(m["name"] for m in part["models"] if m["name"] not in part["statistics"]["scores"])]
    models = {model["name"]: model for model in part["models"]}
    rows = []
    for name in order:
        model, score = models[name], part["statistics"]["scores"].get(name, {})
        timing = model.get("timing") or {}
        decoding = timing.get("decoding") or {}
        rows.append(
            {
                "model": name,
                part["metric"]: score.get("value"),
                "low": score.get("low"),
                "high": score.get("high"),
                "runs": score.get("runs", 0),
                "lr": model["lr"],
                "parameters": model["parameters"],
                "with_embeddings": model["parameters"] + model["embedding_parameters"],
                "flops_per_token": model["flops_per_token"],
                "seconds": timing.get("seconds"),
                "tokens_per_second": timing.get("tokens_per_second"),
                "peak_memory": timing.get("peak_memory"),
                "decoding_tokens_per_second": decoding.get("tokens_per_second"),
                "state_bytes": model["state_bytes"],
            }
        )
    return rows


COLUMNS: list[tuple[str, Text]] = [
    ("lr", Text("taux", "rate")),
    ("parameters", Text("paramètres", "parameters")),
    ("with_embeddings", Text("avec plongements", "with embeddings")),
    ("flops_per_token", Text("FLOP/jeton", "FLOPs/token")),
    ("seconds", Text("durée", "time")),
    ("tokens_per_second", Text("jetons/s", "tokens/s")),
    ("peak_memory", Text("mémoire", "memory")),
    ("decoding_tokens_per_second", Text("écriture, jetons/s", "writing, tokens/s")),
    ("state_bytes", Text("état", "state")),
]

WRITTEN = {
    "lr": lambda value: rate_words(value),
    "seconds": duration,
    "peak_memory": size,
    "state_bytes": size,
    "flops_per_token": lambda value: big(value),
}

ALL = tuple(dict(COLUMNS))

SIZE = ("lr", "parameters", "with_embeddings", "flops_per_token")


def cost_table(part: Part, only: Collection[str] = ALL, *, score: bool = True) -> TableBlock:
    """Quality and cost, best first; empty columns are left out."""
    of, rows = metric(part["metric"]), rows_of(part)
    shown = [(key, name) for key, name in COLUMNS if key in only and any(row[key] is not None for row in rows)]
    cells: list[list[Cell]] = []
    for row in rows:
        reached: Cell = None if row[of.key] is None else format_score(score_of(part, row["model"]), of)
        cells.append([row["model"], *([reached] if score else []), *(_format_cell(key, row[key]) for key, _ in shown)])
    return TableBlock([Text("modèle", "model"), *([of.title] if score else []), *(name for _, name in shown)], cells, strong={0})


def quality_table(part: Part) -> TableBlock:
    return cost_table(part, SIZE)


def _format_cell(key: str, value: float | None) -> Cell:
    if value is None:
        return None
    return WRITTEN.get(key, lambda found: count(round(found)))(value)


def rate_words(rate: float) -> Number:
    """0.003"""
    return Number(f"{rate:g}".replace(".", ","), f"{rate:g}")


def rates(part: Part) -> list[Block]:
    """The search, trial by trial."""
    search = part["search"]
    if search is None:
        return []
    of = metric(search["metric"])
    about = Text(
        "Sur la validation ({metric}) après {share} d’un apprentissage, graine {seed}. {kept}",
        "On validation ({metric}) after {share} of a training run, seed {seed}. {kept}",
    ).with_(
        metric=lower_is_better(of),
        share=percent(search["share"], 0),
        seed=count(search["seed"]),
        kept=KEPT_BY_LOSS if of.key == "loss" else KEPT,
    )
    heads: list[Words] = [Text("modèle", "model"), *(rate_words(rate) for rate in search["rates"]), Text("retenu", "kept")]
    rows: list[list[Cell]] = []
    for name, chosen in search["chosen"].items():
        own = {trial["lr"]: trial for trial in search["trials"] if trial["model"] == name and trial.get("warmup") is None}
        cells = [_trial(own.get(rate), of) for rate in search["rates"]]
        rows.append([name, *cells, None if chosen is None else rate_words(chosen)])
    return [Paragraph(about), TableBlock(heads, rows), *_warmups(search, of)]


def _warmups(search: Mapping[str, Any], of: Any) -> list[Block]:
    """The warm-ups that were tried at the rate kept, where some were."""
    tried = sorted({trial["warmup"] for trial in search["trials"] if trial.get("warmup") is not None})
    if not tried:
        return []
    recipe = Text("celui de la recette", "the recipe’s")
    rows: list[list[Cell]] = []
    for name, rate in search["chosen"].items():
        own = {trial.get("warmup"): trial for trial in search["trials"] if trial["model"] == name and trial["lr"] == rate}
        kept = search["warmups"].get(name)
        cells = [_trial(own.get(warmup), of) for warmup in (None, *tried)]
        rows.append([name, *cells, recipe if kept is None else percent(kept, 0)])
    about = Text(
        "Échauffement (part de l’apprentissage où le taux monte), essayé de même au taux retenu.",
        "Warm-up (share of the run during which the rate rises), tried in the same way at the rate kept.",
    )
    heads: list[Words] = [Text("modèle", "model"), recipe, *(percent(warmup, 0) for warmup in tried), Text("retenu", "kept")]
    return [Paragraph(about), TableBlock(heads, rows)]


KEPT = Text("Le taux retenu est le meilleur de la ligne.", "The rate kept is the best of its row.")
KEPT_BY_LOSS = Text(
    "Le taux retenu est celui de la perte la plus basse de la ligne ; à moins de 1 % près, le plus petit.",
    "The rate kept is that of the lowest loss of its row; of losses within 1% of each other, the smallest rate.",
)


def _trial(trial: Mapping[str, Any] | None, of: Any) -> Cell:
    if trial is None:
        return None
    return Text("échec", "failed") if trial["score"] is None else of.write(trial["score"])


def sizes_table(part: Part) -> TableBlock:
    """What the budget made of each model."""
    heads: list[Words] = [
        Text("modèle", "model"),
        Text("changé", "changed"),
        Text("paramètres", "parameters"),
        Text("avec plongements", "with embeddings"),
        Text("FLOP/jeton", "FLOPs/token"),
    ]
    budget = part["budget"]
    if budget is not None:
        heads.append(Text("écart au budget", "distance from the budget"))
    rows: list[list[Cell]] = []
    for model in part["models"]:
        settled = {key: value for key, value in model["changed"].items() if value or not key.startswith("train.")}  # 0: a limit that is off
        changed = ", ".join(f"{key} = {value:g}" if isinstance(value, float) else f"{key} = {value}" for key, value in settled.items())
        active = model["active_parameters"]
        own = count(model["parameters"])
        if active != model["parameters"]:
            own = Number(f"{own.fr} (actifs : {count(active).fr})", f"{own.en} (active: {count(active).en})")
        both = count(model["parameters"] + model["embedding_parameters"])
        row: list[Cell] = [
            model["name"],
            changed.replace("model.", "") or Text("rien", "nothing"),
            own,
            both,
            big(model["flops_per_token"]),
        ]
        if budget is not None:
            row.append(None if model["error"] is None else format_signed(model["error"]))
        rows.append(row)
    return TableBlock(heads, rows)


def format_signed(share: float) -> Number:
    value = percent(share)
    return value if share < 0 else Number(f"+{value.fr}", f"+{value.en}")
