"""Pictures as tokens: each patch is the number of the nearest of K patches (a codebook), found by k-means on those of training.

    token(x) = argmin_k ‖x − c_k‖²,   picture(tokens) = the patches c_token side by side     (van den Oord et al. 2017, without the network)

With patches of one pixel, the codes are grey levels. Codes are ordered from dark to light, so that they mean the same in every run.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from attentif.data.picture_files import Bytes
from attentif.errors import RunError
from attentif.files import replace_atomically

FILE = "codebook.safetensors"
MOST_PATCHES = 200_000  # that k-means is fitted on
AT_ONCE = 65_536  # patches compared with all codes at a time

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Codebook:
    codes: Floats  # (K, C · size²), bytes as numbers
    size: int  # side of a patch in pixels
    shape: tuple[int, int, int]  # channels, height, width of a picture

    @classmethod
    def fit(cls, pixels: Bytes, size: int, count: int, seed: int = 0) -> "Codebook":
        """k-means (Lloyd 1982, in small batches: Sculley 2010) on the patches of pictures (N, C, H, W)."""
        from sklearn.cluster import MiniBatchKMeans

        cut = cut_patches(pixels, size).reshape(-1, pixels.shape[1] * size * size)
        some = cut[np.random.default_rng(seed).permutation(len(cut))[:MOST_PATCHES]]
        distinct = np.unique(some, axis=0)
        if len(distinct) <= count:  # as many codes as there are patches, or grey levels: nothing is lost
            codes = distinct.astype(np.float32)
        else:
            means = MiniBatchKMeans(count, random_state=seed, n_init=3, batch_size=4096, max_iter=100)
            codes = means.fit(some.astype(np.float32)).cluster_centers_.astype(np.float32)
        order = np.lexsort((*codes.T, codes.sum(1)))
        return cls(np.ascontiguousarray(codes[order]), size, (pixels.shape[1], pixels.shape[2], pixels.shape[3]))

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def grid(self) -> tuple[int, int]:
        return self.shape[1] // self.size, self.shape[2] // self.size

    def encode(self, pixels: Bytes) -> Ints:
        """(N, tokens), patches row by row."""
        cut = cut_patches(pixels, self.size)
        flat = cut.reshape(-1, cut.shape[-1]).astype(np.float32)
        half = (self.codes**2).sum(1) / 2
        parts = [(flat[start : start + AT_ONCE] @ self.codes.T - half).argmax(1) for start in range(0, len(flat), AT_ONCE)]
        return np.concatenate(parts).reshape(cut.shape[:2]).astype(np.int64)

    def decode(self, tokens: Ints) -> Bytes:
        """(N, tokens) to (N, C, H, W)."""
        (channels, height, width), (rows, columns) = self.shape, self.grid
        patches = self.codes[tokens].reshape(len(tokens), rows, columns, channels, self.size, self.size)
        pixels = patches.transpose(0, 3, 1, 4, 2, 5).reshape(len(tokens), channels, height, width)
        return np.rint(np.clip(pixels, 0, 255)).astype(np.uint8)

    def save(self, folder: Path) -> None:
        from safetensors.numpy import save_file

        with replace_atomically(folder / FILE) as temporary:
            save_file({"codes": self.codes, "size": np.array([self.size]), "shape": np.array(self.shape)}, temporary)
            temporary.chmod(0o644)

    @classmethod
    def load(cls, folder: Path) -> "Codebook":
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            stored = load_file(folder / FILE)
            channels, height, width = (int(size) for size in stored["shape"])
            return cls(stored["codes"], int(stored["size"][0]), (channels, height, width))
        except FileNotFoundError:
            raise RunError("no such file: this run cannot paint without its codebook", file=folder / FILE) from None
        except (SafetensorError, KeyError, ValueError) as error:
            raise RunError(f"this codebook cannot be used: {' '.join(str(error).split())[:200]}", file=folder / FILE) from None


def cut_patches(pixels: Bytes, size: int) -> Bytes:
    """(N, C, H, W) to (N, patches, C · size²), patches row by row."""
    count, channels, height, width = pixels.shape
    cut = pixels.reshape(count, channels, height // size, size, width // size, size)
    return cut.transpose(0, 2, 4, 1, 3, 5).reshape(count, -1, channels * size * size)
