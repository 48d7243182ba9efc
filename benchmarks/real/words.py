"""Word vectors of French theatre: Word2Vec and GloVe side by side, against people."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attentif
from attentif.text.vectors import WordNeighbour
from attentif.view.words import duration

TITLE = "Real data: word vectors of French theatre"
ABOUT = """
Both with 100 components, on the 40 million characters of theatre_fr/train.txt.gz: words in lower case, seen at least five times, the 30,000
most frequent ones. Settings are the recipes' own, chosen without a look at the judgements. Similarity is Spearman's rank correlation with
rg65_fr, analogies are those of words_fr (the nearest word is the expected one). The text is of the 17th and 18th centuries: of modern words
and countries there is no vector, so the share of questions that could be asked is part of the score.
"""
LONG = False
DATA = "$ATTENTIF_DATA/theatre_fr/train.txt.gz"
COMMANDS = {
    "Word2Vec (skip-gram)": f"word2vec --data {DATA} tokenizer.min_count=5",
    "Word2Vec (CBOW)": f"word2vec --data {DATA} tokenizer.min_count=5 fit.algorithm=cbow",
    "GloVe": f"glove --data {DATA} tokenizer.min_count=5",
}
NEIGHBOURS = ["roi", "amour", "mer", "maison", "triste", "donner"]
ANALOGIES = [("roi", "homme", "femme"), ("frère", "homme", "femme"), ("père", "fils", "fille"), ("paris", "france", "espagne")]


def run(quick: bool) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as scratch:
        folders = {name: f"{scratch}/{name.split()[0].lower()}-{number}" for number, name in enumerate(COMMANDS)}
        trained = {name: _train(command, folders[name], quick) for name, command in COMMANDS.items()}
        yield "\n".join(f"`attentif train {command}`  " for command in COMMANDS.values()) + "\n"
        yield "| | similarity (Spearman) | pairs | analogies right | questions | neighbouring words recognised | time |"
        yield "|---|---|---|---|---|---|---|"
        judged = {name: [_evaluate(folder, file) for file in ("rg65_fr.tsv", "analogies.txt")] for name, folder in folders.items()}
        for name, (pairs, questions) in judged.items():
            yield (
                f"| {name} | {_interval(pairs, 'spearman')} | {pairs['examples']} ({pairs['scores']['asked']:.0%}) "
                f"| {_interval(questions, 'analogies')} | {questions['examples']:,} ({questions['scores']['asked']:.0%}) "
                f"| {trained[name]['scores']['together']:.1%} | {duration(trained[name]['cost']['seconds']).en} |"
            )
        yield "\nAnalogies by section, right of those that could be asked:\n"
        yield "| | " + " | ".join(section[0] for section in judged["GloVe"][1]["details"]["sections"]) + " |"
        yield "|---" * (1 + len(judged["GloVe"][1]["details"]["sections"])) + "|"
        for name, (_, questions) in judged.items():
            yield f"| {name} | " + " | ".join(f"{right} of {asked}" for _, right, asked, _ in questions["details"]["sections"]) + " |"
        yield "\n| | " + " | ".join(folders) + " |"
        yield "|---" * (1 + len(folders)) + "|"
        vectors = [attentif.load(folder).vectors for folder in folders.values()]
        for word in NEIGHBOURS:
            yield f"| {word} | " + " | ".join(_names(own.neighbours(word, 5)) if word in own else "" for own in vectors) + " |"
        for a, b, c in ANALOGIES:
            known = [a in own and b in own and c in own for own in vectors]
            answers = (_names(own.analogy(a, b, c)) if asked else "" for own, asked in zip(vectors, known, strict=True))
            yield f"| {a} − {b} + {c} | " + " | ".join(answers) + " |"
        yield ""


def _attentif(*words: str) -> Any:
    data = os.environ["ATTENTIF_DATA"]
    call = [sys.executable, "-m", "attentif", *(word.replace("$ATTENTIF_DATA", data) for word in words), "--json"]
    done = subprocess.run(call, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"attentif {' '.join(words)} failed ({done.returncode})")
    return json.loads(done.stdout)


def _train(command: str, folder: str, quick: bool) -> dict[str, Any]:
    short = ["fit.epochs=1", "fit.size=20", "data.limit=20000"] if quick else []
    results: dict[str, Any] = _attentif("train", *command.split(), *short, "--out", folder)
    return results


def _evaluate(folder: str, file: str) -> dict[str, Any]:
    found: dict[str, Any] = _attentif("evaluate", folder, "--data", str(Path("$ATTENTIF_DATA") / "words_fr" / file))
    return found


def _interval(found: dict[str, Any], key: str) -> str:
    value, (low, high) = found["scores"][key], found["intervals"].get(key) or (float("nan"), float("nan"))
    form = "{:.1%}" if key == "analogies" else "{:.2f}"
    return f"{form.format(value)} ({form.format(low)} to {form.format(high)})" if value is not None else "none could be asked"


def _names(found: list[WordNeighbour]) -> str:
    return ", ".join(near.word for near in found)
