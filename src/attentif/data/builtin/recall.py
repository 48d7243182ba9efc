"""Two tasks that tell memories apart, generated: copying what matters, and finding what belongs to a key.

    selective copying     . . b . d . . a . c . # # # #   ->   b d a c at the four #         (Jing et al. 2019; Gu & Dao 2023)
    associative recall    k3 v1 k7 v4 k0 v1 k7 k3 k0      ->   v4 v1 v1 at the keys asked    (Ba et al. 2016; Fu et al. 2023)

In the first, the places of the tokens to keep are drawn anew in each row: a memory that treats all tokens alike keeps the noise too. In
the second, what to read depends on the key: a memory whose read-out is fixed cannot choose. Rows are arrays of token numbers, with
targets of the same shape: what is to be predicted *at* each place, or IGNORED where nothing is scored.
"""

import numpy as np

IGNORED = -100  # as torch's losses have it
NOISE, MARK = 0, 1  # of selective copying; the tokens to copy follow


def selective_copying(rows: int, *, length: int = 24, copied: int = 4, symbols: int = 6, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(rows, length + copied) tokens from 0 ... symbols + 1, and targets: the `copied` symbols in order, at the marks that end the row."""
    if copied > length:
        raise ValueError(f"{copied} symbols do not fit in {length} places")
    random = np.random.default_rng(seed)
    tokens = np.full((rows, length + copied), NOISE)
    tokens[:, length:] = MARK
    symbol = random.integers(2, 2 + symbols, (rows, copied))
    places = np.sort(random.permuted(np.tile(np.arange(length), (rows, 1)), axis=1)[:, :copied], axis=1)
    np.put_along_axis(tokens, places, symbol, axis=1)
    targets = np.full_like(tokens, IGNORED)
    targets[:, length:] = symbol
    return tokens, targets


def associative_recall(rows: int, *, pairs: int = 6, keys: int = 12, values: int = 8, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(rows, 3 · pairs) tokens: pairs of a key (0 ... keys − 1, none twice) and a value (the next `values` numbers), then the keys again in
    another order; targets: the value of each key asked."""
    if pairs > keys:
        raise ValueError(f"{pairs} pairs need as many keys, and there are {keys}")
    random = np.random.default_rng(seed)
    key = random.permuted(np.tile(np.arange(keys), (rows, 1)), axis=1)[:, :pairs]
    value = random.integers(keys, keys + values, (rows, pairs))
    order = random.permuted(np.tile(np.arange(pairs), (rows, 1)), axis=1)
    tokens = np.concatenate([np.stack([key, value], 2).reshape(rows, 2 * pairs), np.take_along_axis(key, order, 1)], 1)
    targets = np.full_like(tokens, IGNORED)
    targets[:, 2 * pairs :] = np.take_along_axis(value, order, 1)
    return tokens, targets
