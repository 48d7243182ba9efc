"""A server in a process of its own."""

import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import httpx

KEY = "a-key-for-tests-of-32-characters"


@dataclass
class Server:
    """A server and its process."""

    process: subprocess.Popen[bytes]
    url: str
    log: Path
    key: str | None = None

    @property
    def v1(self) -> str:
        return f"{self.url}/v1"

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}

    def wait(self, seconds: float = 180) -> None:
        """Until the models are loaded."""
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            assert self.process.poll() is None, self.log.read_text()
            try:
                if httpx.get(f"{self.url}/ready", headers=self.headers).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.05)
        raise AssertionError(self.log.read_text())

    def worker(self) -> int:
        """The process id of the worker."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return next(int(child) for child in children if b"attentif.serve.worker" in Path(f"/proc/{child}/cmdline").read_bytes())

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


def start(folder: Path, *words: str, key: str | None = None) -> Server:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder / f"server-{port}.log"
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | ({"ATTENTIF_API_KEY": key} if key else {})
    command = [sys.executable, "-m", "attentif", "serve", *words, "--port", str(port), "--threads", "1"]
    with log.open("wb") as file:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=file, stderr=file)
    return Server(process, f"http://127.0.0.1:{port}", log, key)
