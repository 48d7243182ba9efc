"""A job of a comparison in its own process: `python -m attentif.lab.compare.worker`.

The first line of stdin is the job, as JSON; end of file on stdin means that the parent died, and ends this process at once. Lines of
JSON on stdout report progress and finally the result or the error.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from attentif.errors import AttentifError, RunError

EVERY = 0.5  # seconds between two lines about progress
PATIENCE = 20.0  # seconds for a process that was killed to let go of its run


class PipeDisplay:
    """The display of a run, as lines for the parent."""

    def __init__(self, out: TextIO) -> None:
        self.out, self.last = out, 0.0

    def send(self, **message: Any) -> None:
        print(json.dumps(message), file=self.out, flush=True)

    def say(self, line: str) -> None:
        """What a run says of its data and its scores is in its folder: of many runs side by side it would only be noise."""

    def show(self, status: Any) -> None:
        self._send_now_and_then(done=status.step, total=status.total, words=status.words())

    def work(self, what: str, done: int, total: int) -> None:
        self._send_now_and_then(done=done, total=total, words=what)

    def wait(self, doing: str, seconds: float) -> None: ...

    def _send_now_and_then(self, **message: Any) -> None:
        if time.monotonic() - self.last >= EVERY:
            self.last = time.monotonic()
            self.send(**message)

    def close(self) -> None: ...


def train(work: dict[str, Any], display: PipeDisplay, *, trial: bool = False) -> None:
    """Start the run, or go on with it; a trial is judged on validation alone."""
    from attentif.training.run import resume
    from attentif.training.run import train as start

    folder = Path(work["folder"])
    if (folder / "config.toml").is_file():
        _wait_for(folder)
        resume(folder, trial=trial, display=display)
    else:
        start(_config(work), name=work["name"], out=folder, trial=trial, display=display)


def baselines(work: dict[str, Any], display: PipeDisplay) -> list[dict[str, Any]]:
    """The simple systems of the task, on the data of the comparison."""
    from attentif.training.outcome import baseline_record
    from attentif.training.run import check_backbone, check_config, choose_tokenizers, configure

    config = _config(work)
    task, model = check_config(config)
    text = choose_tokenizers(config, check_backbone(config, model))
    with configure(config.train):
        prepared = task.prepare(config.data, text, model, display.say)
        return [baseline_record(baseline) for baseline in task.baselines(prepared, display.say)]


def decode(work: dict[str, Any], _: PipeDisplay) -> dict[str, Any] | None:
    """How fast a trained model writes."""
    from attentif.lab.compare.decoding import decoding_speed

    return decoding_speed(Path(work["folder"]), threads=work["threads"])


JOBS: dict[str, Callable[[dict[str, Any], PipeDisplay], Any]] = {
    "train": train,
    "trial": partial(train, trial=True),
    "baselines": baselines,
    "decode": decode,
}


def _config(work: dict[str, Any]) -> Any:
    import tomllib

    from attentif.config import Document, Layer
    from attentif.training.config import RunConfig

    return Document([Layer(tomllib.loads(work["config"]), work["name"])]).build(RunConfig)


def _wait_for(folder: Path) -> None:
    """A run whose writer was killed a moment ago is free soon."""
    from attentif.training.lock import Lock

    patience = time.monotonic() + PATIENCE
    while True:
        try:
            with Lock(folder / "lock"):
                return
        except RunError:
            if time.monotonic() > patience:
                raise
            time.sleep(0.1)


def _live_with_parent() -> None:
    """Files are whole or not there at any moment, so leaving at once is safe."""
    sys.stdin.buffer.read()
    os._exit(1)


def main() -> int:
    out, sys.stdout = sys.stdout, sys.stderr  # whatever prints must not speak in between
    display = PipeDisplay(out)
    work = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_live_with_parent, daemon=True).start()
    try:
        from attentif.plugin import load_installed, load_plugin

        load_installed()
        for plugin in work["plugins"]:
            load_plugin(plugin)
        display.send(result=JOBS[work["kind"]](work, display))
    except AttentifError as error:
        display.send(error=str(error))
        return error.exit_code
    except Exception as error:
        words = " ".join(f"{type(error).__name__}: {error}".split())
        if isinstance(error, MemoryError) or "memory" in words.lower():
            words = f"there is not enough memory; try a smaller train.batch_tokens or a smaller model ({words[:120]})"
        display.send(error=words, fault=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
