"""`attentif embed`: embeddings of texts."""

import re
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attentif.cli.options import ClusterAddress, Device, Force, Json, Precision, RunPath, TextColumn, Threads
from attentif.cli.out import check_out, print_json, print_table, say, show_progress
from attentif.errors import UsageError

if TYPE_CHECKING:
    from attentif.tasks.embeddings.sentences import Vectors


def embed(
    run: RunPath,
    texts: Annotated[
        list[str],
        typer.Argument(metavar="FILE|TEXT", help="A file of texts; or texts, pictures, a folder of pictures.", show_default=False),
    ],
    text: TextColumn = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the vectors to this file: .npz, .safetensors or .csv.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the vectors of a file that were interrupted.")] = False,
    force: Force = False,
    near: Annotated[str | None, typer.Option(metavar="TEXT", help="Print the texts or pictures nearest to this text or picture.")] = None,
    count: Annotated[int, typer.Option("--count", "-n", metavar="N", min=1, help="Number of nearest ones.")] = 5,
    pooling: Annotated[
        str | None,
        typer.Option(
            metavar="HOW", help="Pooling: mean, first (or cls), last, max; by default the checkpoint's own, or mean.", show_default=False
        ),
    ] = None,
    normalise: Annotated[bool, typer.Option(help="L2-normalise the vectors.")] = True,
    json: Json = False,
    cluster: ClusterAddress = None,
    device: Device = "auto",
    threads: Threads = 0,
    precision: Precision = "float32",
) -> None:
    """Embed texts or pictures, to store, search or compare.

    RUN is any text model, for example a sentence encoder from Hugging Face (all-MiniLM-L6-v2); or one of pictures (DINOv2), or of both
    (CLIP, SigLIP). A file is read in constant memory; --resume continues an interrupted command.

    \b
    For example:
    attentif embed RUN avis.csv --text avis --out vectors.npz
    attentif embed RUN avis.csv --near "trop long" --count 5
    attentif embed RUN "Le chat dort." "A cat is sleeping." "La bourse chute."
    attentif embed CLIP photo.jpg "a photo of a cat" "a photo of a dog"
    attentif embed CLIP photos/ --near "a dog on a beach"
    """
    check_out(out, force or resume)
    given = find_pictures(texts)
    file = None if given is not None else _file_of(texts, text, out, near, resume)
    if given is not None:
        check_pictures(given, text, out, near, resume, cluster)
        texts = [str(one) for one in given]
    from attentif.api import load
    from attentif.tasks.batches import format_count

    with show_progress("loading the model", machine=json):
        loaded = load(run, device=device, threads=threads, precision=precision)
    with show_progress("counting rows" if file is not None else "reading the inputs", machine=json) as watch, ExitStack() as stack:
        progress = lambda done, total: watch.work("embed", done, total)
        if cluster is None:
            embed_all: Any = lambda some: loaded.embed(some, pooling=pooling, normalise=normalise, say=watch.say)
        else:
            from attentif.cluster import open_cluster
            from attentif.remote import RemoteRun, embed_on

            workers = stack.enter_context(open_cluster(cluster))
            remote = RemoteRun.of(run, device=device, precision=precision, pooling=pooling, normalise=normalise)
            embed_all = lambda some: embed_on(workers, remote, some)
        asked = None if near is None else (find_pictures([near]) or [near])
        seen = None if asked is None else Nearest(loaded.embed(asked, pooling=pooling)[0], count)
        see = None if seen is None else seen.add
        if file is not None and out is not None:
            how: Any = {"column": text, "pooling": pooling, "normalise": normalise, "resume": resume, "force": force}
            written = loaded.embed_file(file, out, embed=embed_all, say=watch.say, progress=progress, see=see, **how)
        elif file is not None and see is not None:
            _look_through(file, text, embed_all, see, progress, watch.say)
        else:
            vectors = embed_all(texts if given is None else given)
            lines = list(range(1, len(texts) + 1))
            if see is not None:
                see(lines, texts, vectors)
            if out is not None:
                written = _write_typed(out, lines, texts, vectors, {"run": str(run), "pooling": pooling or "its own"})
    if out is not None:
        say(f"{format_count(written, 'vector')} written to:" if written else f"{out} was complete already")
        print(out)
    if seen is not None:
        _print_nearest(seen, json)
    elif out is None:
        _print_cosines(texts, vectors, json, match_given(loaded, given, vectors))


def find_pictures(words: list[str]) -> list[str | Path] | None:
    """Texts, and paths where words are files of pictures; the pictures of a folder; None where there is no picture."""
    from attentif.data.picture_files import SUFFIXES

    shown = lambda path: path.suffix.lower() in SUFFIXES and path.is_file()
    if len(words) == 1 and (folder := Path(words[0])).is_dir():
        if not (found := sorted(path for path in folder.rglob("*") if shown(path))):
            raise UsageError(f"{folder} holds no pictures ({', '.join(SUFFIXES)})")
        return [*found]
    if lost := [word for word in words if Path(word).suffix.lower() in SUFFIXES and " " not in word and not Path(word).is_file()]:
        raise UsageError(f"{lost[0]}: no such picture")
    given: list[str | Path] = [Path(word) if shown(Path(word)) else word for word in words]
    return given if any(isinstance(one, Path) for one in given) else None


def check_pictures(
    given: list[str | Path], column: str | None, out: Path | None, near: str | None, resume: bool, cluster: str | None
) -> None:
    """Refuse options that are for files of texts."""
    from attentif.data.sentences import SUFFIXES, check_vectors_path

    if out is not None:
        check_vectors_path(out)
    if column is not None or resume or cluster is not None:
        raise UsageError("--text, --resume and --cluster are for a file of texts, not for pictures")
    if out is None and near is None and len(given) < 2:
        raise UsageError(f"say where the vector goes (--out FILE{SUFFIXES[0]}), what to look for (--near TEXT), or what to compare it with")


@dataclass(frozen=True)
class Matches:
    """How probably each text is that of each picture."""

    pictures: list[str]
    texts: list[str]
    probabilities: "Vectors"

    def as_json(self) -> dict[str, Any]:
        return {"pictures": self.pictures, "matches": self.probabilities.round(6).tolist()}

    def print(self) -> None:
        rows = [[name, *(f"{value:.3f}" for value in row)] for name, row in zip(self.pictures, self.probabilities, strict=True)]
        print_table(["picture", *self.texts], rows, title="probabilities")


def match_given(run: Any, given: list[str | Path] | None, vectors: "Vectors") -> Matches | None:
    """Of pictures beside texts, by a model that was trained to compare them."""
    from attentif.tasks.embeddings.pictures import compares, match_pictures

    shown = [row for row, one in enumerate(given or ()) if isinstance(one, Path)]
    said = [row for row, one in enumerate(given or ()) if isinstance(one, str)]
    if given is None or not shown or not said or not compares(run.network):
        return None
    found = match_pictures(run.network, vectors[shown], vectors[said])
    return Matches([str(given[row]) for row in shown], [str(given[row]) for row in said], found)


class Nearest:
    """The texts nearest to a question among all that were seen."""

    def __init__(self, asked: "Vectors", count: int) -> None:
        self.asked, self.count = asked, count
        self.rows: list[tuple[float, int, str]] = []  # cosine, line, text; nearest first

    def add(self, lines: list[int], texts: list[str], vectors: "Vectors") -> None:
        from attentif.tasks.embeddings.sentences import nearest

        self.rows += [(cosine, lines[row], texts[row]) for row, cosine in nearest(self.asked, vectors, self.count)]
        self.rows = sorted(self.rows, key=lambda row: (-row[0], row[1]))[: self.count]


def _look_through(file: Path, column: str | None, embed_all: Any, see: Any, progress: Any, tell: Any) -> None:
    """Read a file of texts in constant memory, and show every chunk of them."""
    from attentif.bulk import embed_into
    from attentif.data.input_rows import count_rows
    from attentif.data.sentences import iterate_sentences
    from attentif.tasks.batches import format_count

    blank = embed_into(iterate_sentences(file, column), embed_all, see, total=count_rows(file), progress=progress)
    if blank:
        tell(f"{format_count(blank, 'blank line')} skipped")


def _write_typed(out: Path, lines: list[int], texts: list[str], vectors: "Vectors", about: dict[str, str]) -> int:
    from attentif.data.vector_file import VectorFile

    with VectorFile.create(out, "") as written:
        written.append(lines, texts, vectors)
        written.complete(about)
    return len(lines)


def _file_of(texts: list[str], column: str | None, out: Path | None, near: str | None, resume: bool) -> Path | None:
    """The input file, or None for texts typed on the command line."""
    from attentif.data.sentences import SUFFIXES, check_vectors_path

    if out is not None:
        check_vectors_path(out)
    if column is not None and len(texts) > 1:
        raise UsageError("--text names a column of a file: give one FILE, or texts")
    file = Path(texts[0]) if len(texts) == 1 and (column is not None or _is_file(texts[0])) else None
    if resume and (file is None or out is None or near is not None):
        raise UsageError("--resume continues the vectors of FILE in --out, without --near")
    if out is None and near is None and (file is not None or len(texts) < 2):
        raise UsageError(
            f"say where the vectors go (--out FILE{SUFFIXES[0]}) or what to look for (--near TEXT)"
            if file is not None
            else f"{texts[0]!r} is not a file: give one, or at least two texts"
        )
    return file


def _is_file(word: str) -> bool:
    """Whether a word is, or looks like, the name of a file."""
    return Path(word).is_file() or re.fullmatch(r"\S+\.[A-Za-z]\w*", word) is not None


def _print_nearest(seen: Nearest, json: bool) -> None:
    if json:
        print_json([dict(zip(("cosine", "line", "text"), row, strict=True)) for row in seen.rows])
    else:
        print_table(["cosine", "line", "text"], [[f"{cosine:.3f}", f"{line}", text] for cosine, line, text in seen.rows])


def _print_cosines(texts: list[str], vectors: "Vectors", json: bool, matched: "Matches | None" = None) -> None:
    from attentif.tasks.embeddings.sentences import cosines

    table = cosines(vectors)
    if json:
        print_json({"texts": texts, "cosines": table.round(6).tolist()} | ({} if matched is None else matched.as_json()))
        return
    if matched is not None:
        matched.print()
    rows = [[f"{number}", *(f"{value:.3f}" for value in row), text] for number, (row, text) in enumerate(zip(table, texts, strict=True), 1)]
    print_table(["", *map(str, range(1, len(texts) + 1)), "text"], rows, title="cosines")
