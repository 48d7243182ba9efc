"""The table of tokens begins as word vectors of the training texts: skip-gram (`text/word2vec.py`), fitted inside the run.

Words that are used alike begin near to each other, so that what is learned about one in a few texts holds for the others. The vectors are
centred and scaled to the spread that the fresh table has; tokens that no text holds keep the values they were drawn with.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from attentif.data.pulse import Pulse
from attentif.models import Model
from attentif.models.frontends import Tokens
from attentif.tasks.task import Say
from attentif.text.vectors import BREAK, WordStream, WordVectors

Texts = Callable[[], Iterator[NDArray[np.integer[Any]]]]  # the tokens of each text, as often as one asks for them


def begin_with_skip_gram(model: Model, texts: Texts, say: Say) -> None:
    """The tokens of `texts` begin with vectors, in all members, unless a file brings some (`model.frontend.vectors`)."""
    assert isinstance(model.frontend, Tokens)
    if getattr(model.config.frontend, "vectors", None) is not None:
        return
    say("learning word vectors (skip-gram) from the training texts")
    table = model.frontend.tokens
    vectors = skip_gram(texts, table.num_embeddings, table.embedding_dim, say)
    for member in model.members:
        assert isinstance(member.frontend, Tokens)
        begin_with(member.frontend.tokens, vectors)


def skip_gram(texts: Texts, vocab: int, width: int, say: Say) -> WordVectors:
    """A vector for each token that occurs, under its number."""
    from attentif.text.word2vec import Word2VecConfig

    pieces = lambda: (np.append(text, BREAK).astype(np.int32) for text in texts())
    stream = WordStream([str(number) for number in range(vocab)], pieces, sum(len(text) for text in texts()))
    model = Word2VecConfig(size=width).build()
    pulse = Pulse(say)
    model.fit(stream, lambda what, done, total: pulse(lambda: f"{what}: {100 * done / total:.0f} %"))
    return model.vectors


@torch.no_grad()
def begin_with(table: nn.Embedding, vectors: WordVectors) -> None:
    """Put the vectors into the table, as far spread as what was there."""
    found = torch.from_numpy(vectors.matrix).to(table.weight)
    tokens = torch.tensor([int(word) for word in vectors.words], device=table.weight.device)
    found = found - found.mean(0)
    table.weight[tokens] = found * (table.weight.std() / found.std())
