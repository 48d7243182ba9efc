"""The weights of a folder by name: safetensors, alone or with an adapter, or the GGUF file that a temporary folder points at."""

from pathlib import Path

from attentif.hub.files import CONFIG, Tensors, read_json
from attentif.hub.gguf.read import LINK, GgufTensors
from attentif.hub.mxfp4 import BLOCKS, Mxfp4Tensors
from attentif.hub.peft.read import BODY, AdaptedTensors
from attentif.hub.peft.read import LINK as ADAPTER


def open_tensors(folder: Path) -> Tensors | GgufTensors | AdaptedTensors:
    """Its tensors, none of which is read yet."""
    if (folder / LINK).is_symlink():
        return GgufTensors(folder, read_json(folder / CONFIG))
    body = (folder / BODY).read_text(encoding="utf-8") if (folder / BODY).is_file() else ""
    base = Tensors(folder).text().with_prefix(body)
    base = Mxfp4Tensors(base) if any(name.endswith(BLOCKS) for name in base) else base
    if not (folder / ADAPTER).is_symlink():
        return base
    return AdaptedTensors(base, (folder / ADAPTER).resolve(), read_json(folder / CONFIG).get("model_type"))


def weight_files(folder: Path) -> list[Path]:
    """The files that the weights are in."""
    return sorted(set(open_tensors(folder).files.values()))
