"""Several processes, one run: `torchrun --nproc-per-node 2 -m attentif train ...` (gloo on CPU, nccl on GPUs).

Each process takes its share of a step's batches, and gradients are summed; `sharding` says which weights it holds. The first process
alone writes the run's folder and talks to the user.
"""

import json
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from math import gcd
from types import TracebackType
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]
from torch.nn.parallel import DistributedDataParallel

from attentif.data.batching import Rows
from attentif.errors import AttentifError, ConfigError
from attentif.training.heartbeat import Heartbeat
from attentif.training.signals import ignore_sigterm

CPU = torch.device("cpu")
STARTING = timedelta(minutes=30)  # for all processes to find one another
PATIENCE = timedelta(days=1)  # the others wait while the first process reads data or evaluates; `heartbeat` tells waiting from hanging


@dataclass(frozen=True)
class Ranks:
    """This process among its peers."""

    rank: int = 0
    world: int = 1
    device: torch.device = CPU
    heart: Heartbeat | None = None

    @property
    def main(self) -> bool:
        return self.rank == 0

    def sum(self, values: list[float]) -> list[float]:
        """The same on every process, to the last bit."""
        self.tick()
        if self.world == 1:
            return values
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return [float(value) for value in total.tolist()]

    def gather(self, value: Any) -> list[Any]:
        """The plain (JSON) values of all processes, in the order of their ranks."""
        self.tick()
        if self.world == 1:
            return [value]
        own = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8).to(self.device)
        sizes = [torch.zeros(1, dtype=torch.int64, device=self.device) for _ in range(self.world)]
        dist.all_gather(sizes, torch.tensor([len(own)], device=self.device))
        longest = max(int(size) for size in sizes)
        texts = [torch.zeros(longest, dtype=torch.uint8, device=self.device) for _ in range(self.world)]
        dist.all_gather(texts, nn.functional.pad(own, (0, longest - len(own))))
        return [json.loads(bytes(text[: int(size)].tolist())) for text, size in zip(texts, sizes, strict=True)]

    def broadcast(self, value: Any) -> Any:
        """Broadcast rank 0's value."""
        return self.gather(value if self.main else None)[0]

    def barrier(self) -> None:
        self.tick()
        if self.world > 1:
            dist.barrier()

    def tick(self) -> None:
        """Report that this process is alive."""
        if self.heart is not None:
            self.heart.tick()

    def watch(self, minutes: float, resume: str) -> None:
        """Treat a process that lags behind the others for this long as hanging; `resume` is the command to print."""
        if self.heart is not None:
            self.heart.limit, self.heart.resume = 60 * minutes, resume

    def share_out(self, batches: Sequence[Rows], accumulate: int) -> list[tuple[int, Rows, bool]]:
        """This process's pieces of a step: their numbers, their rows, and whether they count.

        Batches are cut by rows where there are not as many as processes, so that a configuration need not know how many there are. Every
        process must call backward equally often: one without a piece repeats another, for nothing.
        """
        cut = self.world // gcd(accumulate, self.world)
        pieces = [(rows[part::cut], rows) for rows in batches for part in range(cut)]
        pieces += [(batches[0][:0], batches[0])] * (-len(pieces) % self.world)
        own = list(enumerate(pieces))[self.rank :: self.world]
        return [(number, rows if len(rows) else others[:1], len(rows) > 0) for number, (rows, others) in own]

    def wrap(self, module: nn.Module) -> nn.Module:
        """The module, its gradients *averaged* over the processes by the backward pass."""
        if self.world == 1:
            return module
        return DistributedDataParallel(module, device_ids=[self.device] if self.device.type == "cuda" else None)

    def without_sync(self, module: nn.Module) -> AbstractContextManager[None]:
        """Skip gradient synchronisation for batches before the last of a step."""
        return module.no_sync() if isinstance(module, DistributedDataParallel) else nullcontext()


def count_processes() -> int:
    """How many torchrun started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_main_process() -> bool:
    """Whether this is rank 0, the process that prints."""
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
    """`with ProcessGroup(device) as ranks:` this process among those of torchrun, or alone."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.heart: Heartbeat | None = None

    def __enter__(self) -> Ranks:
        if count_processes() == 1:
            return Ranks(device=self.device)
        rank, world = int(os.environ["RANK"]), count_processes()
        hosting = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"  # else torchrun's agent does
        backend = "nccl" if self.device.type == "cuda" else "gloo"
        dist.init_process_group(backend, store=_open_store(hosting=hosting), rank=rank, world_size=world, timeout=PATIENCE)
        self.heart = Heartbeat(_open_store(), rank, world)
        self.heart.start()
        dist.barrier()
        self.heart.listen()
        return Ranks(rank, world, self.device, self.heart)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.heart is None:
            return
        lost = None
        if isinstance(error, RuntimeError) and _is_connection_lost(error):
            with ignore_sigterm():  # torchrun sends it as soon as one process has died
                lost = self.heart.blame()
        self.heart.leave(str(error) if isinstance(error, AttentifError) else kind.__name__ if kind and lost is None else "")
        if lost is not None:
            raise lost from None
        if error is None:
            dist.destroy_process_group()  # waits for the others; after an error they may wait for us


def _open_store(*, hosting: bool = False) -> Any:
    """Connect to the process group's store. Keys differ after a restart, so that addresses of dead processes are not found again.

    Heartbeats have a connection of their own, as the main thread may wait inside of the other."""
    store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=hosting, timeout=STARTING, multi_tenant=True)
    return PrefixStore(f"attentif/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)


def _is_connection_lost(error: RuntimeError) -> bool:
    """Whether a collective operation failed because of another process."""
    if isinstance(error, dist.DistError):
        return True
    said = str(error)
    return any(word in said for word in ("Connection closed by peer", "Connection reset", "gloo", "NCCL", "Broken pipe"))
