"""A run as an ONNX graph for onnxruntime, with a batch and a length of any size, and what is needed to use it beside it.

    model.onnx  tokenizer.json  tokenizer_config.json  special_tokens_map.json  attentif.json  README.md

Calibration is in the graph: the softmax of its logits is the probability that the run answers, `label` its decision. Mixers that are
loops of compiled code have no place in ONNX and are refused by name; recurrent cells become a `Scan`.
"""

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attentif.errors import AttentifError, ConfigError, RunError
from attentif.extras import is_installed, require_extra
from attentif.files import write_json, write_text
from attentif.hub.task_files import count_segments, frame_tokenizer, longest_text
from attentif.hub.tokenizer_files import write_tokenizer_files
from attentif.models import Batch, Input, ModelConfig, eval_mode
from attentif.models.frontends import TokensConfig
from attentif.models.frontends.pictures import PictureConfig
from attentif.models.heads.crf import CRFHeadConfig
from attentif.nn.mixer import Recordable
from attentif.nn.seq import Seq
from attentif.tasks.base import AnyTask, TaskState, Tokenizers
from attentif.tasks.predictors import Trainable
from attentif.training.config import StoredConfig
from attentif.training.export import Exported, check_stands_alone
from attentif.training.model_card import onnx_card
from attentif.training.rundir import FolderKind, RunFolder, create, read_results, refuse_existing

GRAPH, ABOUT = "model.onnx", "attentif.json"
ONNX = FolderKind("an ONNX export", GRAPH, "replace it with --force, or choose another place")
LONGEST = 4096  # tokens, where neither the model nor its task has a limit: tables of positions are constants of the graph
TOLERANCE = 1e-3  # of outputs against ours, relative to their size: float32 sums in another order, through all layers
OPSET = 20


class Graph(nn.Module):
    """A network from plain tensors to named outputs, without data-dependent control flow."""

    def __init__(self, model: Trainable, outputs: Callable[[Tensor], Mapping[str, Tensor]]) -> None:
        super().__init__()
        self.model, self.outputs = model, outputs


class TextGraph(Graph):
    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None) -> dict[str, Tensor]:
        source = Input(input_ids, Seq.from_mask(attention_mask > 0), token_type_ids)
        return dict(self.outputs(self.model(Batch(source))[0]))


class PictureGraph(Graph):
    """Reads pixels from 0 to 255 as they are in a file, (B, channels, height, width)."""

    mean: Tensor
    std: Tensor

    def __init__(self, model: Trainable, outputs: Callable[[Tensor], Mapping[str, Tensor]], state: Any, tokens: int) -> None:
        super().__init__(model, outputs)
        self.tokens = tokens
        self.register_buffer("mean", 255 * torch.tensor(state.mean)[:, None, None], persistent=False)
        self.register_buffer("std", 255 * torch.tensor(state.std)[:, None, None], persistent=False)

    def forward(self, pixel_values: Tensor) -> dict[str, Tensor]:
        places = torch.ones(pixel_values.shape[0], self.tokens, dtype=torch.bool)
        source = Input((pixel_values - self.mean) / self.std, Seq.from_mask(places, dense=True))
        return dict(self.outputs(self.model(Batch(source))[0]))


def export_onnx(
    run: RunFolder,
    config: StoredConfig,
    state: TaskState,
    model: Trainable,
    tokenizers: Tokenizers,
    out: Path,
    *,
    note: str = "",
    force: bool = False,
) -> Exported:
    """Write a run as a folder that onnxruntime answers from; the graph is checked against the run before it is kept.

    `note` says what the caller left out."""
    refuse_existing(out, force, ONNX)
    if out.resolve() == run.path.resolve():
        raise ConfigError("is the run itself; choose another place", file=out)
    require_extra("onnx", "onnxscript")
    task = config.task.build()
    tokenizer = frame_tokenizer(config.task, tokenizers.get("tokenizer"))
    check_stands_alone(run, config)
    graph, example = _build_graph(task, state, model)
    longest = min(longest_text(config.task, model.config), LONGEST) if isinstance(graph, TextGraph) else graph.tokens
    with eval_mode(graph):
        program = _trace(graph, example, longest)
        names = [*graph(**example(1, 1))]
    about = {
        "task": config.task.kind,
        "inputs": {name: list(_axes(value)) for name, value in example(1, 1).items()},
        "outputs": names,
        "labels": list(getattr(state, "labels", [])),
        "several": bool(getattr(config.task, "several", False)),
        **({"max_len": longest} if isinstance(graph, TextGraph) else {}),
        **_pictures(model.config),
    }
    made = Exported(out, f"opset {OPSET}", "ONNX graph", note)

    def fill(path: Path) -> None:
        program.save(path / GRAPH)
        _check(path / GRAPH, graph, example, longest)
        if tokenizer is not None and isinstance(graph, TextGraph):
            write_tokenizer_files(path, tokenizer, segments=count_segments(model.config), max_len=longest)
        write_json(path / ABOUT, about)
        write_text(path / "README.md", onnx_card(config, about, model, read_results(run), note))

    create(out, out.name, fill, force=force, kind=ONNX)
    return (
        made
        if is_installed("onnxruntime")
        else replace(made, caveat=_join(note, "not compared with the run: onnxruntime is not installed"))
    )


def _join(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def _axes(value: Tensor) -> Iterator[int | str]:
    yield "batch"
    yield from ["length"] if value.ndim == 2 else value.shape[1:]


def _pictures(model: ModelConfig) -> dict[str, Any]:
    frontend = model.frontend
    return dict(zip(("channels", "height", "width"), frontend.known_size(), strict=True)) if isinstance(frontend, PictureConfig) else {}


def _build_graph(task: AnyTask, state: Any, model: Trainable) -> tuple[TextGraph | PictureGraph, Callable[[int, int], dict[str, Tensor]]]:
    """The graph, and a function that makes inputs of given numbers of rows and lengths."""
    config, outputs = model.config, lambda logits: task.graph_outputs(state, logits)
    if config.encoder is not None and config.decoder is not None:
        raise ConfigError("ONNX: a model with an encoder and a decoder is several graphs, and one is written; export --to hf instead")
    if isinstance(config.head, CRFHeadConfig):
        raise ConfigError(
            "ONNX: a conditional random field finds its tags by a search, which is no graph; train with model.head.kind=tokens"
        )
    if isinstance(config.frontend, TokensConfig):
        vocabulary, segments = config.frontend.vocab or 1, config.frontend.segments > 1
        return TextGraph(model, outputs), lambda rows, length: _example_texts(rows, length, vocabulary, segments=segments)
    if isinstance(config.frontend, PictureConfig) and hasattr(state, "mean"):
        size = config.frontend.known_size()
        pictures = PictureGraph(model, outputs, state, config.frontend.tokens_per_picture)
        return pictures, lambda rows, _: {"pixel_values": torch.randint(0, 256, (rows, *size)).float()}
    raise ConfigError(f"ONNX: texts and pictures are exported, and this model reads {config.frontend.kind}")


def _example_texts(rows: int, length: int, vocabulary: int, *, segments: bool) -> dict[str, Tensor]:
    """Rows of different lengths, tokens at the left."""
    ids = torch.arange(rows * length).view(rows, length) * 7 % vocabulary
    lengths = torch.linspace(length, max(1, length // 2), rows).long()
    inputs = {"input_ids": ids, "attention_mask": (torch.arange(length) < lengths[:, None]).long()}
    return inputs | ({"token_type_ids": (torch.arange(length) >= length // 3).long().expand(rows, length)} if segments else {})


def _trace(graph: TextGraph | PictureGraph, example: Callable[[int, int], dict[str, Tensor]], longest: int) -> Any:
    """The ONNX program; ConfigError names the mixer that cannot be in one."""
    graph(**example(2, longest))  # tables of positions grow to their full size
    inputs, dynamic = example(2, min(7, longest)), torch.export.Dim.DYNAMIC
    shapes = {name: {0: dynamic, **({1: dynamic} if value.ndim == 2 else {})} for name, value in inputs.items()}
    names = [*graph(**inputs)]
    try:
        with _quiet():
            traced = torch.export.export(graph, (), inputs, dynamic_shapes=shapes, strict=False)
            _refuse_own_operations(traced, graph)
            return torch.onnx.export(
                traced, (), None, dynamo=True, opset_version=OPSET, input_names=[*inputs], output_names=names, verbose=False
            )
    except AttentifError:
        raise
    except Exception as error:
        where = _find_mixer(error, graph) or "this model"
        raise ConfigError(f"ONNX: {where} cannot be exported: it decides by values, or calls what ONNX has no place for") from error


def _refuse_own_operations(traced: Any, graph: nn.Module) -> None:
    """Refuse graphs with our own compiled operations, which no other runtime knows."""
    kinds = dict(graph.named_modules())
    for node in traced.graph.nodes:
        if node.op == "call_function" and str(node.target).startswith("attentif."):
            paths = [path for path, _ in node.meta.get("nn_module_stack", {}).values()]
            mixers = [path for path in paths if isinstance(kinds.get(path), Recordable)]
            where = _name_mixer(mixers[-1], kinds[mixers[-1]]) if mixers else "this model"
            raise ConfigError(f"ONNX: {where} runs a compiled loop of Attentif, which ONNX has no place for")


def _find_mixer(error: BaseException, graph: nn.Module) -> str:
    """The mixer in whose code an error was raised."""
    names = {module: name for name, module in graph.named_modules()}
    found = ""
    cause: BaseException | None = error
    while cause is not None:
        trace = cause.__traceback__
        while trace is not None:
            module = trace.tb_frame.f_locals.get("self")
            if isinstance(module, Recordable) and module in names:
                found = _name_mixer(names[module], module)
            trace = trace.tb_next
        cause = cause.__cause__ or cause.__context__
    return found


def _name_mixer(path: str, module: nn.Module) -> str:
    return f"{path.removeprefix('model.')} ({type(module).__name__})"


def _check(path: Path, graph: nn.Module, example: Callable[[int, int], dict[str, Tensor]], longest: int) -> None:
    """Compare the file with the run, on inputs of other sizes than it was traced with."""
    if not is_installed("onnxruntime"):
        return
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for rows, length in ((1, 1), (3, min(19, longest)), (2, longest)):
        inputs = example(rows, length)
        with eval_mode(graph):
            expected = graph(**inputs)
        found = dict(zip(expected, session.run([*expected], {name: value.numpy() for name, value in inputs.items()}), strict=True))
        for name, ours in expected.items():
            if ours.is_floating_point():
                apart = float(np.abs(found[name] - ours.numpy()).max() / max(1.0, float(ours.abs().max())))
                if not apart <= TOLERANCE:
                    raise RunError(f"the ONNX graph answers otherwise than the run ({name}: {apart:.2g} apart for {rows} × {length})")


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter's progress and warnings."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "torch._export", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
