"""PEFT's adapter folders (LoRA), read onto the base that they name.

    adapter_config.json          r, lora_alpha, use_rslora, base_model_name_or_path ...
    adapter_model.safetensors    base_model.model.<map>.lora_A.weight (r, in), .lora_B.weight (out, r); other tensors whole

    W' = W + s B A        s = lora_alpha / r, or lora_alpha / √r with use_rslora

Maps are stored as (out, in), or the other way round in the families of CONV1D; PEFT goes by the map, whatever `fan_in_fan_out` says.

`unpack_adapter` makes a temporary folder of links to the base's files, with the adapter's tokenizer where it has one; `AdaptedTensors` are
the base's weights with the products added, under the base's own names, so that every family is read as without an adapter.
"""

import atexit
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attentif.errors import ConfigError, RunError
from attentif.files import write_json
from attentif.hub.family import HeadOf, family_of
from attentif.hub.files import CONFIG, Tensors, read_json, refuse_outer_links

ADAPTER, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
LINK = "adapter"  # in the temporary folder: the adapter's own
BODY = "adapter_body"  # there: what the names of the base's body begin with, where the adapter brings another head
# endings of transformers' classes by the task of an adapter, which may bring a head that its base does not have
CLASSES = {"SEQ_CLS": "ForSequenceClassification", "TOKEN_CLS": "ForTokenClassification", "QUESTION_ANS": "ForQuestionAnswering"}
BEFORE = "base_model.model."
CONV1D = {"gpt2": ("c_attn", "c_proj", "c_fc")}  # maps that are transformers' Conv1D, by family
# keys that change what an adapter computes, with the values that are understood
UNDERSTOOD: dict[str, tuple[Any, ...]] = {
    "peft_type": ("LORA",),
    "use_dora": (False,),
    "lora_bias": (False,),
    "use_qalora": (False,),
    "layer_replication": (None,),
    "megatron_config": (None,),
    "target_parameters": (None, []),
    "trainable_token_indices": (None,),
    # others begin by taking something away from the base, which an adapter saved afterwards counts on
    "init_lora_weights": (True, False, "gaussian", None),
}


def is_adapter(path: Path) -> bool:
    """Whether this is a folder of an adapter, without its base."""
    return (path / ADAPTER).is_file() and not (path / CONFIG).is_file()


def unpack_adapter(path: Path, find: Callable[[str], Path]) -> Path:
    """A temporary folder with links to the files of the adapter's base, which `find` finds by its name; gone when we end."""
    said = read_json(path / ADAPTER)
    check_understood(path, said)
    name = said.get("base_model_name_or_path")
    if not isinstance(name, str) or not name:
        raise ConfigError("base_model_name_or_path: is missing", file=path / ADAPTER)
    beside = path.parent / name
    try:
        base = beside if beside.is_dir() else find(name if not said.get("revision") else f"{name}@{said['revision']}")
    except RunError as error:
        raise RunError(f"base_model_name_or_path: {error}", file=path / ADAPTER) from None
    for part in (path, beside):
        refuse_outer_links(part)  # of what is no folder, none
    folder = Path(tempfile.mkdtemp(prefix="attentif-peft-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for file in base.iterdir():
        (folder / file.name).symlink_to(file.resolve())
    for file in path.iterdir():
        if "token" in file.name or file.suffix in (".jinja", ".model", ".txt"):
            (folder / file.name).unlink(missing_ok=True)
            (folder / file.name).symlink_to(file.resolve())
    (folder / LINK).symlink_to(path.resolve())
    _change_head(folder, path, CLASSES.get(str(said.get("task_type"))))
    return folder


def _change_head(folder: Path, adapter: Path, ending: str | None) -> None:
    """Name the class of the adapter's task in config.json, where the base is of another, with as many classes as the adapter has."""
    config = read_json(folder / CONFIG)
    named = config.get("architectures") or []
    if ending is None or (named and str(named[0]).endswith(ending)):
        return
    family = family_of(config.get("model_type"))
    heads = [(form, head) for form in (family, *family.others) for head in form.heads if head.architecture.endswith(ending)]
    if not heads:
        raise ConfigError(f"task_type: {family.kind} has no class that ends in {ending}", file=adapter / ADAPTER)
    form, head = heads[0]
    count = _count_classes(Tensors(adapter, WEIGHTS), head)
    if count is None:
        raise RunError(f"holds no head of {head.architecture}, which its base ({', '.join(named)}) does not have", file=adapter / WEIGHTS)
    labels = [f"LABEL_{number}" for number in range(count)]
    config |= {
        "architectures": [head.architecture],
        "id2label": dict(enumerate(labels)),
        "label2id": {name: n for n, name in enumerate(labels)},
    }
    (folder / CONFIG).unlink()
    write_json(folder / CONFIG, config)
    (folder / BODY).write_text(form.prefix, encoding="utf-8")


def _count_classes(tensors: Tensors, head: HeadOf) -> int | None:
    """How many classes the last map of a head tells apart, by the adapter's own tensors."""
    last = next(str(row.theirs).replace("{p}", "weight") for row in head.rows if str(row.ours).startswith("head.out."))
    return next((tensors.shape(name)[0] for name in tensors if name.endswith(f".{last}")), None)


def check_understood(path: Path, said: Mapping[str, Any]) -> None:
    for key, values in UNDERSTOOD.items():
        if (found := said.get(key, values[0])) not in values:
            raise ConfigError(f"{key}: {str(found)[:60]!r} is not understood (only {', '.join(map(repr, values))})", file=path / ADAPTER)


class AdaptedTensors(Mapping[str, Tensor]):
    """The weights of a base with those of an adapter added, by the base's names."""

    def __init__(self, base: Tensors, folder: Path, kind: object) -> None:
        """`kind` is the base's model_type."""
        self.base, self.folder, self.said = base, folder, read_json(folder / ADAPTER)
        self.turned = CONV1D.get(str(kind), ())
        check_understood(folder, self.said)
        self.own = Tensors(folder, WEIGHTS)
        self.files = base.files | self.own.files
        self.pairs: dict[str, str] = {}  # base's name -> the adapter's path of its map
        self.whole: dict[str, str] = {}  # base's name -> the adapter's, of what was trained whole
        for name in self.own:
            path, _, part = name.removeprefix(BEFORE).partition(".lora_")
            if part in ("A.weight", "B.weight"):
                if f"{BEFORE}{path}.lora_A.weight" not in self.own or f"{BEFORE}{path}.lora_B.weight" not in self.own:
                    raise RunError(f"has one half of the adapter of {path} only", file=folder / WEIGHTS)
                self.pairs[self._of_base(f"{path}.weight")] = path
            elif part:
                raise RunError(f"{name}: only adapters of linear maps are read", file=folder / WEIGHTS)
            else:
                whole = path.replace(".modules_to_save.default", "").replace(".modules_to_save", "").replace(".base_layer", "")
                self.whole[self._of_base(whole, new=True)] = name

    def _of_base(self, name: str, *, new: bool = False) -> str:
        """The base's name, which may have been saved without what stands before it."""
        bare = name.partition(".")[2]
        found = next((option for option in (name, bare) if option in self.base), None)
        if found is None and not new:
            raise RunError(f"adapts {name.removesuffix('.weight')}, which its base does not have", file=self.folder / WEIGHTS)
        return found or name

    def __getitem__(self, name: str) -> Tensor:
        if name in self.whole:
            return self.own[self.whole[name]]
        weight = self.base[name]
        if name not in self.pairs:
            return weight
        path = self.pairs[name]
        a, b = (self.own[f"{BEFORE}{path}.lora_{half}.weight"].float() for half in "AB")
        change = self.strength(path, len(a)) * (b @ a)
        change = change.T if path.rpartition(".")[2] in self.turned else change
        if change.shape != weight.shape:
            raise RunError(f"adapts {path} in another shape than its base has it", file=self.folder / WEIGHTS)
        return weight.to(torch.promote_types(weight.dtype, torch.float32)) + change

    def strength(self, path: str, rank: int) -> float:
        """s, of which a map may have one of its own."""
        patterns = self.said.get("alpha_pattern") or {}
        alpha = next((value for key, value in patterns.items() if re.fullmatch(rf"(.*\.)?({key})", path)), self.said.get("lora_alpha", 8))
        return float(alpha) / (rank**0.5 if self.said.get("use_rslora") else rank)

    def shape(self, name: str) -> tuple[int, ...]:
        return self.own.shape(self.whole[name]) if name in self.whole else self.base.shape(name)

    def __contains__(self, name: object) -> bool:
        return name in self.base or name in self.whole

    def __iter__(self) -> Iterator[str]:
        yield from self.base
        yield from (name for name in self.whole if name not in self.base)

    def __len__(self) -> int:
        return len(self.base) + sum(name not in self.base for name in self.whole)
