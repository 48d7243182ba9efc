"""Estimate sizes, memory and time of a run. Nothing is written, except tokens of a corpus in the cache.

Memory is counted: weights, gradients and the optimiser's by their tensors, activations by what autograd keeps of the largest batch.
Time is measured on a few real steps of the run's own batches, and grows with the places (tokens and padding) of a batch.
"""

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from attentif.data import DataConfig, padding_waste, plan
from attentif.data.batching import Rows, places
from attentif.data.config import Split
from attentif.data.input_rows import count_rows
from attentif.nn.block import Block
from attentif.tasks.base import AnyTask, Dataset, Say, Tokenizers
from attentif.tasks.predictors import Trainable
from attentif.text import TokenizerConfig
from attentif.training.config import RunConfig, TrainConfig
from attentif.training.distributed import device_of
from attentif.training.machine import peak_memory
from attentif.training.optim import optimizers, state_of
from attentif.training.pretrain import TEXTS, record_texts, stage_config, write_texts
from attentif.training.run import check_backbone, check_config, choose_tokenizers, configure, fresh_model
from attentif.training.sharding import blocks_of
from attentif.training.trainable import check_trainable, choose_trainable, count_trainable

NETWORK = 10.0  # Gbit/s between processes, where several are asked about
SMALL = 5_000_000  # bytes of a table of which all is encoded
SPLITS: tuple[Split, Split] = ("valid", "test")
SAMPLE = 3000  # rows of a large table from which all of it is worked out
MEASURED = 3  # steps that are timed, after one that is not


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Estimated size, memory and time of a run."""

    examples: dict[str, int]  # by split
    parameters: dict[str, int]  # by part of the model
    learning: int  # of them
    memory: dict[str, int]  # bytes by use; activations are those of the largest batch
    steps: int
    epochs: float
    tokens: int  # read in training, padding not counted
    padding: float  # share of the places
    seconds: float  # of training; evaluation, baselines and report come on top
    notes: list[str]
    encoded: int = 0  # training examples that this was worked out from
    peak: int = 0  # bytes that this process held at most, the reading of all the data included
    pretrain: "Estimate | None" = None  # the first stage, where there is one
    layouts: list["Spread"] = field(default_factory=list)  # with several processes, one for each value of train.shard


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Estimated cost per process when several train together."""

    shard: str
    processes: int
    memory: dict[str, int]
    traffic: int  # bytes that each sends in a step
    network: float  # Gbit/s that are assumed: no machine but this one can be measured
    seconds: float  # of the whole training, where traffic and products do not overlap


def estimate(config: RunConfig, say: Say, processes: int = 1) -> Estimate:
    """Read the data, build the model, time a few steps; with `processes`, extrapolate to that many."""
    model = check_config(config)[1]
    base = check_backbone(config, model)
    check_trainable(config, model)
    with configure(config.train):
        return _estimate_stage(config, choose_tokenizers(config, base), say, processes)


def _estimate_stage(config: RunConfig, text: TokenizerConfig | Tokenizers, say: Say, processes: int = 1) -> Estimate:
    settings = config.train
    task, adapted = check_config(config)
    recorder = record_texts(config, text)
    data, rows = _sample(config.data, task, say)
    prepared = task.prepare(data, recorder, adapted, say)
    scale = rows["train"] / len(prepared.train) if rows else 1.0  # of a table of which a part was encoded
    stage = None
    if config.pretrain is not None:
        with TemporaryDirectory() as folder:
            write_texts(recorder, Path(folder) / TEXTS, config.data.text)
            stage = _estimate_stage(stage_config(config, Path(folder)), prepared.tokenizers, say)
    model = fresh_model(prepared.sizes.fill(adapted), settings, device_of(settings.device))
    choose_trainable(model, config)
    trial = Trial(task, model, prepared.train, settings)
    lengths, batches = prepared.train.lengths, trial.batches
    padding = 0.0 if settings.packed else padding_waste(lengths, batches)
    per_epoch = math.ceil(scale * len(batches) / settings.accumulate)
    seconds_per_epoch = scale * trial.seconds_per_place() * float(lengths.sum()) / (1 - padding)
    steps = plan_steps(settings, per_epoch, seconds_per_epoch / per_epoch)
    memory, seconds = trial.memory(), seconds_per_epoch * steps / per_epoch
    blocks = [sum(parameter.nbytes for parameter in block.parameters()) for block in blocks_of(model)]
    layouts = [spread(shard, processes, memory, blocks, settings, steps, seconds) for shard in ("none", "full")] if processes > 1 else []
    return Estimate(
        layouts=layouts,
        examples={split.name: len(split) for split in (prepared.train, prepared.valid, prepared.test)} | rows,
        encoded=len(prepared.train),
        peak=peak_memory() or 0,
        parameters=model.sizes(),
        learning=count_trainable(model),
        memory=memory,
        steps=steps,
        epochs=steps / per_epoch,
        tokens=round(scale * float(lengths.sum()) * steps / per_epoch),
        padding=padding,
        seconds=seconds,
        notes=prepared.notes,
        pretrain=stage,
    )


def _sample(data: DataConfig, task: AnyTask, say: Say) -> tuple[DataConfig, dict[str, int]]:
    """A part of the rows of a large table, and how many each split has in all; nothing where all are encoded."""
    files = data.files("train")
    if not task.samples_rows or data.limit or not files or sum(file.stat().st_size for file in files if file.is_file()) < SMALL:
        return data, {}
    say("counting rows")
    total = sum(count_rows(file) for file in files)
    rows = round(total * (1 - data.fraction("valid") - data.fraction("test")))
    if rows <= SAMPLE:
        return data, {}
    say(f"{total:,} rows: worked out from {SAMPLE:,} of those to train on")
    cut = {split: data.fraction(split) for split in SPLITS if data.fraction(split)}
    few = {f"{split}_fraction": min(share, SAMPLE / total) for split, share in cut.items()}
    return data.replace(limit=SAMPLE, **few), {"train": rows} | {split: round(total * share) for split, share in cut.items()}


def spread(
    shard: str, processes: int, memory: Mapping[str, int], blocks: Sequence[int], settings: TrainConfig, steps: int, seconds: float
) -> Spread:
    """From what one process takes: `memory` by use, bytes of the weights of each block, `seconds` of all steps.

    DDP sends a gradient around the ring twice, 2 (W - 1) / W of its bytes. FSDP2 gathers weights for the forward and again for the backward
    of each batch and sums gradients into their owners, 3 (W - 1) / W; what no block holds is gathered once.
    """
    gradients, rest = memory["gradients"], memory["weights"] - sum(blocks)
    pieces = -(-settings.accumulate // processes)
    activations = memory["activations"] // (processes // math.gcd(settings.accumulate, processes))
    if shard == "none":
        used = dict(memory) | {"activations": activations, "buckets": gradients}
        sent = 2 * gradients
    else:
        used = {use: number // processes for use, number in memory.items()} | {"activations": activations}
        used["gathered"] = 2 * (rest + 2 * max(blocks, default=0))  # weights and gradients, the next block's weights beside
        sent = pieces * (2 * sum(blocks) + rest + gradients)
    traffic = sent * (processes - 1) // processes
    return Spread(
        shard=shard,
        processes=processes,
        memory=used,
        traffic=traffic,
        network=NETWORK,
        seconds=seconds / processes + steps * traffic * 8 / (NETWORK * 1e9),
    )


def launch_commands(words: Sequence[str], processes: int, nodes: int) -> list[str]:
    """The command of torchrun for each of several machines, and a batch script for Slurm."""
    own, train = processes // nodes, f"attentif train {' '.join(words)}"
    ends = "--rdzv-backend c10d --rdzv-endpoint"
    torchrun = f"torchrun --nnodes {nodes} --nproc-per-node {own} --max-restarts 3 --rdzv-id RUN {ends} FIRST_MACHINE:29400 -m {train}"
    script = f"""#!/bin/bash
#SBATCH --nodes={nodes} --ntasks-per-node=1 --cpus-per-task={own} --requeue --signal=TERM@120
export OMP_NUM_THREADS=1
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -1)
srun torchrun --nnodes {nodes} --nproc-per-node {own} --max-restarts 3 --rdzv-id "$SLURM_JOB_ID" {ends} "$first:29400" -m {train}"""
    return [f"# on each machine\n{torchrun}", f"# Slurm: sbatch FILE\n{script}"]


def plan_steps(config: TrainConfig, per_epoch: int, seconds: float) -> int:
    """Number of steps until the first limit, given the seconds of one step."""
    limits = [config.steps] if config.steps else []
    if config.epochs:
        limits.append(math.ceil(config.epochs * config.stretch(per_epoch) * per_epoch))
    if config.minutes:
        limits.append(max(1, round(60 * config.minutes / seconds)))
    return min(limits)


class Trial:
    """A model that is trained for a few steps and discarded."""

    def __init__(self, task: AnyTask, model: Trainable, train: Dataset, config: TrainConfig) -> None:
        self.task, self.model, self.train, self.config = task, model.train(), train, config
        self.optimizers = optimizers(model, config)
        self.batches = plan(train.lengths, config.batch_tokens, seed=config.seed, epoch=0, packed=config.packed)
        self.device = next(model.parameters()).device

    def step(self, rows: Rows) -> int:
        """Take one step on one batch; return its number of places."""
        batch = self.train.batch(rows, packed=self.config.packed).to(self.device)
        loss = self.task.learn(self.model, batch)
        (loss.total / max(loss.count, 1)).backward()
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        return places(self.train.lengths, rows)

    def seconds_per_place(self) -> float:
        self.step(self.batches[0])
        began, read = time.perf_counter(), 0
        for rows in self.batches[1 : 1 + MEASURED] or self.batches[:1]:
            read += self.step(rows)
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return (time.perf_counter() - began) / max(read, 1)

    def memory(self) -> dict[str, int]:
        """Bytes by use, measured after a step, when the optimiser's tensors exist."""
        weights, learned = _bytes(self.model.parameters()), _bytes(tensor for tensor in self.model.parameters() if tensor.requires_grad)
        found = {"weights": weights, "gradients": learned, "optimizer": _bytes(state_of(self.optimizers).values())}
        if self.config.ema:
            found["average"] = learned
        largest = max(self.batches, key=lambda rows: places(self.train.lengths, rows))
        with _track_saved_tensors(self.model) as kept, _record_block_inputs(self.model) as inputs:
            loss = self.task.learn(self.model, self.train.batch(largest, packed=self.config.packed).to(self.device))
        del loss
        recomputed = _count_recomputed(self.model, inputs) if self.model.checkpointing else 0
        return found | {"activations": sum(kept.values()) + recomputed}


@contextmanager
def _record_block_inputs(model: nn.Module) -> Iterator[list[tuple[Block, tuple[Any, ...]]]]:
    """Every block with its inputs."""
    inputs: list[tuple[Block, tuple[Any, ...]]] = []
    hooks = [
        module.register_forward_pre_hook(lambda block, given: inputs.append((block, given)))
        for module in model.modules()
        if isinstance(module, Block)
    ]
    try:
        yield inputs
    finally:
        for hook in hooks:
            hook.remove()


def _count_recomputed(model: nn.Module, inputs: list[tuple[Block, tuple[Any, ...]]]) -> int:
    """Bytes under gradient checkpointing: the inputs of all blocks stay, and the activations of one block at a time come back."""
    largest = 0
    for block, given in inputs:
        with _track_saved_tensors(model) as kept:
            block(*given)
        largest = max(largest, sum(kept.values()))
    return largest + _bytes(given[0] for _, given in inputs)


@contextmanager
def _track_saved_tensors(model: nn.Module) -> Iterator[dict[int, int]]:
    """Storages that autograd keeps for the backward pass, with their bytes; weights do not count."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        yield kept


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors)
