"""Where a model comes from: a folder, or a name at Hugging Face (`org/name`, `org/name@revision`).

A name that the cache of huggingface_hub knows is taken from there, without a word over the network; another is downloaded to it, and only
the files that are read: weights as safetensors, configuration, vocabulary.
"""

import re
from pathlib import Path

from attentif.errors import RunError
from attentif.hub.files import CONFIG, INDEX, WEIGHTS, shards_of

NAME = re.compile(r"[\w.-]+/[\w.-]+(@[\w./-]+)?")
READ = ["*.json", "*.safetensors", "*.model", "*.spm", "*.txt", "*.jinja"]  # never *.bin, *.py
UNREAD = ["onnx/*", "openvino/*", "*/onnx/*", "original/*"]  # the same weights in other formats


def folder_of(source: str | Path) -> Path:
    """The folder that `source` is, or that holds the model of that name."""
    path = Path(source)
    if path.exists():
        return path
    name = str(source)
    if not NAME.fullmatch(name) or path.parent.is_dir():  # runs/typo is no name: runs/ is a folder here
        raise RunError("no such run or folder", file=path)
    repository, _, revision = name.partition("@")
    return _cached(repository, revision or None) or _downloaded(repository, revision or None)


def _cached(name: str, revision: str | None) -> Path | None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(name, revision=revision, local_files_only=True))
    except LocalEntryNotFoundError:
        return None
    return folder if _whole(folder) else None  # another program may have fetched a part


def _whole(folder: Path) -> bool:
    """Whether configuration and weights are there, with all their shards."""
    weights = [WEIGHTS]
    if not (folder / WEIGHTS).is_file() and (folder / INDEX).is_file():
        weights = list(shards_of(folder).values())
    return all((folder / name).is_file() for name in {CONFIG, *weights})


def _downloaded(name: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=READ, ignore_patterns=UNREAD))
    except GatedRepoError:
        why = "its owner asks for your agreement: accept it on the model's page and log in with `hf auth login`"
    except RevisionNotFoundError:
        why = f"it has no revision {revision!r}"
    except RepositoryNotFoundError:
        why = "there is no folder of that name here, and no such model at Hugging Face (or it is private: `hf auth login`)"
    except Exception as error:  # of the network, by whichever library brings it
        why = (
            f"cannot be downloaded ({type(error).__name__}); there is no such folder here, nor such a model, whole, in the cache: look at "
            f"the path again or, where there is a network, run `hf download {name} --local-dir {name.rpartition('/')[2]}`, "
            "and give that folder"
        )
    raise RunError(why, file=name)
