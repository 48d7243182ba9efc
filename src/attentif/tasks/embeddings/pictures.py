"""One vector for a picture, by a model that reads pictures, or by the tower of one that reads texts (CLIP)."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from attentif.data.images import DATA_URI, open_picture
from attentif.errors import UsageError
from attentif.models import Batch, Input, Model, eval_mode
from attentif.models.frontends.pictures import PictureConfig
from attentif.models.heads.embed import EmbedHead
from attentif.nn.seq import Seq
from attentif.tasks.base import AnyTask, Progress, Say, Tokenizers
from attentif.tasks.embeddings.sentences import Vectors, embed
from attentif.tasks.narrow import narrow
from attentif.tasks.vision.frame import StandardisedConfig
from attentif.tasks.vision.image import standardise

TOGETHER = 16  # pictures in a batch


def picture_model(model: Model) -> Model | None:
    """The part of a model that reads pictures."""
    found = next((part for part in (model, model.tower) if part is not None and isinstance(part.config.frontend, PictureConfig)), None)
    return found if found is None or isinstance(found.head, EmbedHead) else None


def embed_inputs(
    task: AnyTask,
    model: Model,
    tokenizers: Tokenizers,
    inputs: Sequence[str | Path],
    *,
    pooling: str | None = None,
    normalise: bool = True,
    say: Say | None = None,
    progress: Progress | None = None,
) -> Vectors:
    """Vectors of texts and of pictures (paths, or data URIs where the model reads pictures), in their order."""
    by_content = picture_model(model) is not None
    pictures = {row: one for row, one in enumerate(inputs) if isinstance(one, Path) or (by_content and one.startswith(DATA_URI))}
    texts = {row: one for row, one in enumerate(inputs) if isinstance(one, str) and row not in pictures}
    found: dict[int, Vectors] = {}
    if texts:
        said = [*texts.values()]
        vectors = embed(task, model, tokenizers, said, pooling=pooling, normalise=normalise, say=say, progress=progress)
        found |= zip(texts, vectors, strict=True)
    if pictures:
        if pooling is not None:
            raise UsageError("pooling is for texts; the vector of a picture is the one that its model was trained to give")
        found |= zip(pictures, picture_vectors(task, model, [*pictures.values()], normalise=normalise, progress=progress), strict=True)
    return np.stack([found[row] for row in range(len(inputs))])


def picture_vectors(
    task: AnyTask, model: Model, pictures: Sequence[str | Path], *, normalise: bool = True, progress: Progress | None = None
) -> Vectors:
    """(N, D), in the order of the pictures."""
    reader, config = picture_model(model), task.config
    if reader is None or not isinstance(config, StandardisedConfig):
        raise UsageError(f"{pictures[0]} is a picture, and this run makes no vectors of pictures; CLIP and SigLIP do")
    head, frame, found = narrow(reader.head, EmbedHead), config.frame(reader.config.frontend), []
    with eval_mode(reader):
        for start in range(0, len(pictures), TOGETHER):
            pixels = np.stack([open_picture(picture, frame) for picture in pictures[start : start + TOGETHER]])
            source = Input(standardise(pixels, config.mean, config.std), Seq.from_padded([1] * len(pixels)))
            device = next(reader.parameters()).device
            x, seq = reader.hidden(Batch(source.to(device)))
            found.append(head.vectors(x, seq, head.pool, normalise=normalise).float().cpu().numpy())
            if progress is not None:
                progress(min(start + TOGETHER, len(pictures)), len(pictures))
    return np.concatenate(found)


def compares(model: Model) -> bool:
    """Whether a model was trained to compare pictures with texts."""
    return isinstance(model.head, EmbedHead) and model.head.similarity is not None


def match_pictures(model: Model, pictures: Vectors, texts: Vectors) -> Vectors:
    """(pictures, texts): how probably each text is that of a picture, as the model was trained to say it."""
    if not compares(model):
        raise UsageError("this run compares no pictures with texts; CLIP and SigLIP do")
    head = narrow(model.head, EmbedHead)
    with torch.no_grad():
        device = next(head.parameters()).device
        found = head.probabilities(*(torch.from_numpy(vectors).to(device) for vectors in (pictures, texts)))
    return found.cpu().numpy()
