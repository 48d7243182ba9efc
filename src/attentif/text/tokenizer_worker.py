"""Worker process that loads and tries a third-party `tokenizer.json`.

    python -I tokenizer_worker.py FILE MEGABYTES SECONDS FOLDER ...      > verdict as JSON

A tokenizer file holds regular expressions and tables that a Rust library trusts: a bad one panics, aborts the process, backtracks for
ever or doubles a text until memory is gone. None of that can be caught in the process it happens in, so it happens here first, under
limits of the operating system. The folders are where the `tokenizers` package is installed.

verdict   {"message": ""} where it works, {"message": "what is wrong"} where it does not
"""

import json
import sys
from pathlib import Path

# Ordinary text, then what makes a bad expression backtrack: long runs of one class of characters, alternations, unusual scripts.
PROBES = (
    "Les 3 chats (gris) dorment ; it's 12:30, n'est-ce pas ?\n\tx = f(1e-3)",
    "a" * 2000 + "!",
    "ab" * 1000 + "!",
    " " * 2000 + "a",
    "1" * 2000 + "x",
    "." * 2000,
    "é\u0301\u200d漢字🙂" * 200,
    "",
)
LARGEST_ID = 10_000_000


def limit(megabytes: int, seconds: int) -> None:
    """Limit memory, processor time and written files; Windows relies on the parent's timeout."""
    try:
        import resource
    except ImportError:
        return
    for what, most in ((resource.RLIMIT_AS, megabytes * 2**20), (resource.RLIMIT_CPU, seconds), (resource.RLIMIT_FSIZE, 0)):
        try:
            resource.setrlimit(what, (most, most))
        except (ValueError, OSError):  # macOS has no limit of memory
            continue


def try_tokenizer(file: Path) -> str:
    """Return what is wrong with a tokenizer, or an empty text."""
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_str(file.read_text(encoding="utf-8"))
        if (largest := max(tokenizer.get_vocab(with_added_tokens=True).values(), default=0)) > LARGEST_ID:
            return f"it has a token of number {largest:,}"
        for probe in PROBES:
            try:
                ids = tokenizer.encode(probe).ids
            except Exception:  # no token for these characters: an error of that text, not of the tokenizer
                continue
            if bad := [token for token in ids if tokenizer.id_to_token(token) is None]:
                return f"it answers token {bad[0]}, which its vocabulary does not have"
            tokenizer.decode(ids)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a Rust panic is no Exception
        return str(error) or type(error).__name__
    return ""


def main() -> None:
    file, megabytes, seconds, *folders = sys.argv[1:]
    sys.path += [folder for folder in folders if folder not in sys.path]
    import tokenizers  # noqa: F401  before the limits: what is imported is known

    limit(int(megabytes), int(seconds))
    message = " ".join(try_tokenizer(Path(file)).split())[:200]
    sys.stdout.write(json.dumps({"message": message}))


if __name__ == "__main__":
    main()
