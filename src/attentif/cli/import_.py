"""`attentif import`: somebody else's model as a run."""

from pathlib import Path
from typing import Annotated

import typer

from attentif.cli.options import Replace
from attentif.cli.out import say


def import_(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="A Hugging Face folder, or a model's name there: org/name, org/name@revision.", show_default=False
        ),
    ],
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Where the run goes.", show_default=False)],
    force: Replace = False,
) -> None:
    """Make a run of a Hugging Face model.

    It answers as transformers would, and every command takes it. Reads config.json, safetensors (whole or in shards), the tokenizer in
    any of its forms and generation_config.json. Nothing in the folder is run: remote code and pickled weights are refused. The task is
    that of the model's head; `attentif train RECIPE model.from=RUN` trains it for another. Names are looked up in the cache of
    huggingface_hub first, then downloaded.

    For example: attentif import camembert-base/ runs/camembert && attentif fill runs/camembert "Le <mask> est bleu."
    """
    from attentif.api import import_model

    found = import_model(source, run, force=force, say=say)
    say("imported to:")
    print(found)
