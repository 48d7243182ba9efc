"""`attentif merge`: adapters and their base as one plain run."""

from attentif.cli.options import NewRun, OwnRun, Replace
from attentif.cli.out import say


def merge(run: OwnRun, out: NewRun, force: Replace = False) -> None:
    """Merge LoRA adapters into their base model.

    The new run no longer needs the base run.

    For example: attentif merge runs/reviews-2 runs/reviews-merged
    """
    from attentif.plugin import load_installed
    from attentif.training.rewrite import merge_run

    load_installed()
    folder = merge_run(run, out, force=force)
    say("adapters and base merged in:")
    print(folder.path)
