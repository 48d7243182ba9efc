"""Parts of a model by name, as a configuration spells them.

    frontend    encoder    encoder.0    encoder.0-5    encoder.0-5.attn    decoder.*.ffn.up    head

A name is the beginning of a path of modules, or its end where linear maps are meant (`q`, `ffn.up`). What every path has in common, the
words `blocks` and `mixer`, may be left out; blocks count from 0; `*` and `?` stand for any letters between two dots.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase

from attentif.config import did_you_mean
from attentif.errors import ConfigError

UNSAID = {"blocks", "mixer", "branches"}
SHOWN = 12  # names that an error lists


def short(path: str) -> list[str]:
    """The words of a path that tell it from others."""
    return [word for word in path.split(".") if word not in UNSAID]


def begins(pattern: str, path: str) -> bool:
    """Whether the path leads into the part that is named."""
    wanted, words = short(pattern), short(path)
    return len(wanted) <= len(words) and all(fnmatchcase(word, want) for word, want in zip(words, wanted, strict=False))


def ends(pattern: str, path: str) -> bool:
    """Whether the path ends with this name."""
    wanted, words = short(pattern), short(path)
    return len(wanted) <= len(words) and all(map(fnmatchcase, words[len(words) - len(wanted) :], wanted))


def ranges(pattern: str) -> list[str]:
    """`encoder.0-2` as `encoder.0`, `encoder.1`, `encoder.2`."""
    found = re.fullmatch(r"(.*?)(?<![^.])(\d+)-(\d+)(?![^.])(.*)", pattern)
    if found is None:
        return [pattern]
    before, first, last, after = found.groups()
    if int(last) < int(first):
        raise ConfigError(f"{pattern!r} goes from {first} down to {last}; the lower number comes first")
    return [f"{before}{number}{after}" for number in range(int(first), int(last) + 1)]


def chosen(patterns: Sequence[str], paths: Iterable[str], match: Callable[[str, str], bool], known: Callable[[str], str]) -> list[str]:
    """The paths that any of the patterns names, in their order; a pattern that names none is refused. `known` is how to show a path."""
    paths = list(paths)
    found: set[str] = set()
    for pattern in patterns:
        for one in ranges(pattern):
            here = [path for path in paths if match(one, path)]
            if not here:
                names = list(dict.fromkeys(map(known, paths)))
                more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
                raise ConfigError(f"nothing here is called {one!r}; there are {', '.join(names[:SHOWN])}{more}{did_you_mean(one, names)}")
            found.update(here)
    return [path for path in paths if path in found]
