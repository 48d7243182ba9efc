"""The help of every command in French: docstrings, options, and the headings that click writes around them."""

from typing import Any

from attentif.french import to_french, typeset


def translate_help(command: Any) -> None:
    """Translate the help of one command in place."""
    command.help = "\n\n".join(map(_translate_paragraph, (command.help or "").split("\n\n")))
    for parameter in command.params:
        if getattr(parameter, "help", None):
            parameter.help = to_french(parameter.help)
    command.context_class = _french_context(command.context_class)


def _translate_paragraph(paragraph: str) -> str:
    """`\\b` marks lines that are not filled: of an example, only its heading is translated."""
    if not paragraph.startswith("\b"):
        return to_french(" ".join(paragraph.split()))
    mark, heading, *lines = paragraph.split("\n")
    return "\n".join([mark, to_french(heading), *lines])


def _french_context(context: Any) -> Any:
    class FrenchFormatter(context.formatter_class):  # type: ignore[misc]
        def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
            super().write_usage(prog, args, typeset("Usage : "))

        def write_heading(self, heading: str) -> None:
            self.write(f"{'':>{self.current_indent}}{to_french(heading)}{typeset(' :')}\n")

        def write_dl(self, rows: Any, *args: Any, **options: Any) -> None:
            super().write_dl([(name, _translate_extras(text)) for name, text in rows], *args, **options)

    return type("FrenchContext", (context,), {"formatter_class": FrenchFormatter})


def _translate_extras(text: str) -> str:
    """[default: 8000; required] at the end of an option's help, and click's own --help."""
    about, bracket, extras = text.rpartition("[")
    if not bracket or not extras.endswith("]"):
        return to_french(text)
    return f"{about}[{' ; '.join(map(to_french, extras[:-1].split('; ')))}]"
