"""`attentif export`: a run as a folder or file that other programs load."""

from pathlib import Path
from typing import Annotated

import typer

from attentif.cli.out import say
from attentif.errors import UsageError

FORMATS = ("hf", "gguf", "onnx")


def export(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder.", show_default=False)],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Output folder (hf, onnx) or file (gguf).", show_default=False)],
    to: Annotated[
        str,
        typer.Option("--to", metavar="FORMAT", help="hf: Hugging Face folder; gguf: file for llama.cpp; onnx: graph for onnxruntime."),
    ] = "hf",
    family: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="hf: model_type to write; by default the one that represents the model."),
    ] = None,
    stored: Annotated[str, typer.Option("--type", metavar="TYPE", help="gguf: type of the weights: f32, f16, q8_0.")] = "f16",
    network_alone: Annotated[
        bool, typer.Option("--network-alone", help="hf, onnx: leave out the linear model of words; scores the network alone.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing export.")] = False,
) -> None:
    """Write a run as a Hugging Face folder, GGUF or ONNX.

    transformers loads the folder as it is: weights, configuration, tokenizer, model card. llama.cpp opens the file, tokenizer and chat
    template included. onnxruntime runs the graph, calibration included, beside its tokenizer and labels. An imported model is exported
    unchanged; one that was trained here is exported if the format can represent it, and otherwise the error names what it cannot. The
    export appears complete or not at all.

    For example: attentif export runs/camembert-allocine-1 --to hf avis-hf
    """
    if to not in FORMATS:
        raise UsageError(f"--to: {to!r} is not understood; there is {', '.join(FORMATS)}")
    from attentif.api import export_model, export_to_gguf, export_to_onnx

    if to != "hf" and family is not None:
        raise UsageError("--family: is for --to hf")
    if to == "gguf":
        if network_alone:
            raise UsageError("--network-alone: is for --to hf and --to onnx")
        found = export_to_gguf(run, out, stored=stored, force=force)
    elif to == "onnx":
        found = export_to_onnx(run, out, network_alone=network_alone, force=force, say=say)
    else:
        found = export_model(run, out, family=family, network_alone=network_alone, force=force, say=say)
    say(f"{found.architecture} ({found.family}) written to:")
    print(found.path)
    if found.caveat:
        say(
            f"note: {found.caveat}"
            if network_alone or to == "onnx"
            else f"note: the export holds the network alone; in the run, {found.caveat}"
        )
