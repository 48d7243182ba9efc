"""Parts of a model by name, as written in a configuration.

    frontend    encoder    encoder.0    encoder.0-5    encoder.0-5.attn    decoder.*.ffn.up    head

A name is the start of a path of modules, or its end where linear maps are meant (`q`, `ffn.up`). What every path has in common, the
words `blocks` and `mixer`, may be omitted; blocks count from 0; `*` and `?` are wildcards between two dots.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase

from attentif.config import did_you_mean
from attentif.errors import ConfigError

UNSAID = {"blocks", "mixer", "branches"}
SHOWN = 12  # names listed by an error


def shorten(path: str) -> list[str]:
    """Return the words of a path without those all paths share."""
    return [word for word in path.split(".") if word not in UNSAID]


def starts_with(pattern: str, path: str) -> bool:
    """Whether the path lies inside the named part."""
    wanted, words = shorten(pattern), shorten(path)
    return len(wanted) <= len(words) and all(fnmatchcase(word, want) for word, want in zip(words, wanted, strict=False))


def ends_with(pattern: str, path: str) -> bool:
    """Whether the path ends with this name."""
    wanted, words = shorten(pattern), shorten(path)
    return len(wanted) <= len(words) and all(map(fnmatchcase, words[len(words) - len(wanted) :], wanted))


def expand_range(pattern: str) -> list[str]:
    """Expand `encoder.0-2` to `encoder.0`, `encoder.1`, `encoder.2`."""
    found = re.fullmatch(r"(.*?)(?<![^.])(\d+)-(\d+)(?![^.])(.*)", pattern)
    if found is None:
        return [pattern]
    before, first, last, after = found.groups()
    if int(last) < int(first):
        raise ConfigError(f"{pattern!r} is not a range: {first} is above {last}")
    return [f"{before}{number}{after}" for number in range(int(first), int(last) + 1)]


def select_paths(
    patterns: Sequence[str], paths: Iterable[str], match: Callable[[str, str], bool], known: Callable[[str], str]
) -> list[str]:
    """Return the paths matched by any pattern, in order; a pattern without a match is an error."""
    paths = list(paths)
    found: set[str] = set()
    for pattern in patterns:
        for one in expand_range(pattern):
            here = [path for path in paths if match(one, path)]
            if not here:
                names = list(dict.fromkeys(map(known, paths)))
                more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
                raise ConfigError(f"nothing here is called {one!r}; there are {', '.join(names[:SHOWN])}{more}{did_you_mean(one, names)}")
            found.update(here)
    return [path for path in paths if path in found]
