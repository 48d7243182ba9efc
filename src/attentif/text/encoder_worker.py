"""The process that `encoder_pool` starts."""

import sys

import numpy as np
import tokenizers

from attentif.errors import AttentifError
from attentif.text.encoder_pool import read_parts, write_parts
from attentif.text.tokenizer import Tokenizer
from attentif.text.word_encoder import WordEncoder


def main() -> None:
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    try:
        said, dtype = read_parts(source)
        encoder = WordEncoder(Tokenizer(tokenizers.Tokenizer.from_str(said.decode())), np.dtype(dtype.decode()))
        while True:
            texts = [text.decode() for text in read_parts(source)]
            try:
                answer = [b"", *encoder.encode(texts)]
            except AttentifError as error:
                answer = [error.message.encode()]
            write_parts(sink, answer)
    except (EOFError, BrokenPipeError):
        return


if __name__ == "__main__":
    main()
