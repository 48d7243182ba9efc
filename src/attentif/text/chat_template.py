"""Chat templates: a conversation as the text a model was trained to read.

    template = ChatTemplate.from_folder(folder)
    template.render([{"role": "user", "content": "Bonjour"}], {"bos_token": "<s>"})

A template is a small program in Jinja that comes with a checkpoint, so it is not trusted: it is rendered in a sandbox, without loaders or
attributes of Python's, in a process of its own (`template_worker`) that the operating system stops beyond `SECONDS` of time or
`MEGABYTES` of memory. It stays for the next conversation; one that was stopped is started again. The template is refused beyond `SOURCE`
letters, and what it writes beyond `WRITTEN`.
"""

import json
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from attentif.errors import AttentifError, RunError, UsageError

FILE, OTHERS = "chat_template.jinja", "additional_chat_templates"
SAID = "tokenizer_config.json"
SOURCE, WRITTEN = 200_000, 4_000_000  # letters
MEGABYTES, SECONDS = 512, 2  # of the processor's time; a busy machine may take WAIT to give that much
WAIT = 20
WORKER = Path(__file__).with_name("template_worker.py")

Message = Mapping[str, Any]  # {"role": "user", "content": "..."}


class Renderer:
    """The process that renders one template: a request and its answer are a line each."""

    def __init__(self) -> None:
        self.turn = threading.Lock()
        self.process: subprocess.Popen[bytes] | None = None

    def ask(self, request: bytes) -> dict[str, Any]:
        with self.turn:
            if self.process is None or self.process.poll() is not None:
                self._start()
            assert self.process is not None
            late = threading.Event()
            watch = threading.Timer(WAIT, _stop, (self.process, late))
            watch.daemon = True
            watch.start()
            answer = _exchange(self.process, request + b"\n")
            watch.cancel()
            if not answer.endswith(b"\n"):
                return self._explain_end(late.is_set())
            found = dict(json.loads(answer))
            if found.get("kind") == "large":  # it leaves, for what it asked for may not have been given back
                _end(self.process)
            return found

    def _start(self) -> None:
        command = [sys.executable, "-I", str(WORKER), str(MEGABYTES), str(SECONDS), *_jinja()]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
        weakref.finalize(self, _end, self.process)

    def _explain_end(self, late: bool) -> dict[str, Any]:
        """Why the process ended without reporting an error."""
        assert self.process is not None
        process, self.process = self.process, None
        told = _end(process).decode(errors="replace").strip().splitlines()[-1:]
        if late:
            return {"kind": "large", "message": f"it takes more than {WAIT} seconds"}
        beyond = f"it takes more than {SECONDS} seconds of the processor's time"
        return {"kind": "large", "message": f"{told[0][:120]} (code {process.returncode})" if told and process.returncode == 1 else beyond}


def _exchange(process: subprocess.Popen[bytes], line: bytes) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(line)
        process.stdin.flush()
        return process.stdout.readline()
    except OSError:  # it has ended
        return b""


def _stop(process: subprocess.Popen[bytes], late: threading.Event) -> None:
    late.set()
    process.kill()


def _end(process: subprocess.Popen[bytes]) -> bytes:
    """Close the process's input, which ends it; return its stderr."""
    if process.stdin is None or process.stdin.closed:
        return b""
    try:
        return process.communicate(timeout=1)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[1]


@dataclass(frozen=True)
class ChatTemplate:
    """A template and the file it came from."""

    source: str
    file: Path | None = None
    renderer: Renderer = field(default_factory=Renderer, compare=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.source) > SOURCE:
            raise RunError(f"the chat template has {len(self.source):,} letters; at most {SOURCE:,} are read", file=self.file)

    @classmethod
    def from_folder(cls, folder: Path, name: str = "default") -> "ChatTemplate | None":
        """Read the template `name` of a checkpoint folder; None if it has none."""
        file = folder / FILE if name == "default" else folder / OTHERS / f"{Path(name).name}.jinja"
        if file.is_file():
            return cls(_read(file), file)
        if not (file := folder / SAID).is_file():
            return None
        try:
            said = json.loads(_read(file))
        except (ValueError, RecursionError):
            raise RunError("is damaged: not JSON", file=file) from None
        found = said.get("chat_template") if isinstance(said, dict) else None
        if isinstance(found, list):  # transformers' own form of several
            found = {entry.get("name"): entry.get("template") for entry in found if isinstance(entry, dict)}
        if isinstance(found, dict):
            if name not in found:
                raise RunError(f"has no chat template {name!r}: there are {', '.join(map(str, found))}", file=file)
            found = found[name]
        if found is not None and not isinstance(found, str):
            raise RunError("chat_template is not a text", file=file)
        return None if found is None else cls(found, file)

    def render(self, messages: Sequence[Message], special: Mapping[str, str] | None = None, *, answer: bool = True, **more: Any) -> str:
        """Render a conversation; `special` are named tokens, `answer` opens the model's turn."""
        variables = {
            "messages": list(messages),
            "tools": None,
            "documents": None,
            "add_generation_prompt": answer,
            **(special or {}),
            **more,
        }
        try:
            request = json.dumps({"template": self.source, "variables": variables, "letters": WRITTEN})
        except (TypeError, ValueError) as error:
            raise UsageError(f"a conversation must be made of texts, numbers, lists and tables: {error}") from None
        answered = self.renderer.ask(request.encode())
        if "text" not in answered:
            raise self._make_error(str(answered.get("kind")), str(answered.get("message")), answered.get("line"))
        return str(answered["text"])

    def _make_error(self, kind: str, message: str, line: int | None) -> AttentifError:
        if kind == "refused":
            return UsageError(f"the chat template refuses this conversation: {message}", file=self.file)
        said = {
            "syntax": "is no chat template",
            "unsafe": "the chat template asks for what it may not have",
            "large": "the chat template was stopped",
        }.get(kind, "the chat template does not work on this conversation")
        return RunError(f"{said}: {' '.join(message.split())[:200]}", file=self.file, line=line)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise RunError(f"cannot be read: {error.strerror}", file=file) from None
    except UnicodeDecodeError:
        raise RunError("is damaged: not UTF-8", file=file) from None


def _jinja() -> list[str]:
    """Return the folders from which Jinja and its dependencies are imported."""
    found = [find_spec(name) for name in ("jinja2", "markupsafe")]
    return sorted({str(Path(spec.origin).parent.parent) for spec in found if spec is not None and spec.origin})
