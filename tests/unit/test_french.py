"""Messages in French: found in the catalogue, filled in, and set as a French typographer does."""

import ast
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

import attentif
from attentif.cli.main import command_line
from attentif.errors import UsageError
from attentif.french import choose_language, entries, localize, to_french, typeset

SOURCES = Path(attentif.__file__).parent
EVERYDAY = (
    "cli",
    "data",
    "tasks",
    "training",
    "serve/studio",
    "inspect",
    "config.py",
    "run.py",
    "api.py",
    "bulk.py",
    "evaluation.py",
    "files.py",
    "plugin.py",
)
ENGLISH, CODE = re.compile(r"\b(the|with|of|and|to|from|by|for|is|are|which)\b"), re.compile(r"`[^`]*`|--?[\w-]+|[\w.]*\.\w+")
ERRORS = {"ConfigError", "UsageError", "DataError", "RunError"}
FEWEST = 0.97  # of all messages: a new one may wait a while for its French


@pytest.mark.parametrize(
    ("english", "french"),
    [
        ("unknown key; did you mean 'epochs'?", "clé inconnue\u202f; vouliez-vous dire 'epochs'\u202f?"),
        ("train.epochs: must be greater than 0, not 1.5", "train.epochs\u00a0: doit être supérieur à 0, et non 1.5"),  # as it is typed
        ("classes in train: 0 (3,021), 1 (30)", "classes de l’apprentissage\u00a0: 0 (3\u202f021), 1 (30)"),
        (
            "trained on 1,500 of 20,000 rows, as data.limit asks",
            "entraîné sur 1\u202f500 lignes sur 20\u202f000, comme le demande data.limit",
        ),
        ("epoch 3: 21 batches, 2.5% padding", "passage 3\u00a0: 21 lots, remplissage 2,5\u202f%"),
        (
            "valid and test cut from train at random (seed 0): 1,600 train, 200 valid, 200 test rows",
            "validation et test\u00a0: découpe de l’apprentissage au hasard (graine 0)\u202f; "
            "1\u202f600 lignes d’apprentissage, 200 de validation, 200 de test",
        ),
        (
            "warning: the model answers with numbers that are not finite",
            "attention\u00a0: the model answers with numbers that are not finite",
        ),
        ("nothing that the catalogue knows", "nothing that the catalogue knows"),
        ("97.3%", "97,3\u202f%"),
    ],
)
def test_a_message_is_recognised_and_filled_in(english: str, french: str) -> None:
    assert to_french(english) == french


def test_every_score_of_a_step_has_its_french() -> None:
    from attentif.view.words import METRICS

    english = [key for key in METRICS if to_french(f"{key} 0.5000") == f"{key} 0.5000"]
    assert not english


def test_a_baseline_is_called_in_the_terminal_as_in_the_report() -> None:
    for file in sorted((SOURCES / "tasks").rglob("*baselines.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Call(func=ast.Name(id="Text"), args=[ast.Constant(value=str(french)), ast.Constant(value=str(english))]):
                    assert to_french(english) == typeset(french), file


def test_clauses_of_one_kind_are_told_apart() -> None:
    said = to_french("linear map: as it is (ridge 1e-06, 168 steps); from the mean (ridge 0.1, 84 steps)")
    assert said == "modèle linéaire\u00a0: tel quel (pénalité 1e-06, 168 pas)\u202f; depuis la moyenne (pénalité 0,1, 84 pas)"


def test_a_name_that_holds_english_words_stays_as_it_is() -> None:
    assert "'label'" in to_french("no column is called 'label' (asked for as text); the columns are 'train', 'rows'")
    assert "'train', 'rows'" in to_french("no column is called 'label' (asked for as text); the columns are 'train', 'rows'")


def test_french_is_set_with_its_own_spaces_and_apostrophes() -> None:
    assert typeset("n'est pas « oui » : 5 % ; non ?") == "n’est pas «\u00a0oui\u00a0»\u00a0: 5\u202f%\u202f; non\u202f?"
    assert typeset("pip install 'attentif[serve]'") == "pip install 'attentif[serve]'"


def test_the_language_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ATTENTIF_LANG")
    monkeypatch.setenv("LC_ALL", "fr_FR.UTF-8")
    assert (choose_language(), localize("is empty")) == ("fr", "est vide")
    monkeypatch.setenv("ATTENTIF_LANG", "en")
    assert (choose_language(), localize("is empty")) == ("en", "is empty")
    monkeypatch.setenv("ATTENTIF_LANG", "klingon")
    with pytest.raises(UsageError, match="klingon"):
        choose_language()


def test_every_place_of_an_entry_exists_and_no_message_is_there_twice() -> None:
    found = list(entries())
    assert len({english for english, _ in found}) == len(found)
    for english, french in found:
        places = re.findall(r"\{(\d)", english)
        assert places == [str(number) for number in range(len(places))], english
        assert set(re.findall(r"\{(\d)", french)) <= set(places), english


def test_the_help_of_every_command_is_french(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTENTIF_LANG", "en")
    commands = dict(command_line().commands)
    commands |= {f"tokenizer {name}": command for name, command in commands["tokenizer"].commands.items()}
    missing = []
    for name, command in commands.items():
        about = [" ".join(part.split()) for part in (command.help or "").split("\n\n") if not part.startswith("\b")]
        for line in [*about, *(one.help for one in command.params if getattr(one, "help", None))]:
            french = to_french(line)
            left = ENGLISH.findall(CODE.sub("", french))  # where a clause has no French of its own
            if left or (french == line and line != "Port."):
                missing.append(f"{name}: {line}")
    assert not missing, "\n".join(missing)


def test_the_messages_of_everyday_commands_have_their_french() -> None:
    places, missing = 0, []
    for name in EVERYDAY:
        files = [SOURCES / name] if name.endswith(".py") else sorted((SOURCES / name).rglob("*.py"))
        for file in files:
            for line, message in messages(ast.parse(file.read_text())):
                places += 1
                if to_french(message) == message:
                    missing.append(f"{file.relative_to(SOURCES)}:{line}: {message}")
    assert places > 600
    assert len(missing) <= (1 - FEWEST) * places, "\n".join(missing)


def messages(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """What a file raises, says or notes: its line, and the message with something in each place."""
    for node in ast.walk(tree):
        values: list[ast.expr] = []
        if isinstance(node, ast.Call) and node.args:
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            owner = node.func.value if isinstance(node.func, ast.Attribute) else None
            if (
                called in ERRORS
                or called == "say"
                or (called == "append" and "notes" in (getattr(owner, "id", ""), getattr(owner, "attr", "")))
            ):
                values = node.args[:1]
        if isinstance(node, ast.AugAssign) and getattr(node.target, "id", getattr(node.target, "attr", "")) == "notes":
            values = node.value.elts if isinstance(node.value, ast.List) else [node.value]
        if isinstance(node, ast.FunctionDef) and node.name.lstrip("_").startswith("note_"):
            returned = [one.value for one in ast.walk(node) if isinstance(one, ast.Return) and one.value is not None]
            values = [part for one in returned for part in (one.elts if isinstance(one, ast.List) else [one])]
        for value in values:
            for text in dict.fromkeys(re.sub("\0+", "\0", text) for text in variants(value)):
                if re.search("[A-Za-z]{2,}", text):
                    pieces = text.split("\0")
                    yield value.lineno, pieces[0] + "".join(f"x{place}{piece}" for place, piece in enumerate(pieces[1:], 11))


def variants(node: ast.expr) -> list[str]:
    """The texts that an expression may give; a zero byte stands for what varies."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=values):
            return joined([variants(value.value if isinstance(value, ast.FormattedValue) else value) for value in values])
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return joined([variants(left), variants(right)])
        case ast.IfExp(body=body, orelse=other):
            return variants(body) + variants(other)
    return ["\0"]


def joined(parts: list[list[str]]) -> list[str]:
    return ["".join(pieces) for pieces in product(*parts)][:32]
