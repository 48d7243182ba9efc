"""Worker process that renders chat templates in a sandbox with limited memory and time.

    python -I template_worker.py MEGABYTES SECONDS FOLDER ...      < requests, a line of JSON each      > answers, a line each

A template is a program that came with a checkpoint. Jinja's sandbox keeps it from what is not its own; but a program can also ask for a
billion letters, or count for ever, in more ways than a sandbox can know of, and only the operating system refuses those for certain. So
this file imports nothing but Jinja, limits itself, and renders the conversations of one template until its input ends: starting Python for
each of them would take a hundred times as long. Each has the processor's time of its own. The folders are where Jinja is installed.

request   {"template": "...", "variables": {"messages": [...], ...}, "letters": 4000000}
answer    {"text": "..."} or {"kind": "refused" | "syntax" | "unsafe" | "large" | "failed", "message": "...", "line": 3}
"""

import json
import math
import signal
import sys
from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import Any


def limit(megabytes: int) -> None:
    """Limit memory and written files; Windows relies on the parent's timeout."""
    try:
        import resource
    except ImportError:
        return
    for what, most in ((resource.RLIMIT_AS, megabytes * 2**20), (resource.RLIMIT_FSIZE, 0)):
        try:
            resource.setrlimit(what, (most, most))
        except (ValueError, OSError):  # macOS knows no limit of memory
            continue


def limit_time(seconds: int) -> None:
    """Let the system end this process after so much more of the processor's time."""
    try:
        import resource
    except ImportError:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(used.ru_utime + used.ru_stime) + seconds, most))


def render(request: dict[str, Any]) -> dict[str, Any]:
    """Render a template, or return its error."""
    from jinja2 import TemplateError, TemplateSyntaxError
    from jinja2.exceptions import SecurityError

    try:
        pieces, size = [], 0
        for piece in compile_template(request["template"]).generate(**request["variables"]):
            size += len(piece)
            if size > request["letters"]:
                return {"kind": "large", "message": f"it writes more than {request['letters']:,} letters"}
            pieces.append(piece)
        return {"text": "".join(pieces)}
    except ConversationError as error:
        return {"kind": "refused", "message": str(error)}
    except TemplateSyntaxError as error:
        return {"kind": "syntax", "message": error.message or "it cannot be read", "line": error.lineno}
    except SecurityError as error:
        return {"kind": "unsafe", "message": str(error)}
    except MemoryError:
        return {"kind": "large", "message": "it asks for more memory than a template may have"}
    except RecursionError:
        return {"kind": "large", "message": "it calls itself too often"}
    except (TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        return {"kind": "failed", "message": f"{type(error).__name__}: {error}"}


class ConversationError(Exception):
    """Raised by the template itself about a conversation."""


@cache
def compile_template(source: str) -> Any:
    return environment().from_string(source)


def environment() -> Any:
    """Return Jinja as transformers configures it for chat templates, without file access."""
    from jinja2 import nodes
    from jinja2.exceptions import SecurityError
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment
    from jinja2.utils import Namespace

    class Sandbox(ImmutableSandboxedEnvironment):
        """Raises on forbidden attributes instead of returning undefined."""

        def unsafe_undefined(self, obj: Any, attribute: str) -> Any:
            raise SecurityError(f"{attribute!r} of a {type(obj).__name__}")

    class Generation(Extension):
        """{% generation %} marks the model's text; here it has no effect."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)

    class PlainNamespace(Namespace):
        """A namespace without Python's private attributes."""

        def __init__(*args: Any, **kwargs: Any) -> None:
            own = dict(*args[1:], **kwargs)
            if hidden := [name for name in own if str(name).startswith("_")]:
                raise SecurityError(f"a namespace cannot have the name {hidden[0]!r}")
            Namespace.__init__(args[0], own)

        def __setitem__(self, name: str, value: Any) -> None:
            if name.startswith("_"):
                raise SecurityError(f"a namespace cannot have the name {name!r}")
            super().__setitem__(name, value)

    def refuse(message: object) -> None:
        raise ConversationError(str(message))

    made = Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    made.filters["tojson"] = as_json
    made.globals |= {"raise_exception": refuse, "strftime_now": now, "namespace": PlainNamespace}
    return made


def as_json(value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False) -> str:
    """Encode as JSON; Jinja's own filter would write < as \\u003c."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def now(form: str) -> str:
    return datetime.now().strftime(form)


def main(write: Callable[[bytes], Any]) -> None:
    megabytes, seconds, *folders = sys.argv[1:]
    sys.path += [folder for folder in folders if folder not in sys.path]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's; this process leaves with its input
    import jinja2.sandbox  # noqa: F401  before the limits: what is imported is known

    limit(int(megabytes))
    for line in sys.stdin.buffer:
        limit_time(int(seconds))
        answer = render(json.loads(line))
        write(json.dumps(answer).encode() + b"\n")
        sys.stdout.flush()
        if answer.get("kind") == "large":  # what it asked for may not have been given back
            return


if __name__ == "__main__":
    main(sys.stdout.buffer.write)
