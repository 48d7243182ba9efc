"""Token embeddings initialised with skip-gram vectors of the training texts (`text/word2vec.py`).

Words that are used alike start near each other, so that what a few texts teach about one holds for the others. The vectors are
centred and scaled to the deviation of the random initialisation, which tokens without a vector keep.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from attentif.data.progress import Pulse
from attentif.tasks.base import Say
from attentif.tasks.narrow import token_embedding
from attentif.tasks.predictors import Predictor, first_network, networks_of
from attentif.text.vectors import BREAK, WordStream, WordVectors

Texts = Callable[[], Iterator[NDArray[np.integer[Any]]]]  # the tokens of each text, as often as one asks for them


def init_from_skip_gram(predictor: Predictor, texts: Texts, say: Say) -> None:
    """Initialise the embeddings of all networks, unless a file does (`model.frontend.vectors`)."""
    model = first_network(predictor)
    if getattr(model.config.frontend, "vectors", None) is not None:
        return
    say("learning word vectors (skip-gram) from the training texts")
    table = token_embedding(model).tokens
    vectors = skip_gram(texts, table.num_embeddings, table.embedding_dim, say)
    for network in networks_of(predictor):
        init_table(token_embedding(network).tokens, vectors)


def skip_gram(texts: Texts, vocab: int, width: int, say: Say) -> WordVectors:
    """Fit a vector for each token that occurs, named by its id."""
    from attentif.text.word2vec import Word2VecConfig

    pieces = lambda: (np.append(text, BREAK).astype(np.int32) for text in texts())
    stream = WordStream([str(number) for number in range(vocab)], pieces, sum(len(text) for text in texts()))
    model = Word2VecConfig(size=width).build()
    pulse = Pulse(say)
    model.fit(stream, lambda what, done, total: pulse(lambda: f"{what}: {100 * done / total:.0f} %"))
    return model.vectors


@torch.no_grad()
def init_table(table: nn.Embedding, vectors: WordVectors) -> None:
    """Copy the vectors into the table, scaled to its standard deviation."""
    found = torch.from_numpy(vectors.matrix).to(table.weight)
    tokens = torch.tensor([int(word) for word in vectors.words], device=table.weight.device)
    found = found - found.mean(0)
    table.weight[tokens] = found * (table.weight.std() / found.std())
