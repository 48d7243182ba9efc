"""Small tables for the tests of this folder, and how they are loaded."""

from pathlib import Path

from attentif.data import CLASSIFY, DataConfig, load_table


def table(path: Path, header: str, rows: list[str]) -> str:
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return str(path)


def reviews(path: Path, count: int = 100, header: str = "text,label") -> str:
    return table(path, header, [f"avis numéro {i},{'positif' if i % 4 else 'négatif'}" for i in range(count)])


def load(roles=CLASSIFY, **values):
    return load_table(DataConfig(**values), roles)


def labelled(path: Path, labels: list[str]) -> str:
    return table(path, "text,label", [f"avis {i},{label}" for i, label in enumerate(labels)])
