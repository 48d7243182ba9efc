"""Give a run more steps than it was started with."""

from collections.abc import Sequence
from pathlib import Path

from attentif.config import Document, Layer, read_toml, to_toml
from attentif.errors import RunError, UsageError
from attentif.files import write_text
from attentif.tasks.base import Say
from attentif.training.config import RunConfig
from attentif.training.rundir import RunFolder

LENGTHS = ("epochs", "steps", "minutes", "patience")


def lengthen_run(path: Path, changes: Sequence[Layer], say: Say) -> None:
    """Change the length of a run; a finished one is reopened and resumes from its last checkpoint."""
    for layer in changes:
        if {*layer.values} != {"train"} or not {*layer.values["train"]} <= {*LENGTHS}:
            keys = ", ".join(f"train.{key}" for key in LENGTHS)
            raise UsageError(f"{layer.name}: with --resume only the length of a run can change: {keys}", code="not-a-length")
    folder = RunFolder.open(path)
    if next(folder.checkpoints().sound(), None) is None:
        raise RunError("has no checkpoint to resume from (a finished ensemble keeps none)", file=path, code="no-checkpoint")
    config = Document([read_toml(folder.config), *changes]).build(RunConfig)
    with folder.writing():
        folder.unseal()
        folder.results.unlink(missing_ok=True)
        write_text(folder.config, to_toml(config))
    say("length changed; the learning-rate schedule follows the new length, so that the rate may rise again")
