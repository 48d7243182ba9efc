"""Several processes, one run: `torchrun --nproc-per-node 2 -m attentif train ...` (gloo on CPU, nccl on GPUs).

Every process holds the whole model and takes its share of each step's batches; gradients are summed. The first process alone evaluates,
writes the run's folder and talks to the user.
"""

import json
import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from attentif.errors import ConfigError

CPU = torch.device("cpu")
PATIENCE = timedelta(days=1)  # the others wait while the first process reads data or evaluates


@dataclass(frozen=True)
class Ranks:
    """This process among its peers."""

    rank: int = 0
    world: int = 1
    device: torch.device = CPU

    @property
    def main(self) -> bool:
        return self.rank == 0

    def sum(self, values: list[float]) -> list[float]:
        """The same on every process, to the last bit."""
        if self.world == 1:
            return values
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return [float(value) for value in total.tolist()]

    def gather(self, value: Any) -> list[Any]:
        """The plain (JSON) values of all processes, in the order of their ranks."""
        if self.world == 1:
            return [value]
        own = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8).to(self.device)
        sizes = [torch.zeros(1, dtype=torch.int64, device=self.device) for _ in range(self.world)]
        dist.all_gather(sizes, torch.tensor([len(own)], device=self.device))
        longest = max(int(size) for size in sizes)
        texts = [torch.zeros(longest, dtype=torch.uint8, device=self.device) for _ in range(self.world)]
        dist.all_gather(texts, nn.functional.pad(own, (0, longest - len(own))))
        return [json.loads(bytes(text[: int(size)].tolist())) for text, size in zip(texts, sizes, strict=True)]

    def share(self, value: Any) -> Any:
        """The first process's value, on all of them."""
        return self.gather(value if self.main else None)[0]

    def wait(self) -> None:
        if self.world > 1:
            dist.barrier()

    def wrap(self, module: nn.Module) -> nn.Module:
        """The module, its gradients *averaged* over the processes by the backward pass."""
        if self.world == 1:
            return module
        return DistributedDataParallel(module, device_ids=[self.device] if self.device.type == "cuda" else None)

    def without_sync(self, module: nn.Module) -> AbstractContextManager[None]:
        """Gradients of a batch that is not the step's last need not travel."""
        return module.no_sync() if isinstance(module, DistributedDataParallel) else nullcontext()


def count_processes() -> int:
    """How many torchrun started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_main_process() -> bool:
    """Whether this process is alone, or the first of torchrun's: the one that talks."""
    return os.environ.get("RANK", "0") == "0"


def device_of(name: str) -> torch.device:
    """The device that `train.device` asks for; under torchrun each process takes its own GPU."""
    local = int(os.environ.get("LOCAL_RANK", "0"))
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"train.device: there is no device {name!r}; use cpu, cuda or auto") from None
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not available.get(device.type, False) or (device.index or 0) >= max(1, torch.cuda.device_count()):
        raise ConfigError(f"train.device: {name!r} is not available here; use cpu or auto")
    return torch.device("cuda", local) if name == "cuda" else device


class ProcessGroup(AbstractContextManager[Ranks]):
    """`with joined(device) as ranks:` this process among those of torchrun, or alone."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def __enter__(self) -> Ranks:
        if count_processes() == 1:
            return Ranks(device=self.device)
        dist.init_process_group("nccl" if self.device.type == "cuda" else "gloo", timeout=PATIENCE)
        return Ranks(dist.get_rank(), dist.get_world_size(), self.device)

    def __exit__(self, *_: object) -> None:
        if dist.is_initialized():
            dist.destroy_process_group()
