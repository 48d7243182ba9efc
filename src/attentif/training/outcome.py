"""What came out of a run: `results.json`, `report.html`, `README.md`."""

from dataclasses import dataclass
from typing import Any

import torch

from attentif.config import to_toml
from attentif.models import Model
from attentif.tasks.task import Baseline, Evaluation, Prepared, Task
from attentif.training.config import MadeConfig, RunConfig
from attentif.training.learning import learning
from attentif.training.machine import peak_memory
from attentif.training.rundir import RunFolder
from attentif.training.train_state import TrainState
from attentif.view.blocks import Contender
from attentif.view.report import Cost, Origin, Outcome, RunReport
from attentif.view.words import LANGS, Text, count, metric, number, say

ENDED = {
    "steps": Text("le nombre de pas demandé a été atteint", "the number of steps asked for was reached"),
    "epochs": Text("le nombre de passages demandé a été atteint", "the number of epochs asked for was reached"),
    "min_steps": Text("le nombre de pas que demandent de petites données a été atteint", "the steps that small data need were reached"),
    "minutes": Text("le temps accordé était écoulé", "the time allowed was over"),
    "patience": Text("la validation ne progressait plus", "validation had stopped improving"),
}


@dataclass(frozen=True)
class Trained:
    """A run whose training is over, with its scores."""

    config: RunConfig
    task: Task
    model: Model
    prepared: Prepared
    place: TrainState
    test: Evaluation
    valid: Evaluation
    baselines: list[Baseline]

    @property
    def made(self) -> MadeConfig:
        assert self.config.made is not None
        return self.config.made

    def cost(self) -> dict[str, Any]:
        device = next(self.model.parameters()).device
        return {
            "seconds": self.place.seconds,
            "tokens": self.place.tokens,
            "peak_memory": torch.cuda.max_memory_allocated(device) if device.type == "cuda" else peak_memory(),
            "parameters": self.model.sizes(),
            "learning": learning(self.model),
            "device": device.type,
            "threads": torch.get_num_threads(),
        }

    def results(self) -> dict[str, Any]:
        """Everything measured, as plain data."""
        test = self.test
        return {
            "recipe": self.made.recipe,
            "task": self.config.task.kind,
            "metric": self.task.metric,
            "split": test.split,
            "trained_on": len(self.prepared.train),
            "examples": test.examples,
            "scores": test.scores,
            "intervals": test.intervals,
            "valid": self.valid.scores,
            "baselines": [rival(baseline) for baseline in self.baselines],
            "steps": self.place.step,
            "ended": self.place.ended,
            "best_step": self.place.best_step if self.config.train.patience else self.place.step,
            "cost": self.cost(),
            "details": test.details,
        }

    def report(self, folder: RunFolder) -> RunReport:
        maps = self.task.maps(self.model, self.prepared.tokenizers, self.task.examples(self.prepared))
        rivals = [Contender(baseline.name, baseline.measured()) for baseline in self.baselines]
        test = self.test
        versions = {"attentif": self.made.attentif, "python": self.made.python, "torch": self.made.torch}
        return RunReport(
            title=self.made.recipe,
            done=self.done(),
            outcome=Outcome(self.task.metric, test.measured(), rivals, test.split, test.examples),
            history=folder.metrics.rows(),
            cost=Cost(**self.cost()),
            origin=Origin(self.made.recipe, to_toml(self.config), versions, self.prepared.notes),
            sections=self.task.sections(test),
            maps=maps,
        )

    def done(self) -> list[Text]:
        """What was done, in two sentences."""
        model = self.config.model.base or Text("un modèle de sa configuration", "a model of its own configuration")
        if (members := self.config.model.members) > 1:
            model = Text("la moyenne de {n} réseaux {model}", "the mean of {n} networks {model}").with_(n=str(members), model=model)
        trained = Text(
            "Tâche : {task}. Modèle : {model}, {parameters} paramètres, appris sur {train} {unit}, choisi sur {valid}, jugé sur {test}.",
            "Task: {task}. Model: {model}, {parameters} parameters, trained on {train} {unit}, chosen on {valid}, scored on {test}.",
        ).with_(
            task=self.config.task.kind,
            model=model,
            parameters=count(sum(self.model.sizes().values())),
            unit=self.task.unit,
            train=count(len(self.prepared.train)),
            valid=count(len(self.prepared.valid)),
            test=count(len(self.prepared.test)),
        )
        lengthened = self.place.ended == "epochs" and self.place.step == self.config.train.min_steps
        why = ENDED["min_steps" if lengthened else self.place.ended]
        ended = Text("{steps} pas, {epochs} passages sur les données ; {why}.", "{steps} steps, {epochs} passes over the data; {why}.")
        return [trained, ended.with_(steps=count(self.place.step), epochs=number(self.place.epochs, 3), why=why)]


def rival(baseline: Baseline) -> dict[str, Any]:
    """A baseline in `results.json`."""
    name = {lang: say(baseline.name, lang) for lang in LANGS}
    return {"name": name, "scores": baseline.scores, "intervals": baseline.intervals, "seconds": baseline.seconds}


def readme(folder: RunFolder, config: RunConfig, trained: Trained | None = None) -> str:
    """What the folder is and what to do with it."""
    assert config.made is not None
    name = folder.path
    score = f"not finished: go on with `attentif train --resume {name}`"
    if trained is not None:
        of = metric(trained.task.metric)
        value = of.write(trained.test.scores[of.key]).en
        caveat = trained.task.caveat(trained.model)
        note = f" ({caveat})" if caveat else ""
        score = f"finished: {of.name.en} {value} on {trained.test.examples:,} {trained.test.split} examples{note}"
    use = "generate" if config.task.kind == "language" else "predict"
    weights, beside = ("model.safetensors", "")
    if config.adapt is not None:
        weights, beside = "adapter.safetensors", f" beside the weights of `{config.model.from_}`, which it needs"
    return f"""# {name.name}

A run of `{config.made.recipe}` (task `{config.task.kind}`, model `{config.model.base or "own"}`), Attentif {config.made.attentif}.
It is {score}.

- `report.html`: what came out, against what, and why (in French and English, works offline); `results.json`: the same for machines
- `config.toml`: the whole configuration; `attentif train {name / "config.toml"}` trains it again
- `{weights}`, `tokenizer.json`: the model{beside}; `attentif {use} {name} "..."` uses it
- `metrics.jsonl`: losses and scores on the way; `checkpoints/`: where training can go on
"""
