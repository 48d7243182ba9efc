"""The kernel cache: what is damaged is compiled again, what others could have written is not read."""

import errno
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import FunctionType

import numpy as np
import pytest

from attentif.files import cache_folder
from attentif.kernels import jit_cache
from attentif.kernels.jit import Compiled


def _triple(x: np.ndarray, y: np.ndarray) -> None:
    for i in range(len(x)):
        y[i] = 3 * x[i]


def _negate(x: np.ndarray, y: np.ndarray) -> None:
    for i in range(len(x)):
        y[i] = -x[i]


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test's own."""
    monkeypatch.setenv("ATTENTIF_CACHE", str(tmp_path / "cache"))
    for name in ("open_folder", "warn_once"):
        monkeypatch.setattr(jit_cache, name, cache(getattr(jit_cache, name).__wrapped__))
    return tmp_path / "cache"


def run(function: Callable[..., None] = _triple) -> int:
    """Run a kernel as a new process would; return how often it was found in the cache."""
    kernel, x, y, expected = Compiled(function), np.arange(5.0), np.empty(5), np.empty(5)
    kernel(x, y)
    function(x, expected)
    assert np.array_equal(y, expected)
    return sum(kernel.call.stats.cache_hits.values())


def stored(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


def test_a_kernel_is_compiled_once_and_then_loaded(root: Path) -> None:
    assert [run(), run()] == [0, 1]
    assert len(stored(root)) == 1


def test_folders_and_files_are_private_whatever_the_umask(root: Path) -> None:
    before = os.umask(0)
    try:
        run()
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in [root, *root.rglob("*")] if path.is_dir()} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in stored(root)} == {0o600}
    assert run() == 1


def flip_bit(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


@pytest.mark.parametrize("damage", [flip_bit, lambda data: data[:-100], lambda data: data[:7], lambda data: b""])
def test_a_damaged_file_is_named_and_compiled_again(damage: Callable[[bytes], bytes], root: Path, caplog: pytest.LogCaptureFixture) -> None:
    run()
    (path,) = stored(root)
    path.write_bytes(damage(path.read_bytes()))
    assert run() == 0
    assert f"{path}: is damaged" in caplog.text
    assert run() == 1


def test_the_file_of_another_kernel_is_not_taken(root: Path) -> None:
    run()
    (mine,) = stored(root)
    run(_negate)
    (other,) = set(stored(root)) - {mine}
    other.replace(mine)
    assert run() == 0


def test_a_full_disk_costs_the_cache_alone(root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    @contextmanager
    def fail(path: Path) -> Iterator[Path]:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        yield path

    monkeypatch.setattr(jit_cache, "replace_atomically", fail)
    with caplog.at_level(logging.INFO, "attentif"):
        assert [run(), run(_negate)] == [0, 0]
    assert caplog.text.count("No space left") == 1
    assert "saved for next time" not in caplog.text
    assert not stored(root)


def test_a_folder_that_cannot_be_made_costs_the_cache_alone(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    root.write_text("a file where the folder should be")
    assert [run(), run()] == [0, 0]
    assert caplog.text.count(str(root)) == 1


class Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.mark),)


def set_trap(path: Path, mark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a pickle that runs code, with a correct hash, under the name of a kernel."""
    from numba.core.serialize import dumps

    keys: list[str] = []
    read = jit_cache.KernelCache._key
    with monkeypatch.context() as patch:
        patch.setattr(jit_cache.KernelCache, "_key", lambda *args: keys.append(read(*args)) or keys[-1])
        run()
    content = dumps(Trap(mark))
    path.write_bytes(sha256(keys[0].encode() + content).digest() + content)


def test_the_trap_works_in_a_folder_of_the_users_own(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the tests below could not fail."""
    run()
    set_trap(stored(root)[0], tmp_path / "mark", monkeypatch)
    with pytest.raises(TypeError):
        run()
    assert (tmp_path / "mark").exists()


@pytest.mark.parametrize("mode", [0o770, 0o702])
@pytest.mark.parametrize("depth", ["kernels", "kernels/*", "kernels/*/*"])
def test_what_others_can_write_is_not_read(
    mode: int, depth: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run()
    set_trap(stored(root)[0], tmp_path / "mark", monkeypatch)
    (open_to_others,) = root.glob(depth)
    open_to_others.chmod(mode)
    jit_cache.open_folder.cache_clear()
    assert run() == 0
    assert not (tmp_path / "mark").exists()
    assert f"{open_to_others}: is writable by other users" in caplog.text


def test_what_belongs_to_another_user_is_not_read(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run()
    set_trap(stored(root)[0], tmp_path / "mark", monkeypatch)
    before = stored(root)[0].read_bytes()
    jit_cache.open_folder.cache_clear()
    monkeypatch.setattr(os, "geteuid", lambda: root.stat().st_uid + 1)
    assert [run(), run()] == [0, 0]
    assert not (tmp_path / "mark").exists()
    assert stored(root)[0].read_bytes() == before
    assert caplog.text.count("belongs to another user") == 1


def test_a_function_whose_code_no_file_tells_is_not_saved(root: Path) -> None:
    factor = 4

    def scale(x: np.ndarray, y: np.ndarray) -> None:
        for i in range(len(x)):
            y[i] = factor * x[i]

    typed = FunctionType(_triple.__code__.replace(co_filename="<typed>"), globals(), "typed")
    assert [run(scale), run(typed)] == [0, 0]
    assert not stored(root)


def test_the_cache_folder_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("ATTENTIF_CACHE")
    assert cache_folder() == tmp_path / "xdg" / "attentif"
    for ignored in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", ignored)
        assert cache_folder() == Path.home() / ".cache" / "attentif"
