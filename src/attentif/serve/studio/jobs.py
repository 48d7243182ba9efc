"""Trainings that a page starts: processes of their own, which go on when the tab, or the studio, is closed.

A job is the command that a user would type. Its run folder says how far it is (`metrics.jsonl`); stopping it (SIGTERM) saves a
checkpoint, and resuming is `attentif train --resume`.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from attentif.data.readers import Tolerance, open_reader
from attentif.errors import UsageError
from attentif.french import Lang
from attentif.recipes import recipe_layer
from attentif.serve.studio.messages import TrainRequest
from attentif.training.rundir import RunFolder

LOG = "studio.log"
LINES = 40  # of a job's output
MOST_JOBS = 2  # at once
KINDS = (".csv", ".tsv", ".jsonl", ".json", ".parquet", ".txt", ".gz", ".conll")
SAMPLE, MOST_FILES, MOST_LETTERS = 6, 200, 300


@dataclass
class StudioJob:
    """One training."""

    run: str  # id of its run
    command: list[str]
    process: subprocess.Popen[bytes]

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None


class Jobs:
    """Starts, stops and resumes trainings in one folder of runs, on files of one data folder."""

    def __init__(self, runs: Path, data: Path | None = None) -> None:
        self.runs, self.data = runs, data
        self.jobs: dict[str, StudioJob] = {}
        self.lock = threading.Lock()

    def files(self) -> list[Path]:
        """Files that may be trained on: those of the opened folder, never a path that a page gives."""
        if self.data is None:
            return []
        found = (path for path in sorted(self.data.iterdir()) if path.is_file() and path.suffix.lower() in KINDS)
        return [path for _, path in zip(range(MOST_FILES), found, strict=False)]

    def file(self, number: int) -> Path:
        files = self.files()
        if number >= len(files):
            raise UsageError("there is no such file in the folder that the studio was opened with (--data)")
        return files[number]

    def preview(self, number: int) -> dict[str, list[str] | list[list[str]]]:
        """Columns and first rows of a file."""
        reader = open_reader(self.file(number), Tolerance())
        columns = list(reader.columns)
        rows = [[_shorten(value) for value in values] for _, (_, values) in zip(range(SAMPLE), reader.rows(columns), strict=False)]
        return {"columns": columns, "rows": rows}

    def command(self, asked: TrainRequest, out: Path) -> list[str]:
        """What a user would type for this."""
        words = ["train", asked.recipe, "--out", str(out)]
        words += [] if asked.file is None else ["--data", str(self.file(asked.file))]
        words += [] if asked.model is None else [f"model.base={asked.model}"]
        if "fit" in recipe_layer(asked.recipe).values:  # counted or fitted at once: there are no steps to limit
            return words
        return [*words, f"train.minutes={asked.minutes:g}", "train.follow=true"]

    def start(self, asked: TrainRequest, lang: Lang = "en") -> StudioJob:
        with self.lock:
            self._refuse_crowd()
            out = self._place(asked.name or asked.recipe)
            return self._launch(out.name, self.command(asked, out), lang)

    def resume(self, id: str, path: Path, lang: Lang = "en") -> StudioJob:
        with self.lock:
            self._refuse_crowd()
            if (job := self.jobs.get(id)) is not None and job.is_running:
                raise UsageError(f"{id} is being trained already")
            if RunFolder(path).finished:
                raise UsageError(f"{id} is finished")
            return self._launch(id, ["train", "--resume", str(path)], lang)

    def measure(self, name: str, lang: Lang = "en") -> StudioJob:
        """Run an experiment of the laboratory; its page lies beside the runs."""
        with self.lock:
            id = f"lab-{name}"
            if (job := self.jobs.get(id)) is not None and job.is_running:
                return job
            self._refuse_crowd()
            self.runs.mkdir(parents=True, exist_ok=True)
            return self._launch(id, ["lab", name, "--out", str(self.lab)], lang)

    @property
    def lab(self) -> Path:
        return self.runs / "lab"

    def list_measured(self) -> list[str]:
        """Experiments whose pages are there."""
        return sorted(path.stem for path in self.lab.glob("L*.html"))

    def read_last_lines(self, id: str) -> list[str]:
        """The last lines that a job wrote."""
        log = self.runs / f".{id}.{LOG}"
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else []
        return [line for line in lines if line.strip()][-LINES:]

    def stop(self, id: str) -> None:
        """Ask a training to save itself and end. SIGINT would be ignored where a shell started the studio in the background."""
        job = self.jobs.get(id)
        if job is None or not job.is_running:
            raise UsageError(f"no training of {id} was started here, or it has ended")
        with contextlib.suppress(ProcessLookupError):
            job.process.send_signal(signal.SIGTERM)

    def estimate(self, asked: TrainRequest, lang: Lang = "en") -> str:
        """What `--dry-run` says."""
        words = [*self.command(asked, self._place(asked.name or asked.recipe)), "--dry-run"]
        environment = _environment(lang) | {"COLUMNS": "100"}
        done = subprocess.run(_attentif(words), capture_output=True, text=True, timeout=120, check=False, env=environment)
        if done.returncode:
            said = done.stderr.strip().splitlines()
            raise UsageError(re.sub(r"^(error|erreur\s?): ", "", said[-1]) if said else "the estimate failed")
        return f"{done.stderr.strip()}\n{done.stdout}"

    def _place(self, name: str) -> Path:
        number = 1
        while (path := self.runs / f"{name}-{number}").exists() or path.name in self.jobs:
            number += 1
        return path

    def _refuse_crowd(self) -> None:
        if sum(job.is_running for job in self.jobs.values()) >= MOST_JOBS:
            raise UsageError(f"{MOST_JOBS} trainings run already: stop one, or wait")

    def _launch(self, id: str, words: Sequence[str], lang: Lang) -> StudioJob:
        self.runs.mkdir(parents=True, exist_ok=True)
        with (self.runs / f".{id}.{LOG}").open("wb") as log:
            process = subprocess.Popen(
                _attentif(words),
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env=_environment(lang),
            )
        self.jobs[id] = StudioJob(id, ["attentif", *words], process)
        return self.jobs[id]


def _shorten(value: str) -> str:
    return value if len(value) <= MOST_LETTERS else f"{value[:MOST_LETTERS].rstrip()} …"


def _attentif(words: Sequence[str]) -> list[str]:
    return [sys.executable, "-P", "-m", "attentif", *words]


def _environment(lang: Lang) -> dict[str, str]:
    """That of a job, which speaks the language of the page."""
    return {**os.environ, "NO_COLOR": "1", "ATTENTIF_LANG": lang}
