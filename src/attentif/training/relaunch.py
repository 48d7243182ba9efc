"""A training restarted by torchrun or Slurm with the same command resumes the run that it began.

`launch.json` in a run's folder says by which launch it was begun: the job of Slurm, the id of torchrun, or the process of its agent.
"""

import json
import os
import socket
from pathlib import Path

from attentif.files import write_json
from attentif.training.rundir import RUNS, RunFolder

FILE = "launch.json"


def launch() -> dict[str, str] | None:
    """Identity of the launch, unchanged when the launcher restarts this process; None without a launcher."""
    if job := os.environ.get("SLURM_JOB_ID"):
        return {"slurm": job, "step": os.environ.get("SLURM_STEP_ID", "")}
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return None
    name = os.environ["TORCHELASTIC_RUN_ID"]
    return {"torchrun": name} if name != "none" else {"agent": f"{os.getppid()}@{socket.gethostname()}"}


def is_relaunched() -> bool:
    """Whether the launcher has started this command before."""
    return any(os.environ.get(name, "0") not in ("", "0") for name in ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT"))


def mark_launch(folder: Path) -> None:
    """Note in a new run which launch began it."""
    if (key := launch()) is not None:
        write_json(folder / FILE, key)


def find_begun(out: Path | None, name: str) -> RunFolder | None:
    """The run that this launch began before it was started again."""
    if not is_relaunched():
        return None
    for path in [out] if out is not None else sorted(RUNS.glob(f"{name}-*"), reverse=True):
        try:
            if json.loads((path / FILE).read_text(encoding="utf-8")) == launch():
                return RunFolder.open(path)
        except (OSError, ValueError):
            continue
    return None
