"""Where a model comes from: a folder, or a name at Hugging Face (`org/name`, `org/name@revision`, or short: `camembert-base`).

A name that the cache of huggingface_hub knows is taken from there, without a word over the network; another is downloaded to it, and only
the files that are read: weights as safetensors, configuration, vocabulary.
"""

import re
from pathlib import Path

from attentif.errors import RunError
from attentif.hub.files import CONFIG, INDEX, WEIGHTS, shards_of
from attentif.hub.gguf.read import is_gguf, unpack_gguf
from attentif.hub.peft.read import ADAPTER, is_adapter, unpack_adapter
from attentif.hub.peft.read import WEIGHTS as ADAPTED

NAME = re.compile(r"[\w.-]+/[\w.-]+(@[\w./-]+)?")
# the models that go by a short name, and whose they are; caches have them under either
OWNERS = {
    "almanach": ("camembert-base", "camembert-large"),
    "google-bert": tuple(f"bert-{rest}" for rest in (
        "base-uncased", "base-cased", "large-uncased", "large-cased", "base-multilingual-cased", "base-multilingual-uncased"
    )),
    "FacebookAI": ("roberta-base", "roberta-large", "xlm-roberta-base"),
    "distilbert": ("distilbert-base-uncased", "distilbert-base-cased", "distilbert-base-multilingual-cased"),
    "openai-community": ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"),
    "google-t5": ("t5-small", "t5-base", "t5-large"),
}  # fmt: skip
SHORT = {name: f"{owner}/{name}" for owner, names in OWNERS.items() for name in names}
READ = ["*.json", "*.safetensors", "*.model", "*.spm", "*.txt", "*.jinja"]  # never *.bin, *.py
UNREAD = ["onnx/*", "openvino/*", "*/onnx/*", "original/*"]  # the same weights in other formats


def refuse_missing(source: str | Path) -> None:
    """Refuse what is neither there nor the name of a model."""
    path, short = Path(source), str(source).partition("@")[0]
    if not path.exists() and short not in SHORT and (not NAME.fullmatch(str(source)) or path.parent.is_dir()):
        raise RunError("no such run or folder", file=path)  # runs/typo is no name: runs/ is a folder here


def folder_of(source: str | Path) -> Path:
    """The folder that `source` is, or that holds the model of that name; of an adapter, one with its base."""
    path = Path(source)
    if is_gguf(path):
        return unpack_gguf(path)
    if path.exists():
        return unpack_adapter(path, folder_of) if is_adapter(path) else path
    refuse_missing(source)
    name = str(source)
    short, _, revision = name.partition("@")
    if short in SHORT:
        return (
            _find_cached(short, revision or None)
            or _find_cached(SHORT[short], revision or None)
            or _download(SHORT[short], revision or None)
        )
    repository, _, revision = name.partition("@")
    found = _find_cached(repository, revision or None) or _download(repository, revision or None)
    return unpack_adapter(found, folder_of) if is_adapter(found) else found


def _find_cached(name: str, revision: str | None) -> Path | None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(name, revision=revision, local_files_only=True))
    except LocalEntryNotFoundError:
        return None
    return folder if _whole(folder) else None  # another program may have fetched a part


def _whole(folder: Path) -> bool:
    """Whether configuration and weights are there, with all their shards."""
    if all((folder / name).is_file() for name in (ADAPTER, ADAPTED)):
        return True
    weights = [WEIGHTS]
    if not (folder / WEIGHTS).is_file() and (folder / INDEX).is_file():
        weights = list(shards_of(folder).values())
    return all((folder / name).is_file() for name in {CONFIG, *weights})


def _download(name: str, revision: str | None) -> Path:
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
