"""`attentif import`: a Hugging Face model or a GGUF file as a run."""

from pathlib import Path
from typing import Annotated

import typer

from attentif.cli.options import Replace
from attentif.cli.out import say


def import_(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A Hugging Face folder, a model's name there (org/name, org/name@revision), or a GGUF file.",
            show_default=False,
        ),
    ],
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of the new run.", show_default=False)],
    force: Replace = False,
) -> None:
    """Import a Hugging Face model or a GGUF file as a run.

    It predicts as transformers does, and every command accepts it. Reads config.json, safetensors (whole or in shards), the tokenizer in
    any of its forms and generation_config.json. No code from the folder is executed: remote code and pickled weights are refused. The task
    is that of the model's head; `attentif train RECIPE model.from=RUN` fine-tunes it for another. Names are looked up in the cache of
    huggingface_hub first, then downloaded. The weights of a GGUF file become float32.

    For example: attentif import camembert-base/ runs/camembert && attentif fill runs/camembert "Le <mask> est bleu."
    """
    from attentif.api import import_model

    found = import_model(source, run, force=force, say=say)
    say("imported to:")
    print(found)
