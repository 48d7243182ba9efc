"""Int8 models: linear maps of mixers and the language head are quantised in place.

On disk a map `path` in bytes is `path.q` (O, I), `path.scale` (O, ⌈I/32⌉) and, where it has one, `path.bias`.
A head tied to the embedding gets its own int8 copy: `head.int8`.
"""

from torch import Tensor, nn

from attentif.models.heads import LanguageHead
from attentif.nn.int8 import Int8Linear
from attentif.nn.linear import Linear
from attentif.nn.mixer import Recordable

FEWEST = 32  # smallest inputs and outputs worth quantising


def quantize(model: nn.Module) -> list[str]:
    """Quantise the linear maps of a model in place and freeze it; return their paths."""
    found = []
    for path, module in linear_maps(model).items():
        replace_map(model, path, Int8Linear.from_weight(module.weight, module.bias))
        found.append(path)
    for path, module in list(model.named_modules()):
        if isinstance(module, LanguageHead) and module.int8 is None and module.weight.shape[1] >= FEWEST:
            module.int8 = Int8Linear.from_weight(module.weight, module.bias)
            found.append(f"{path}.int8")
    model.requires_grad_(False)
    return found


def is_int8(model: nn.Module) -> bool:
    return any(isinstance(module, Int8Linear) for module in model.modules())


def int8_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Return the stored tensors of the quantised maps."""
    tensors = {}
    for path, module in model.named_modules():
        if isinstance(module, Int8Linear):
            tensors[f"{path}.q"], tensors[f"{path}.scale"] = module.blocks()
            if module.bias is not None:
                tensors[f"{path}.bias"] = module.bias
    return tensors


def install_int8(model: nn.Module, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Install stored int8 maps in a model; return the other tensors."""
    rest = dict(tensors)
    for name in tensors:
        path = name.removesuffix(".scale")
        if name == path or f"{path}.q" not in tensors:
            continue
        replace_map(model, path, Int8Linear(rest.pop(f"{path}.q"), rest.pop(name), rest.pop(f"{path}.bias", None)))
    return rest


def linear_maps(model: nn.Module) -> dict[str, nn.Linear]:
    """The linear maps of a model's mixers by path, those apart that are too small to gain from shorter weights."""
    mixers = tuple(f"{path}." if path else "" for path, module in model.named_modules() if isinstance(module, Recordable))
    return {
        path: module
        for path, module in model.named_modules()
        if type(module) in (Linear, nn.Linear)
        and isinstance(module, nn.Linear)
        and path.startswith(mixers)
        and min(module.in_features, module.out_features) >= FEWEST
    }


def replace_map(model: nn.Module, path: str, module: nn.Module) -> None:
    parent, _, name = path.rpartition(".")
    owner = model.get_submodule(parent)
    if name not in owner._modules and not hasattr(owner, name):
        raise RuntimeError(f"unexpected: {path}")
    setattr(owner, name, module)
