"""The table of tokens begins as word vectors of the training texts: skip-gram (`text/word2vec.py`), fitted inside the run.

Words that are used alike begin near to each other, so that what is learned about one in a few labelled texts holds for the others. The
vectors are centred and scaled to the spread that the fresh table has; tokens that no text holds keep the values they were drawn with.
"""

import numpy as np
import torch
from torch import nn

from attentif.tasks.ragged import Ragged
from attentif.text.vectors import BREAK, WordStream, WordVectors


def skip_gram(ids: Ragged, vocab: int, width: int) -> WordVectors:
    """A vector for each token that occurs, under its number."""
    from attentif.text.word2vec import Word2VecConfig

    pieces = [np.append(ids[row], BREAK).astype(np.int32) for row in range(len(ids))]
    stream = WordStream([str(number) for number in range(vocab)], lambda: iter(pieces), len(ids.flat))
    model = Word2VecConfig(size=width).build()
    model.fit(stream)
    return model.vectors


@torch.no_grad()
def begin_with(table: nn.Embedding, vectors: WordVectors) -> None:
    """Put the vectors into the table, as far spread as what was there."""
    found = torch.from_numpy(vectors.matrix).to(table.weight)
    tokens = torch.tensor([int(word) for word in vectors.words], device=table.weight.device)
    found = found - found.mean(0)
    table.weight[tokens] = found * (table.weight.std() / found.std())
