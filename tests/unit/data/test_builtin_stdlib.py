"""The standard library as text: what is read, and that its split depends on nothing but path and seed."""

import sysconfig
from pathlib import Path

import pytest

from attentif.data.builtin import stdlib
from attentif.errors import DataError, UsageError


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small standard library of sixty modules, and what must be left out."""
    files = {f"module_{number}.py": f"# été {number}\n" for number in range(60)}
    files |= {"json/decoder.py": "x = 1\n", "empty.py": "  \n", "notes.txt": "not Python"}
    left_out = ("test/a.py", "json/tests/b.py", "idlelib/c.py", "lib2to3/d.py", "site-packages/e.py", "__pycache__/f.py")
    files |= dict.fromkeys(left_out, "y = 2\n")
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "latin.py").write_bytes("# -*- coding: latin-1 -*-\n# été\n".encode("latin-1"))
    real = sysconfig.get_path
    monkeypatch.setattr(sysconfig, "get_path", lambda name, *rest: str(tmp_path) if name == "stdlib" else real(name, *rest))
    return tmp_path


def test_documents_are_the_utf8_modules_without_tests_or_packages(library: Path) -> None:
    names = [document.name for split in stdlib.SPLITS for document in stdlib.documents(split)]
    assert sorted(names) == sorted([*(f"module_{number}.py" for number in range(60)), "json/decoder.py"])


def test_load_and_documents_agree(library: Path) -> None:
    splits = stdlib.load(5)
    for split in stdlib.SPLITS:
        assert list(zip(splits[split]["name"], splits[split]["text"], strict=True)) == list(stdlib.documents(split, 5))


def test_adding_a_file_moves_no_other(library: Path) -> None:
    before = {split: set(columns["name"]) for split, columns in stdlib.load().items()}
    (library / "a_new_one.py").write_text("z = 3\n", encoding="utf-8")
    after = {split: set(columns["name"]) for split, columns in stdlib.load().items()}
    assert all(before[split] <= after[split] for split in stdlib.SPLITS)


def test_the_seed_changes_the_split(library: Path) -> None:
    assert stdlib.load(0) != stdlib.load(1)


def test_valid_and_test_are_about_one_document_in_twenty() -> None:
    found = [stdlib.split_of(f"package/module_{number}.py") for number in range(20_000)]
    assert found.count("valid") / 20_000 == pytest.approx(0.05, abs=0.01)
    assert found.count("test") / 20_000 == pytest.approx(0.05, abs=0.01)


def test_content_hash_sees_one_changed_character_and_a_renamed_file(library: Path) -> None:
    first = stdlib.content_hash()
    assert first == stdlib.content_hash()
    (library / "module_3.py").write_text("# étés 3\n", encoding="utf-8")
    second = stdlib.content_hash()
    (library / "module_3.py").rename(library / "module_3b.py")
    assert len({first, second, stdlib.content_hash()}) == 3


def test_an_unknown_split_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match=r"choose.*train"):
        stdlib.documents("dev")


def test_a_python_without_sources_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(DataError, match="without the sources"):
        stdlib.load()


def test_the_running_python_has_json_and_no_test_suite() -> None:
    names = {name for columns in stdlib.load().values() for name in columns["name"]}
    assert "json/decoder.py" in names
    assert not any(part in stdlib.EXCLUDED for name in names for part in name.split("/"))


def test_the_same_text_is_taken_once(library: Path) -> None:
    (library / "zz_copy.py").write_text("x = 1\n", encoding="utf-8")  # what json/decoder.py says
    names = [document.name for split in stdlib.SPLITS for document in stdlib.documents(split)]
    assert "json/decoder.py" in names
    assert "zz_copy.py" not in names
