"""Models: frontend, stacks, head, and the presets."""

import attentif.nn.ffn
import attentif.nn.mixers  # noqa: F401  both register what `kind` may name
from attentif.models.batch import Batch, Input
from attentif.models.config import ModelConfig, resolve
from attentif.models.model import Model, build, eval_mode
from attentif.models.presets import preset_description, preset_layer, preset_names

__all__ = ["Batch", "Input", "Model", "ModelConfig", "build", "eval_mode", "preset_description", "preset_layer", "preset_names", "resolve"]
