"""Word vectors and embeddings: a model may begin with the vectors of a file, and a trained model's embedding be looked at as word vectors.

    model.frontend.vectors = "plage.vec"

Each token that the file has a vector for begins with it, the others are drawn as ever. The file's vectors are brought to the size of the
drawn ones (their root mean square), so that the layers above find what they were drawn for. The file is read once, when the weights are
fresh: a run that has a checkpoint, and one that is finished, do not need it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from attentif.errors import ConfigError, UsageError
from attentif.models import Model, ModelConfig
from attentif.models.frontends import TokenFrontend, TokensConfig
from attentif.tasks.base import Say, Tokenizers
from attentif.tasks.predictors import Predictor, networks_of
from attentif.text import Tokenizer
from attentif.text.vectors import WordVectors, is_word, read_vectors, vector_size

if TYPE_CHECKING:
    from attentif.training.config import RunConfig

PARTS = {"frontend": "tokenizer", "target": "target"}  # a frontend, and the tokenizer of what it reads
CONTINUES = "##"  # what WordPiece writes before a piece that begins no word


def check_vectors(model: ModelConfig) -> None:
    """Refuse, before any data is read, an unreadable file of vectors, or one of another size."""
    if model.from_ is not None:
        return
    for part, config in _vector_files(model):
        size, width = vector_size(Path(str(config.vectors))), config.embedding or model.width
        if size != width:
            way_out = f"set model.width={size}, or model.{part}.embedding={size}"
            raise ConfigError(f"model.{part}.vectors: {config.vectors} has vectors of {size} components, the embedding {width}; {way_out}")


@dataclass(frozen=True)
class FoundVectors:
    """Vectors of a file for the vocabulary of one frontend."""

    part: str
    rows: torch.Tensor  # (row of the table, row of the matrix)
    matrix: torch.Tensor
    message: str


def find_vectors(config: "RunConfig", tokenizers: Tokenizers) -> list[FoundVectors]:
    """The vectors that the embedding of a fresh model is to begin with, where its configuration names a file."""
    if config.model.from_ is not None or config.pretrain is not None:
        return []  # its weights come from elsewhere
    all_found = []
    for part, asked in _vector_files(config.model):
        tokenizer = tokenizers.get(PARTS[part], tokenizers["tokenizer"])
        names = {token: word for token in range(tokenizer.vocab) if (word := word_of(tokenizer, token))}
        found = read_vectors(Path(str(asked.vectors)), {form for word in names.values() for form in (word, word.lower())})
        rows = [(token, number) for token, word in names.items() if (number := found.find(word)) is not None]
        if not rows:
            raise ConfigError(f"model.{part}.vectors: {asked.vectors} has no vector for any of the {len(names):,} words of the vocabulary")
        message = f"{len(rows):,} of {len(names):,} words of the vocabulary begin with the vectors of {asked.vectors}; the others are drawn"
        all_found.append(FoundVectors(part, torch.tensor(rows), torch.from_numpy(found.matrix), message))
    return all_found


def copy_vectors(predictor: Predictor, all_found: Sequence[FoundVectors], say: Say) -> None:
    """Initialise the embedding of a fresh model with them."""
    for found in all_found:
        for network in networks_of(predictor):
            module = getattr(network, found.part)
            assert isinstance(module, TokenFrontend)
            copy_rows(module.tokens.weight, found.rows, found.matrix)
        say(found.message)


@torch.no_grad()
def copy_rows(table: torch.Tensor, rows: torch.Tensor, matrix: torch.Tensor) -> None:
    """`rows` are (row of the table, row of the matrix)."""
    given = matrix[rows[:, 1]].to(table)
    scale = table.pow(2).mean().sqrt() / given.pow(2).mean().sqrt().clamp(min=1e-12)
    table[rows[:, 0]] = given * scale


def _vector_files(model: ModelConfig) -> Iterator[tuple[str, TokensConfig]]:
    for part in PARTS:
        config = getattr(model, part)
        if isinstance(config, TokensConfig) and config.vectors is not None:
            yield part, config


def word_of(tokenizer: Tokenizer, token: int) -> str:
    """The word that a token stands for; empty for special tokens, punctuation and word-internal pieces."""
    name = tokenizer.rust.id_to_token(token) or ""
    if token in tokenizer.special.values() or name.startswith(CONTINUES):
        return ""
    text = tokenizer.decode([token]).strip()
    return text if is_word(text) and "\ufffd" not in text else ""


def is_word_level(model: Model, config: Any) -> bool:
    """Whether the tokens of a trained model are words."""
    return isinstance(model.frontend, TokenFrontend) and config.tokenizer is not None and config.tokenizer.kind == "word"


def embedding_vectors(model: Model, config: Any, tokenizers: Tokenizers) -> WordVectors:
    """The embedding of a trained model as word vectors, where its tokens are words."""
    if config.tokenizer is None or not isinstance(model.frontend, TokenFrontend):
        raise UsageError("this run reads no words")
    if config.tokenizer.kind != "word":
        raise UsageError(f"the tokens of this run are pieces of words ({config.tokenizer.kind}); neighbours need tokenizer.kind=word")
    tokenizer = tokenizers["tokenizer"]
    names = {token: word for token in range(tokenizer.vocab) if (word := word_of(tokenizer, token))}
    weight = model.frontend.tokens.weight.detach().float().cpu()
    return WordVectors(list(names.values()), weight[list(names)].numpy())
