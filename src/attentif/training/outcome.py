"""Results of a run: `results.json`, `report.html`, `README.md`."""

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, replace
from datetime import date
from typing import Any

import torch

from attentif.config import to_toml
from attentif.data.in_memory import is_frame
from attentif.tasks.answers import Baseline, Evaluation
from attentif.tasks.base import AnyBaseTask, AnyPrepared, AnyTask
from attentif.tasks.predictors import Trainable
from attentif.training.config import FitConfig, MadeConfig, RunConfig
from attentif.training.machine import peak_memory
from attentif.training.rundir import RunFolder
from attentif.training.train_state import TrainState
from attentif.training.trainable import count_trainable
from attentif.view.blocks import Contender
from attentif.view.diagram import draw_architecture
from attentif.view.report import Cost, Origin, RunReport, SplitScores
from attentif.view.words import LANGS, Text, count, day, metric, number, say

ENDED = {
    "steps": Text("le nombre de pas demandé a été atteint", "the number of steps asked for was reached"),
    "epochs": Text("le nombre de passages demandé a été atteint", "the number of epochs asked for was reached"),
    "min_steps": Text("le nombre de pas que demandent de petites données a été atteint", "the steps that small data need were reached"),
    "minutes": Text("le temps accordé était écoulé", "the time allowed was over"),
    "patience": Text("la validation ne progressait plus", "validation had stopped improving"),
}


@dataclass(frozen=True, kw_only=True)
class FinishedRun(ABC):
    """A finished run, trained or fitted, with its scores."""

    config: RunConfig | FitConfig
    task: AnyBaseTask
    model: Any
    prepared: AnyPrepared
    test: Evaluation
    valid: Evaluation
    baselines: list[Baseline]

    @abstractmethod
    def cost(self) -> dict[str, Any]:
        """Seconds, tokens, memory, parameters."""

    @abstractmethod
    def length(self) -> dict[str, Any]:
        """Number of steps, and why the run ended."""

    @abstractmethod
    def describe(self) -> list[Text]:
        """Summary in one or two sentences."""

    @property
    def made(self) -> MadeConfig:
        assert self.config.made is not None
        return self.config.made

    @property
    def metric(self) -> str:
        return self.task.metric_for(self.prepared.state)

    @property
    def scored_unit(self) -> Text:
        return self.task.scored_unit or self.task.unit

    def results(self) -> dict[str, Any]:
        """Everything measured, as plain data."""
        test = self.test
        return {
            "recipe": self.made.recipe,
            "task": self.task.config.kind,
            "metric": self.metric,
            "split": test.split,
            "trained_on": len(self.prepared.train),
            "examples": test.examples,
            "unit": asdict(self.scored_unit),
            "scores": test.scores,
            "intervals": test.intervals,
            "valid": self.valid.scores,
            "baselines": [baseline_record(baseline) for baseline in self.baselines],
            **self.length(),
            "cost": self.cost(),
            "details": test.details,
        }

    def report(self, folder: RunFolder) -> RunReport:
        rivals = [Contender(baseline.name, baseline.with_intervals()) for baseline in self.baselines]
        test, made = self.test, self.made
        versions = {"attentif": made.attentif, "python": made.python, "torch": made.torch}
        return RunReport(
            title=self.title(),
            done=self.describe(),
            outcome=SplitScores(self.metric, test.with_intervals(), rivals, test.split, test.examples, self.scored_unit),
            history=folder.metrics.rows(),
            cost=Cost(**self.cost()),
            origin=Origin(made.recipe, to_toml(self.config), versions, self.prepared.notes),
            sections=self.task.sections(replace(test, baselines=self.baselines)),
        )

    def title(self) -> Text:
        """Recipe, data, score and date: "classify · avis.csv · accuracy 97.3% · 1 May 2026"."""
        of = metric(self.metric)
        score = Text("{name} {value}", "{name} {value}").with_(name=of.name, value=of.write(self.test.scores[of.key]))
        parts = [Text(self.subject(), self.subject()), score, day(date.today())]
        return Text(*(" · ".join(part[lang] for part in parts) for lang in LANGS))

    def subject(self) -> str:
        """The recipe, and the data where they have a name and another one."""
        data, recipe = self.config.data, self.made.recipe
        files = data.files("train") if not data.name else []
        named = data.name or (files[0].name if len(files) == 1 and not is_frame(files[0]) else "")
        return f"{recipe} · {named}" if named and named != recipe else recipe

    def describe_score(self) -> str:
        """ "accuracy 97.3% on 2,000 test examples" """
        of = metric(self.metric)
        caveat = self.task.caveat(self.model, self.prepared.state)
        value = of.write(self.test.scores[of.key]).en
        return f"{of.name.en} {value} on {self.test.examples:,} {self.test.split} {self.scored_unit.en}" + (
            f" ({caveat})" if caveat else ""
        )


@dataclass(frozen=True, kw_only=True)
class TrainingResult(FinishedRun):
    """A run that was trained step by step."""

    config: RunConfig
    task: AnyTask
    model: Trainable
    train_state: TrainState

    def cost(self) -> dict[str, Any]:
        device = next(self.model.parameters()).device
        return {
            "seconds": self.train_state.seconds,
            "tokens": self.train_state.tokens,
            "peak_memory": torch.cuda.max_memory_allocated(device) if device.type == "cuda" else peak_memory(),
            "parameters": self.model.sizes(),
            "learning": count_trainable(self.model),
            "device": device.type,
            "threads": torch.get_num_threads(),
        }

    def length(self) -> dict[str, Any]:
        state = self.train_state
        return {"steps": state.step, "ended": state.ended, "best_step": state.best_step if self.config.train.patience else state.step}

    def report(self, folder: RunFolder) -> RunReport:
        maps = self.task.maps(self.model, self.prepared.state, self.prepared.tokenizers, self.task.examples(self.prepared))
        return replace(super().report(folder), maps=maps, architecture=draw_architecture(self.config.model))

    def describe(self) -> list[Text]:
        """Summary in two sentences."""
        model = self.config.model.base or Text("un modèle de sa configuration", "a model of its own configuration")
        if (networks := self.config.train.ensemble) > 1:
            model = Text("la moyenne de {n} réseaux {model}", "the mean of {n} networks {model}").with_(n=str(networks), model=model)
        trained = Text(
            "Tâche : {task}. Modèle : {model}, {parameters} paramètres, appris sur {train} {unit}, choisi sur {valid}, jugé sur {test}.",
            "Task: {task}. Model: {model}, {parameters} parameters, trained on {train} {unit}, chosen on {valid}, scored on {test}.",
        ).with_(
            task=self.config.task.kind,
            model=model,
            parameters=count(sum(self.model.sizes().values())),
            unit=self.task.unit,
            train=count(self.task.count(self.prepared.train)),
            valid=count(self.task.count(self.prepared.valid)),
            test=count(self.task.count(self.prepared.test)),
        )
        lengthened = self.train_state.ended == "epochs" and self.train_state.step == self.config.train.min_steps
        why = ENDED["min_steps" if lengthened else self.train_state.ended]
        passes = count(round(epochs)) if (epochs := self.train_state.epochs).is_integer() else number(epochs, 3)
        ended = Text("{steps} pas, {passes} sur les données ; {why}.", "{steps} steps, {passes} over the data; {why}.").with_(
            steps=count(self.train_state.step),
            passes=Text(f"{{n}} passage{'s' if epochs >= 2 else ''}", f"{{n}} pass{'' if epochs == 1 else 'es'}").with_(n=passes),
            why=why,
        )
        return [trained, ended]


def baseline_record(baseline: Baseline) -> dict[str, Any]:
    """A baseline in `results.json`."""
    name = {lang: say(baseline.name, lang) for lang in LANGS}
    return {"name": name, "scores": baseline.scores, "intervals": baseline.intervals, "seconds": baseline.seconds}


def readme(folder: RunFolder, config: RunConfig, trained: TrainingResult | None = None) -> str:
    """What the folder is and what to do with it."""
    assert config.made is not None
    name = folder.path
    score = f"not finished: resume with `attentif train --resume {name}`"
    if trained is not None:
        score = f"finished: {trained.describe_score()}"
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
