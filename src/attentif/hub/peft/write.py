"""An adapted model as PEFT's adapter folder (LoRA)."""

from pathlib import Path
from typing import Any

from torch import Tensor

from attentif.errors import ConfigError
from attentif.files import write_json
from attentif.hub.family import Family, HeadOf
from attentif.hub.folder import match_own
from attentif.hub.peft.read import ADAPTER, BEFORE, WEIGHTS
from attentif.hub.rows import Same, Transposed
from attentif.hub.stream import on_meta, write_stream
from attentif.models import Model
from attentif.nn.adapt import LowRank, saved_state_dict

TASK_TYPES = {
    "language": "CAUSAL_LM",
    "text-to-text": "SEQ_2_SEQ_LM",
    "classify": "SEQ_CLS",
    "tag": "TOKEN_CLS",
    "answer": "QUESTION_ANS",
}


def write_adapter(folder: Path, model: Model, *, family: Family, head: HeadOf, base: str) -> None:
    """An adapted model as a folder that PEFT puts onto `base`, by the names that the family has for its maps."""
    maps = {name: module for name, module in model.named_modules() if isinstance(module, LowRank)}
    if not maps:
        raise ConfigError("this model has no adapters")
    kept = saved_state_dict(model)
    matched = match_own(family, head, model.config, {name: t for name, t in model.state_dict().items() if ".lora_" not in name})
    tensors: dict[str, Tensor] = {}
    targets, whole, turned = [], [], set()
    for their_names, our_names, operation in matched.pairs:
        adapted = [name for name in our_names if name.removesuffix(".weight") in maps and name.endswith(".weight")]
        if not adapted:
            if our_names and {*our_names} <= {*kept}:
                for name, tensor in zip(their_names, operation.write([kept[own] for own in our_names]), strict=True):
                    tensors[BEFORE + name] = tensor
                    whole.append(name.rpartition(".")[0])
            continue
        if not isinstance(operation, Same | Transposed) or maps[adapted[0].removesuffix(".weight")].base.ndim != 2:
            raise ConfigError(f"{family.kind} has no map of its own for {adapted[0].removesuffix('.weight')}, and PEFT adapts whole maps")
        module, path = maps[adapted[0].removesuffix(".weight")], their_names[0].removesuffix(".weight")
        targets.append(path)
        turned.add(isinstance(operation, Transposed))
        tensors |= {f"{BEFORE}{path}.lora_A.weight": module.lora_a.detach(), f"{BEFORE}{path}.lora_B.weight": module.lora_b.detach()}
    if len(turned) > 1:
        raise ConfigError(f"{family.kind} stores some of the adapted maps transposed, and PEFT has one word for all of them")
    config = next(iter(maps.values())).config
    said: dict[str, Any] = {"peft_type": "LORA", "task_type": TASK_TYPES.get(head.task or ""), "base_model_name_or_path": base}
    said |= {"r": config.rank, "lora_alpha": config.alpha, "lora_dropout": config.dropout, "use_rslora": config.stabilised}
    said |= {"target_modules": targets, "modules_to_save": sorted({*whole}) or None, "fan_in_fan_out": True in turned}
    folder.mkdir(parents=True, exist_ok=True)
    write_stream(folder / WEIGHTS, dict(on_meta(tensors)), iter(tensors.items()))
    write_json(folder / ADAPTER, said | {"bias": "none", "inference_mode": True, "init_lora_weights": True})
