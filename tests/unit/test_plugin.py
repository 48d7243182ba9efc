"""A user's own parts, registered from a file or a package."""

import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from attentif import plugin
from attentif.errors import ConfigError
from attentif.nn.mixer import MIXERS
from attentif.plugin import load_plugin

MIXER = """
from typing import Literal
from attentif.nn.mixer import MIXERS, Caps, Mixer, MixerConfig

@MIXERS.register
class NothingConfig(MixerConfig):
    '''Leaves everything as it is.'''
    kind: Literal["nothing"] = "nothing"
    def build(self, site):
        return Nothing()

class Nothing(Mixer):
    caps = Caps(causal=True, bidirectional=False, streaming="exact")
    def forward(self, x, seq, state=None):
        return x
"""


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MIXERS, "classes", dict(MIXERS.classes))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))


def test_a_file_registers_a_mixer_and_may_be_loaded_twice(tmp_path: Path) -> None:
    file = tmp_path / "my-mixers.py"
    file.write_text(MIXER)
    load_plugin(file)
    load_plugin(file)
    assert "nothing" in list(MIXERS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1\nimport nowhere_to_be_found\n", "my.py:2: ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("x = 1\ndef f():\n    return y\nf()\n", "my.py:3: NameError: name 'y' is not defined"),
        ("x = (\n", "my.py:1: SyntaxError"),
    ],
)
def test_what_is_wrong_in_the_file_is_named_with_its_line(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "my.py").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_plugin(tmp_path / "my.py")
    assert expected in str(caught.value)


def test_missing_files_and_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such plug-in file"):
        load_plugin(tmp_path / "none.py")
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(ConfigError, match="is a Python file"):
        load_plugin(tmp_path / "notes.txt")


def test_a_broken_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    points = EntryPoints([EntryPoint("stars", "nowhere_to_be_found", plugin.GROUP)])
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points.select(group=group))
    plugin.load_installed.cache_clear()
    with pytest.raises(ConfigError, match="plug-in 'stars'"):
        plugin.load_installed()
