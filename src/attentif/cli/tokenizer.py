"""`attentif tokenizer`: train, inspect and apply tokenizers."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attentif.cli.options import Force, Json, TextColumn
from attentif.cli.out import print_json, print_table, refuse_existing, say

if TYPE_CHECKING:
    from rich.progress import Progress

    from attentif.data.corpus import Corpus
    from attentif.text import Tokenizer, TokenizerConfig

app = typer.Typer(help="Train and inspect tokenizers.", no_args_is_help=True, rich_markup_mode=None)

COLOURS = ("black on bright_cyan", "black on bright_yellow", "black on bright_green", "black on bright_magenta", "black on bright_white")
SAMPLE = 1 << 20  # characters on which bytes per token are measured

Where = Annotated[Path, typer.Argument(metavar="TOKENIZER", help="tokenizer.json, or a run.")]


@app.command()
def train(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Text, CSV, TSV, JSONL or Parquet, gzipped or not.")],
    out: Annotated[Path, typer.Option(metavar="PLACE", help="Output folder or .json file.")],
    kind: Annotated[str, typer.Option(metavar="KIND", help="bpe, wordpiece, unigram, word, char or byte.")] = "bpe",
    vocab: Annotated[int | None, typer.Option(metavar="N", help="Vocabulary size, special tokens included.")] = None,
    min_count: Annotated[int | None, typer.Option(metavar="N", help="Minimum frequency.")] = None,
    sample: Annotated[int | None, typer.Option(metavar="N", help="Learn from N characters at most, spread evenly over the text.")] = None,
    split_digits: Annotated[bool, typer.Option("--split-digits", help="One token per digit.")] = False,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Lowercase the text first.")] = False,
    strip_accents: Annotated[bool, typer.Option("--strip-accents", help="Strip accents first.")] = False,
    special: Annotated[list[str], typer.Option(metavar="TOKEN", help="Additional special token (repeatable).")] = [],  # noqa: B006
    text: TextColumn = None,
    skip_bad: Annotated[int, typer.Option(metavar="N", min=0, help="Skip up to N invalid rows.")] = 0,
    force: Force = False,
) -> None:
    """Train a tokenizer on files.

    For example: attentif tokenizer train avis.csv --vocab 4000 --out tok.json
    """
    from attentif.data.corpus import file_corpus
    from attentif.text.tokenizer import FILE

    place = out if out.suffix == ".json" else out / FILE
    refuse_existing(place, force)
    given = {"vocab": vocab, "min_count": min_count, "sample": sample, "special": special}
    given |= {"split_digits": split_digits, "lowercase": lowercase, "strip_accents": strip_accents}
    config = _config({"kind": kind} | {key: value for key, value in given.items() if value})
    corpus = file_corpus(files, text, skip_bad)
    tokenizer = _train(config, corpus)
    for note in corpus.notes:
        say(note)
    tokenizer.save(place)
    say(f"{place}: {kind}, {tokenizer.vocab:,} tokens, {_bytes_per_token(tokenizer, corpus):.2f} bytes per token")


@app.command()
def show(
    tokenizer: Where,
    merges: Annotated[int, typer.Option(metavar="N", min=0, help="Number of merges or pieces to list.")] = 20,
    word: Annotated[str, typer.Option(metavar="WORD", help="Word to tokenize step by step.")] = "anticonstitutionnellement",
    json: Json = False,
) -> None:
    """Print the first merges and the tokenization of a word, step by step.

    For example: attentif tokenizer show tok.json --word anticonstitutionnellement
    """
    from attentif.text.explain import format_token, is_byte_level, list_learned, read_model, walk
    from attentif.text.tokenizer import Tokenizer

    loaded = Tokenizer.load(tokenizer)
    found, cuts, model = list_learned(loaded, merges), walk(loaded, word), str(read_model(loaded)["type"])
    if json:
        print_json(
            {"model": model, "vocab": loaded.vocab, "learned": [asdict(each) for each in found], "cuts": [asdict(cut) for cut in cuts]}
        )
        return
    byte_level = is_byte_level(loaded)
    say(f"{model}, {loaded.vocab:,} tokens")
    if found:
        rows = [_format_learned(each, byte_level) for each in found]
        print_table(["", *(["pair"] if found[0].pair else []), "token", *(["log-probability"] if found[0].score else [])], rows)
    for cut in cuts:
        print(format_token(cut.word, byte_level))
        for step in cut.steps:
            pair = f": {_pair(step.pair, byte_level)}" if step.pair else ""
            _print_line(f"  {step.said + pair:<28} ", [format_token(symbol, byte_level) for symbol in step.symbols])


@app.command()
def encode(
    tokenizer: Where,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Text to encode.")],
    pair: Annotated[str | None, typer.Option(metavar="TEXT", help="Second text of a pair.")] = None,
    json: Json = False,
) -> None:
    """Print the tokens and ids of a text.

    For example: attentif tokenizer encode tok.json "Quel film !"
    """
    from attentif.text.explain import format_token, is_byte_level
    from attentif.text.tokenizer import Tokenizer

    loaded = Tokenizer.load(tokenizer)
    encoding = loaded.encode(text, pair)
    size = len(text.encode()) + len((pair or "").encode())
    plain = sum(len(part) for part in encoding.parts if not isinstance(part, tuple))  # special tokens stand for no byte
    ratio = round(size / plain, 2) if plain else 0.0
    if json:
        print_json(
            {
                "tokens": encoding.tokens,
                "ids": encoding.ids,
                "segments": encoding.segments,
                "offsets": encoding.offsets,
                "bytes_per_token": ratio,
            }
        )
        return
    byte_level = is_byte_level(loaded)
    _print_line("", [format_token(token, byte_level) for token in encoding.tokens])
    print(" ".join(map(str, encoding.ids)))
    if pair is not None:
        print(" ".join(map(str, encoding.segments)))
    say(f"{len(encoding)} tokens, {plain} of them text: {ratio} bytes per token")


def _config(values: dict[str, Any]) -> "TokenizerConfig":
    from attentif.config import Document, Layer
    from attentif.text import TOKENIZERS

    return Document([Layer(values, f"tokenizer {values['kind']}")]).build(TOKENIZERS[values["kind"]])


class _ProgressTexts:
    """A corpus' texts, as often as asked for, each pass moving a progress bar."""

    def __init__(self, corpus: "Corpus", bar: "Progress") -> None:
        self.corpus, self.bar = corpus, bar
        self.task = bar.add_task("reading", total=corpus.size)

    def __iter__(self) -> Iterator[str]:
        self.bar.reset(self.task, total=self.corpus.size, description="reading")
        for text in self.corpus.texts():
            self.bar.advance(self.task, len(text.encode()))
            yield text
        self.bar.update(self.task, total=None, description="learning")


def _train(config: "TokenizerConfig", corpus: "Corpus") -> "Tokenizer":
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        return config.fit(config.sample_texts(_ProgressTexts(corpus, bar), say))


def _bytes_per_token(tokenizer: "Tokenizer", corpus: "Corpus") -> float:
    size = tokens = 0
    for text in corpus.texts():
        size += len(text.encode())
        tokens += len(tokenizer.ids_batch([text], wrap="none")[0])
        if size >= SAMPLE:
            break
    return size / max(1, tokens)


def _format_learned(each: Any, byte_level: bool) -> list[str]:
    from attentif.text.explain import format_token

    pair = [_pair(each.pair, byte_level)] if each.pair else []
    return [str(each.rank + 1), *pair, format_token(each.result, byte_level), *([f"{each.score:.3f}"] if each.score else [])]


def _pair(pair: tuple[str, str], byte_level: bool) -> str:
    from attentif.text.explain import format_token

    return " + ".join(format_token(symbol, byte_level) for symbol in pair)


def _print_line(lead: str, tokens: Sequence[str]) -> None:
    """Tokens side by side in colours; between bars where there are none."""
    from rich.console import Console
    from rich.text import Text

    console = Console(width=None if sys.stdout.isatty() else 1 << 16)
    line: Text = Text(lead)
    if console.color_system is None or console.no_color:
        line.append("|".join(tokens))
    else:
        for number, token in enumerate(tokens):
            line.append(token, COLOURS[number % len(COLOURS)])
    console.print(line, soft_wrap=True)
