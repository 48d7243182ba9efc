"""Optional packages: which extra of this one brings each, and one clear message where it is missing."""

import importlib.util

from attentif.errors import UsageError

EXTRAS = {
    "soundfile": "audio",
    "jiwer": "audio",
    "PIL": "pictures",
    "distributed": "cluster",
    "dask_jobqueue": "cluster",
    "onnx": "onnx",
    "onnxscript": "onnx",
    "onnxruntime": "onnx",
    "openpyxl": "excel",
    "rouge_score": "summaries",
}  # import name -> extra


def is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def require_extra(*modules: str) -> None:
    """Raise UsageError with the command to type where an optional package is not installed."""
    for module in modules:
        if not is_installed(module):
            raise UsageError(f'{module} is not installed: pip install "attentif[{EXTRAS[module]}]"')
