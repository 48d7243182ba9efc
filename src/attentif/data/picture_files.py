"""Find pictures and their labels: folders by class, idx, npz, Parquet, tables of paths.

| source                                    | pictures                                           | classes                              |
|-------------------------------------------|----------------------------------------------------|--------------------------------------|
| folder/cat/1.png                          | files of sub-folders, however deep                 | the sub-folder's name                |
| folder/train/cat/1.png, folder/test/...   | the same, in splits of their own                   | the same                             |
| train-images-idx3-ubyte(.gz)              | idx (LeCun 1998), one array of bytes               | ...labels-idx1..., beside it         |
| mnist.npz                                 | arrays x_train, train_images, images, x ...        | y_train, train_labels, labels, y ... |
| train-00000.parquet                       | a column of bytes, or of {bytes, path} (datasets)  | a column, by name where it has names |
| pictures.csv, .tsv, .jsonl                | a column of paths, from the file's own folder      | a column                             |

A folder of idx, npz or Parquet files is read as these. Nothing is decoded here: a `PictureEntry` holds a path, bytes or an array. Nothing
is unpickled: an npz array of objects is refused.
"""

import json
import math
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attentif.data.columns import Roles, find_columns, refuse_group
from attentif.data.config import DataConfig, Split
from attentif.data.readers import Parquet, PlainText, Tolerance, open_reader, suffix_of
from attentif.errors import DataError, refuse_damaged
from attentif.files import UNPACK_ERRORS, open_bytes, unpack_error
from attentif.limits import check_unpacked

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm")
TABLES = (".parquet", ".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".json")
SPLIT_NAMES: dict[Split, tuple[str, ...]] = {
    "train": ("train", "training"),
    "valid": ("valid", "val", "validation", "dev"),
    "test": ("test", "testing", "t10k"),
}
IDX = re.compile(r"idx[1-4]?(-ubyte)?$", re.IGNORECASE)
LABELLED = Roles(("image", "label"))

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class PictureEntry:
    """One picture, not decoded yet."""

    picture: Path | bytes | NDArray[Any]
    label: str
    file: Path
    row: int = 0  # of its file, from 1; 0: the picture is the file
    group: str | None = None


Parts = dict[Split | None, list[PictureEntry]]  # None: a source that is not split


def entries_of(source: Path, config: DataConfig, tolerance: Tolerance, notes: list[str]) -> Parts:
    """The pictures of a file or a folder, in the splits that it names itself."""
    if not source.exists():
        raise DataError("no such file or folder", file=source)
    if source.is_file():
        return _file(source, config, tolerance, notes)
    folders = sorted(path for path in source.iterdir() if path.is_dir() and not path.name.startswith("."))
    if named := {split: path for path in folders if (split := split_of(path.name))}:
        if "train" not in named:
            raise DataError(f"has a folder {next(iter(named.values())).name} and none for training (train)", file=source)
        if odd := [path.name for path in folders if not split_of(path.name)]:
            raise DataError(f"has splits ({', '.join(p.name for p in named.values())}) and beside them {odd[0]!r}", file=source)
        refuse_group(config, source)
        notes.append(f"{source}: splits by folder, {', '.join(f'{split} from {path.name}' for split, path in named.items())}")
        return {split: _classes(path, notes) for split, path in named.items()}
    packed = [path for path in sorted(source.iterdir()) if path.is_file() and _is_packed(path)]
    if packed:
        return _find_packed(source, packed, config, tolerance, notes)
    refuse_group(config, source)
    return {None: _classes(source, notes)}


def split_of(name: str) -> Split | None:
    """The split that a file name starts with: "t10k-images" is a test split."""
    word = re.split(r"[-_.0-9]", name.casefold().replace("t10k", "test"))[0]
    return next((split for split, names in SPLIT_NAMES.items() if word in names), None)


# -------------------------------------------------------------------------------------------------------------- folders


def _classes(folder: Path, notes: list[str]) -> list[PictureEntry]:
    """Sub-folders are classes; all pictures below them belong to the class."""
    classes = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not classes:
        if any(path.suffix.lower() in SUFFIXES for path in folder.iterdir()):
            raise DataError("has pictures and no labels: put those of each class into a folder of its own", file=folder)
        raise DataError("has no folders of pictures, one a class, and no idx, npz or Parquet file", file=folder)
    entries: list[PictureEntry] = []
    left_out: list[Path] = []
    for own in classes:
        files = sorted(path for path in own.rglob("*") if path.is_file() and not path.name.startswith("."))
        pictures = [path for path in files if path.suffix.lower() in SUFFIXES]
        if not pictures:
            raise DataError(f"is a class without a picture ({', '.join(SUFFIXES[:4])}, ...); fill it or remove it", file=own)
        left_out += [path for path in files if path.suffix.lower() not in SUFFIXES]
        entries += [PictureEntry(path, own.name, path) for path in pictures]
    if left_out:
        notes.append(f"{len(left_out):,} files of {folder} are no pictures by their names, such as {left_out[0].name}: left out")
    return entries


def _is_packed(path: Path) -> bool:
    return _is_images(path) or suffix_of(path) in (".npz", ".parquet")


def _find_packed(folder: Path, files: list[Path], config: DataConfig, tolerance: Tolerance, notes: list[str]) -> Parts:
    """Files that hold many pictures each: those of one split follow one another."""
    together: Parts = {}
    for path in files:
        own = split_of(path.name)
        for split, entries in _file(path, config, tolerance, notes).items():
            together.setdefault(split or own, []).extend(entries)
    if None in together and len(together) > 1:
        odd = together[None][0].file.name
        raise DataError(f"has files of splits and beside them {odd}, whose name tells none: train-..., valid-..., test-...", file=folder)
    return together


# ---------------------------------------------------------------------------------------------------------------- files


def _file(path: Path, config: DataConfig, tolerance: Tolerance, notes: list[str]) -> Parts:
    suffix = suffix_of(path)
    if suffix in TABLES:
        return {None: list(_table(path, config, tolerance, notes))}
    refuse_group(config, path)
    if suffix == ".npz":
        return _npz(path, notes)
    if suffix in SUFFIXES:
        raise DataError("is one picture: give a folder with a sub-folder for each class", file=path)
    if _is_idx(path):
        if not _is_images(path):
            raise DataError("is a file of labels by its name: give the file of images, or their folder", file=path)
        return {None: _idx_entries(path, notes)}
    raise DataError("is none of the files that pictures come in: a folder by class, idx, npz, Parquet, or a table of paths", file=path)


def _table(path: Path, config: DataConfig, tolerance: Tolerance, notes: list[str]) -> Iterator[PictureEntry]:
    reader = open_reader(path, tolerance)
    assert not isinstance(reader, PlainText)
    names = find_columns(reader.columns, path, config, LABELLED)
    notes.append(f"{reader.about}: " + ", ".join(f"{role} from column {column!r}" for role, column in names.items()))
    if not isinstance(reader, Parquet):
        for line, (picture, label, *group) in reader.rows(list(names.values())):
            if empty := next((role for role, cell in (("image", picture), ("label", label)) if not cell.strip()), None):
                tolerance.bad(f"the {empty} is empty", path, line)
                continue
            yield PictureEntry(path.parent / picture, label, path, line, *group)
        return
    classes = _class_names(reader, names["label"])
    known = dict(reader.rows([column for role, column in names.items() if role != "image"]))  # bad labels are told here, by their row
    for row, (value,) in reader.cells([names["image"]]):
        if row not in known:
            continue
        label, *group = known[row]
        held = value.get("bytes") if isinstance(value, dict) else value
        if held is None and isinstance(value, dict) and value.get("path"):
            held = path.parent / str(value["path"])
        if not isinstance(held, bytes | Path):
            tolerance.bad(f"{names['image']!r} holds no bytes of a picture", path, row)
            continue
        named = _class_name(label, classes)
        yield PictureEntry(held, named, path, row, *group)


def _class_name(label: str, names: list[str]) -> str:
    """The name of a class that is a number, where it has one."""
    number = int(label) if label.isdecimal() and len(label) < 10 else len(names)
    return names[number] if number < len(names) else label


def _class_names(reader: Parquet, column: str) -> list[str]:
    """The names that the `datasets` library writes for classes that are numbers."""
    with reader.open() as table:
        stored = (table.schema_arrow.metadata or {}).get(b"huggingface")
    try:
        names = json.loads(stored)["info"]["features"][column]["names"] if stored else []
    except (ValueError, KeyError, TypeError):
        return []
    return [str(name) for name in names]


# ------------------------------------------------------------------------------------------------------------------ idx


def _is_idx(path: Path) -> bool:
    bare = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return bool(IDX.search(bare.name))


def _is_images(path: Path) -> bool:
    return _is_idx(path) and "label" not in path.name.casefold()


def _idx_entries(path: Path, notes: list[str]) -> list[PictureEntry]:
    pictures = read_idx(path)
    if pictures.ndim < 3:
        raise DataError(f"holds an array of {pictures.ndim} dimensions; pictures have 3 (number, rows, columns) or 4", file=path)
    beside = _labels_beside(path)
    labels = read_idx(beside)
    if labels.shape != (len(pictures),):
        raise DataError(f"holds {labels.shape[0]:,} labels, and {path.name} has {len(pictures):,} pictures", file=beside)
    notes.append(f"{path} (idx): labels from {beside.name}")
    return [
        PictureEntry(picture, str(label), path, row) for row, (picture, label) in enumerate(zip(pictures, labels.tolist(), strict=True), 1)
    ]


def _labels_beside(path: Path) -> Path:
    name = re.sub(r"idx[34]", "idx1", re.sub(r"images?|pictures?", "labels", path.name, flags=re.IGNORECASE))
    bare = name.removesuffix(".gz")
    for candidate in (name, bare, f"{bare}.gz"):
        if candidate != path.name and (found := path.with_name(candidate)).is_file():
            return found
    raise DataError(f"its labels are not beside it: there is no {name}", file=path)


def read_idx(path: Path) -> Bytes:
    """An array of bytes in the idx format: 0, 0, type, dimensions, then each size in 4 bytes, then the values."""
    try:
        with open_bytes(path) as raw:
            content = raw.read()
    except UNPACK_ERRORS as error:
        raise unpack_error(error, path) from None
    if len(content) < 4 or content[:2] != b"\0\0" or not content[3]:
        raise DataError(f"is not an idx file: it begins with {content[:4].hex(' ') or 'nothing'}, not with 00 00 08 0n", file=path)
    if content[2] != 8:
        raise DataError(f"is an idx file of type {content[2]:#04x}; only bytes (0x08) are read", file=path)
    dimensions = content[3]
    start = 4 + 4 * dimensions
    sizes = [int.from_bytes(content[place : place + 4], "big") for place in range(4, start, 4)]
    expected = int(np.prod(sizes, dtype=object))
    if len(content) - start != expected or len(content) < start:
        wrong = "is cut short" if len(content) - start < expected else "is longer than it says"
        promised = " × ".join(f"{size:,}" for size in sizes)
        raise DataError(f"{wrong}: its header promises {promised} bytes, and {max(len(content) - start, 0):,} follow", file=path)
    return np.frombuffer(content, np.uint8, offset=start).reshape(sizes)


# ------------------------------------------------------------------------------------------------------------------ npz


def _npz(path: Path, notes: list[str]) -> Parts:
    """Arrays by name: `x_train` and `y_train` (Keras), `train_images` and `train_labels` (MedMNIST), or `images` and `labels`."""
    arrays = _arrays(path)
    pairs: dict[Split | None, tuple[str, str]] = {}
    for name in arrays:
        words = re.split(r"[-_]", name.casefold())
        if not any(word in ("x", "image", "images", "picture", "pictures", "data") for word in words):
            continue
        split = next((split for split, names in SPLIT_NAMES.items() for word in words if word in names), None)
        if split in pairs:
            raise DataError(f"{pairs[split][0]!r} and {name!r} could each be the pictures; keep one of them", file=path)
        pairs[split] = name, _answers(name, list(arrays), path)
    if not pairs or (None in pairs and len(pairs) > 1):
        listed = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise DataError(f"has no arrays such as x_train and y_train, or images and labels; it has {listed}", file=path)
    notes.append(f"{path} (npz): " + ", ".join(f"{x} with {y}" for x, y in pairs.values()))
    return {split: _rows(path, x, arrays[x], y, arrays[y], notes) for split, (x, y) in pairs.items()}


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    with refuse_damaged(path, "npz file"), zipfile.ZipFile(path) as archive:
        return {member.filename.removesuffix(".npy"): _array(archive, member, path) for member in archive.infolist()}


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> NDArray[Any]:
    """One array; refused before memory is spent on it where its headers ask for more than its bytes can hold."""
    name = member.filename
    if member.flag_bits & 1:
        raise DataError(f"{name!r} is encrypted; save it without a password", file=path)
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise DataError(f"{name!r} is compressed in a way that numpy does not write; save it by numpy.savez_compressed", file=path)
    check_unpacked(member.file_size, member.compress_size, path, repr(name))
    with archive.open(member) as raw:
        version = np.lib.format.read_magic(raw)
        if version not in ((1, 0), (2, 0)):
            raise DataError(f"{name!r} is an array of version {version}; only 1.0 and 2.0 are read", file=path)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read_header(raw)
    if dtype.hasobject:
        raise DataError(f"{name!r} is an array of objects, which only pickle could read; save plain numbers (uint8)", file=path)
    if math.prod(shape) * dtype.itemsize > member.file_size:
        raise DataError(f"the header of {name!r} announces {shape} numbers, and fewer follow: it is cut short, or damaged", file=path)
    with archive.open(member) as raw:
        array: NDArray[Any] = np.lib.format.read_array(raw, allow_pickle=False)
    return array


def _answers(name: str, names: list[str], path: Path) -> str:
    """The array of labels that goes with one of pictures."""
    for old, new in (("images", "labels"), ("image", "label"), ("pictures", "labels"), ("data", "labels"), ("data", "target"), ("x", "y")):
        swapped = "_".join(new if word.casefold() == old else word for word in name.split("_"))
        for found in names:
            if found.casefold() == swapped.casefold() and found != name:
                return found
    raise DataError(f"has pictures ({name}) and no labels for them; it has {', '.join(names)}", file=path)


def _rows(path: Path, x: str, pictures: NDArray[Any], y: str, labels: NDArray[Any], notes: list[str]) -> list[PictureEntry]:
    pictures = as_bytes(pictures, f"{path}, {x}", notes)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (len(pictures),):
        raise DataError(f"{y} has shape {labels.shape}, and {x} holds {len(pictures):,} pictures: one label each is expected", file=path)
    if np.issubdtype(labels.dtype, np.floating):
        if not np.equal(np.mod(labels, 1), 0).all():
            raise DataError(f"{y} holds fractions where classes (whole numbers) are expected", file=path)
        labels = labels.astype(np.int64)
    names = [str(label) for label in labels.tolist()]
    return [PictureEntry(picture, name, path, row) for row, (picture, name) in enumerate(zip(pictures, names, strict=True), 1)]


def as_bytes(pictures: NDArray[Any], what: str, notes: list[str]) -> Bytes:
    """Pictures (N, H, W) or (N, H, W, C) as bytes; values in [0, 1] are scaled to 255 and channels moved last, with a note."""
    if pictures.ndim not in (3, 4):
        raise DataError(f"{what} has shape {pictures.shape}; pictures are (number, height, width) or (number, height, width, channels)")
    if pictures.ndim == 4 and pictures.shape[3] > 4 >= pictures.shape[1]:
        notes.append(f"{what}: taken as (number, channels, height, width)")
        pictures = pictures.transpose(0, 2, 3, 1)
    if pictures.dtype == np.uint8 or not pictures.size:
        return pictures.astype(np.uint8, copy=False)
    low, high = float(pictures.min()), float(pictures.max())
    if not (low >= 0 and high <= 255):  # a NaN compares with nothing
        raise DataError(f"{what} holds numbers from {low:g} to {high:g}; pixels go from 0 to 255, or from 0 to 1")
    if np.issubdtype(pictures.dtype, np.floating) and high <= 1:
        notes.append(f"{what}: numbers from 0 to 1, taken as shares of white")
        pictures = pictures * 255
    return np.rint(pictures).astype(np.uint8)
