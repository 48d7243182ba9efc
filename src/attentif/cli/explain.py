"""`attentif explain`: attributions of a prediction."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from attentif.cli.options import Device, Force, Json, RunPath, Threads
from attentif.cli.out import check_out, print_json, print_table, say
from attentif.french import localize, pick

SHOWN = 12  # patches of a picture, or segments of a signal


def explain(
    run: RunPath,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Text, or image file.", show_default=False)],
    neighbours: Annotated[int, typer.Option(metavar="N", min=0, help="Number of nearest training rows.")] = 5,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write an HTML page to this file.")] = None,
    force: Force = False,
    json: Json = False,
    device: Device = "auto",
    threads: Threads = 0,
) -> None:
    """Explain a prediction word by word.

    `without` is the drop in probability when the word is removed, `gradient` is gradient times input; the two measures need
    not agree. Positive values support the answer. Images are explained by patches, signals by segments.

    For example: attentif explain runs/reviews-1 "Pas mal du tout, ce film !"
    """
    check_out(out, force)
    from attentif.api import load
    from attentif.training.progress import display

    loaded, watch = load(run, device=device, threads=threads), display(machine=json)
    try:
        found = loaded.explain(text, neighbours=neighbours, progress=lambda done, total: watch.work("neighbours", done, total))
    finally:
        watch.close()
    if out is not None:
        found.save(out)
        say(f"written to {out}")
    if json:
        print_json(asdict(found))
        return
    if out is not None:
        return
    sure = "" if found.probability is None else f" ({localize(f'{found.probability:.1%}')})"
    parts = found.parts
    if parts and all(part.gradient is None for part in parts):  # patches and segments: not read in their order, as words are
        parts = sorted(parts, key=lambda part: -abs(part.removal))[:SHOWN]
    rows = [["-" if part.gradient is None else f"{part.gradient:+.3f}", f"{part.removal:+.3f}", part.name] for part in parts]
    columns = [pick("gradient", "gradient"), pick("sans lui", "without"), pick("partie", "part")]
    print_table(columns, rows, title=f"{found.output}{sure}")
    if len(parts) < len(found.parts):
        say(f"the {len(parts)} parts that matter most of {len(found.parts)}; --out FILE.html draws them all")
    if found.neighbours:
        near = [[f"{one.similarity:.3f}", one.label, one.text, one.place] for one in found.neighbours]
        columns = [pick("cosinus", "cosine"), pick("étiquette", "label"), pick("texte", "text"), pick("où", "where")]
        print_table(columns, near, title=pick("les plus proches dans l’entraînement", "nearest in training"))
