"""`attentif export`: a run as a folder that other programs load."""

from pathlib import Path
from typing import Annotated

import typer

from attentif.cli.out import say
from attentif.errors import UsageError

FORMATS = ("hf",)


def export(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder.", show_default=False)],
    out: Annotated[Path, typer.Argument(metavar="DIR", help="Where the new folder goes.", show_default=False)],
    to: Annotated[str, typer.Option("--to", metavar="FORMAT", help="hf: a Hugging Face folder.")] = "hf",
    family: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The model_type to write; by default the one that can say all of the model."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the Hugging Face folder that is there.")] = False,
) -> None:
    """Write a run as a Hugging Face folder.

    transformers loads it as it is: weights, configuration, tokenizer, model card. An imported model comes back as it came; one that was
    trained here is written where a family has the words for all of it, and otherwise one line says what it cannot say. The folder appears
    whole or not at all.

    For example: attentif export runs/camembert-allocine-1 --to hf avis-hf
    """
    if to not in FORMATS:
        raise UsageError(f"--to: {to!r} is not understood; there is {', '.join(FORMATS)}")
    from attentif.api import export_model

    found = export_model(run, out, family=family, force=force)
    say(f"{found.architecture} ({found.family}) written to:")
    print(found.path)
