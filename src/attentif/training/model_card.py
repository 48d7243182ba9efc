"""README.md of an exported model: what it is, what it was trained on, what it scored, how to use it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attentif.hub.source import NAME
from attentif.models import Model
from attentif.training.config import StoredConfig
from attentif.version import __version__

ONNX_TEXTS = """import numpy, onnxruntime, tokenizers

tokenizer = tokenizers.Tokenizer.from_file("PATH/tokenizer.json")
tokenizer.enable_truncation({max_len})
tokenizer.enable_padding()
graph = onnxruntime.InferenceSession("PATH/model.onnx")
read = tokenizer.encode_batch(["..."])
inputs = {{{inputs}}}
answers = dict(zip({outputs}, graph.run(None, inputs)))"""
ONNX_FIELDS = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
ONNX_PICTURES = """import numpy, onnxruntime

graph = onnxruntime.InferenceSession("PATH/model.onnx")
pixels = numpy.zeros((1, {channels}, {height}, {width}), numpy.float32)  # from 0 to 255, as in the file, of this size
answers = dict(zip({outputs}, graph.run(None, {{"pixel_values": pixels}})))"""
PIPELINES = {
    "classify": "text-classification",
    "tag": "token-classification",
    "answer": "question-answering",
    "masked": "fill-mask",
    "language": "text-generation",
    "translate": "translation",
    "summarise": "summarization",
    "text-to-text": "text2text-generation",
    "image": "image-classification",
    "speech": "automatic-speech-recognition",
    "embed": "sentence-similarity",
}


def model_card(
    config: StoredConfig, labels: Sequence[str], model: Model, family: str, architecture: str, results: Mapping[str, Any], caveat: str = ""
) -> str:
    """The page; `caveat` is what the run does to the network's answers, which transformers does not."""
    base = config.model.from_
    header = {
        "library_name": "sentence-transformers" if config.task.kind == "embed" else "transformers",
        "pipeline_tag": PIPELINES.get(config.task.kind),
        "base_model": base if base is not None and NAME.fullmatch(base) and not Path(base).exists() else None,
    }
    lines = ["---", *(f"{key}: {value}" for key, value in header.items() if value), "tags:", f"- {family}", "- attentif", "---", ""]
    name = config.made.recipe if config.made is not None else family
    lines += [f"# {Path(name).name}", ""]
    lines += [f"`{architecture}` of {sum(model.sizes().values()):,} parameters, written by Attentif {__version__}.", ""]
    if config.train is None:
        lines += [f"It was imported from `{name}`: its data and its training are described there.", ""]
    else:
        lines += _training(config, results)
    if caveat:
        lines += [f"The scores are the run's, whose answers are not the network's own ({caveat}). This folder holds the network alone.", ""]
    if labels:
        shown = ", ".join(f"`{label}`" for label in labels[:50])
        lines += ["## Classes", f"{shown}{', ...' if len(labels) > 50 else ''}", ""]
    return "\n".join([*lines, "## Use", "```python", *_use(config.task.kind, architecture), "```", ""])


def onnx_card(config: StoredConfig, about: Mapping[str, Any], model: Any, results: Mapping[str, Any], note: str) -> str:
    """The page beside an ONNX graph; `about` is what its JSON says of inputs and outputs."""
    name = Path(config.made.recipe if config.made is not None else config.task.kind).name
    lines = [f"# {name}", "", f"An ONNX graph of {sum(model.sizes().values()):,} parameters, written by Attentif {__version__}.", ""]
    lines += _training(config, {} if note else results) if config.train is not None else []
    lines += [note[0].upper() + note[1:] + ".", ""] if note else []
    if about["labels"]:
        shown = ", ".join(f"`{label}`" for label in about["labels"][:50])
        lines += ["## Classes", f"{shown}{', ...' if len(about['labels']) > 50 else ''}", ""]
    if "label" in about["outputs"]:
        what = "0 or 1 for each label" if about["several"] else "the number of the class that is answered"
        curve = "sigmoid" if about["several"] else "softmax"
        lines += [f"Calibration is in the graph: the {curve} of `logits` is the probability, `label` {what}.", ""]
    fields = ", ".join(f'"{key}": numpy.array([one.{ONNX_FIELDS[key]} for one in read])' for key in about["inputs"] if key in ONNX_FIELDS)
    use = (ONNX_PICTURES if "pixel_values" in about["inputs"] else ONNX_TEXTS).format(**{**about, "inputs": fields})
    return "\n".join([*lines, "## Use", "```python", use, "```", ""])


def _training(config: StoredConfig, results: Mapping[str, Any]) -> list[str]:
    assert config.made is not None
    digest = f" (SHA-256 of the data `{config.made.data[:16]}`)" if config.made.data else ""
    begun = f", begun with the weights of `{config.model.from_}`" if config.model.from_ else ""
    lines = ["## Training", f"Task `{config.task.kind}`, recipe `{config.made.recipe}`{digest}{begun}.", ""]
    if scores := results.get("scores"):
        rows = [f"| {key} | {value:.4g} |" for key, value in scores.items() if isinstance(value, int | float)]
        lines += ["## Scores on the test split", "| score | value |", "|---|---|", *rows, ""]
    return lines


def _use(task: str, architecture: str) -> list[str]:
    if task in PIPELINES and task not in ("embed", "text-to-text", "translate", "summarise"):
        return ["from transformers import pipeline", "", f'pipeline("{PIPELINES[task]}", model="PATH")']
    tokenizer = 'tokenizer, model = AutoTokenizer.from_pretrained("PATH"), '
    return [f"from transformers import AutoTokenizer, {architecture}", "", f'{tokenizer}{architecture}.from_pretrained("PATH")']
