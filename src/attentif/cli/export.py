"""`attentif export`: a run as a folder or file that other programs load."""

from pathlib import Path
from typing import Annotated

import typer

from attentif.cli.out import say
from attentif.errors import UsageError

FORMATS = ("hf", "gguf")


def export(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder.", show_default=False)],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Output folder (hf) or file (gguf).", show_default=False)],
    to: Annotated[str, typer.Option("--to", metavar="FORMAT", help="hf: Hugging Face folder; gguf: file for llama.cpp.")] = "hf",
    family: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="hf: model_type to write; by default the one that represents the model."),
    ] = None,
    stored: Annotated[str, typer.Option("--type", metavar="TYPE", help="gguf: type of the weights: f32, f16, q8_0.")] = "f16",
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing export.")] = False,
) -> None:
    """Write a run as a Hugging Face folder, or as a GGUF file.

    transformers loads the folder as it is: weights, configuration, tokenizer, model card. llama.cpp opens the file, tokenizer and chat
    template included. An imported model is exported unchanged; one that was trained here is exported if the format can represent it,
    and otherwise the error names what it cannot. The export appears complete or not at all.

    For example: attentif export runs/camembert-allocine-1 --to hf avis-hf
    """
    if to not in FORMATS:
        raise UsageError(f"--to: {to!r} is not understood; there is {', '.join(FORMATS)}")
    from attentif.api import export_model, export_to_gguf

    if to == "gguf":
        if family is not None:
            raise UsageError("--family: is for --to hf")
        found = export_to_gguf(run, out, stored=stored, force=force)
    else:
        found = export_model(run, out, family=family, force=force)
    say(f"{found.architecture} ({found.family}) written to:")
    print(found.path)
    if found.caveat:
        say(f"note: the export holds the network alone; in the run, {found.caveat}")
