"""Pictures: every way they are stored gives the same pixels and labels, and what cannot be used is said in one line."""

import gzip
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from PIL import Image

from attentif.data import DataConfig
from attentif.data.images import Frame, data_uri, load_picture_rows, load_pictures, open_picture, picture_inputs
from attentif.data.picture_files import read_idx
from attentif.data.picture_sizes import ORIENTATION, measure
from attentif.errors import DataError

Bytes = NDArray[np.uint8]
COUNT = 24


@pytest.fixture
def pixels() -> Bytes:
    return np.random.default_rng(0).integers(0, 256, (COUNT, 6, 5), dtype=np.uint8)


LABELS = ["cat" if row % 2 else "dog" for row in range(COUNT)]


def png(pixels: Bytes) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def by_class(folder: Path, pixels: Bytes, labels: list[str] = LABELS) -> Path:
    for row, (picture, label) in enumerate(zip(pixels, labels, strict=False)):
        own = folder / label
        own.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(own / f"{row:03}.png")
    return folder


def write_idx(path: Path, array: Bytes) -> Path:
    content = bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape) + array.tobytes()
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    return path


def load(source: Path | str, frame: Frame = Frame(), **data: Any) -> Any:
    return load_pictures(DataConfig(train=str(source), **data), frame)


def contents(splits: Any) -> set[tuple[bytes, str]]:
    """Every picture with its label, whatever split it is in."""
    parts = (splits.train, splits.valid, splits.test)
    return {(picture.tobytes(), label) for part in parts for picture, label in zip(part.pixels, part.table["label"], strict=True)}


def expected(pixels: Bytes, labels: list[str] = LABELS) -> set[tuple[bytes, str]]:
    return {(picture.tobytes(), label) for picture, label in zip(pixels, labels, strict=True)}


# -------------------------------------------------------------------------------------------------------------- formats


def test_one_folder_is_cut_at_random_class_by_class(tmp_path: Path, pixels: Bytes) -> None:
    splits = load(by_class(tmp_path / "animals", pixels), valid_fraction=0.25, test_fraction=0.25)
    assert contents(splits) == expected(pixels)
    assert [len(part) for part in (splits.train, splits.valid, splits.test)] == [12, 6, 6]
    assert splits.test.table["label"].count("cat") == 3
    assert splits.labels == ["cat", "dog"]
    assert splits.train.shape == (1, 6, 5)
    assert splits.train.place(0).endswith(".png")
    assert any("class by class" in note for note in splits.notes)


def test_folders_called_train_val_and_test_are_the_splits(tmp_path: Path, pixels: Bytes) -> None:
    for name, rows in (("train", slice(0, 16)), ("val", slice(16, 20)), ("test", slice(20, 24))):
        by_class(tmp_path / name, pixels[rows])
    splits = load(tmp_path)
    assert [len(part) for part in (splits.train, splits.valid, splits.test)] == [16, 4, 4]
    assert {picture.tobytes() for picture in splits.valid.pixels} == {picture.tobytes() for picture in pixels[16:20]}


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_idx_files_find_their_labels_and_their_test_split(tmp_path: Path, pixels: Bytes, suffix: str) -> None:
    numbers = np.arange(COUNT, dtype=np.uint8) % 3
    for name, rows in (("train", slice(0, 18)), ("t10k", slice(18, 24))):
        write_idx(tmp_path / f"{name}-images-idx3-ubyte{suffix}", pixels[rows])
        write_idx(tmp_path / f"{name}-labels-idx1-ubyte{suffix}", numbers[rows])
    splits = load(tmp_path, valid_fraction=0.2)
    assert contents(splits) == expected(pixels, [str(number) for number in numbers])
    assert len(splits.test) == 6
    assert splits.test.place(2).endswith(f"t10k-images-idx3-ubyte{suffix}:3")
    named = load(tmp_path / f"train-images-idx3-ubyte{suffix}", test=str(tmp_path / f"t10k-images-idx3-ubyte{suffix}"))
    assert contents(named) == contents(splits)


@pytest.mark.parametrize(("x", "y"), [("x_{}", "y_{}"), ("{}_images", "{}_labels")])
def test_npz_arrays_are_found_by_name(tmp_path: Path, pixels: Bytes, x: str, y: str) -> None:
    path = tmp_path / "set.npz"
    parts = {"train": slice(0, 18), "test": slice(18, 24)}
    numbers = (np.arange(COUNT) % 2)[:, None]  # a column, as CIFAR and MedMNIST have it
    arrays = {name.format(split): array[rows] for split, rows in parts.items() for name, array in ((x, pixels), (y, numbers))}
    np.savez(path, **arrays)
    splits = load(path, valid_fraction=0.2)
    assert contents(splits) == expected(pixels, [str(row % 2) for row in range(COUNT)])
    assert len(splits.test) == 6


def test_an_npz_of_colour_shares_channels_first_is_read_and_said(tmp_path: Path) -> None:
    colours = np.random.default_rng(1).integers(0, 256, (COUNT, 3, 6, 5), dtype=np.uint8)
    np.savez(tmp_path / "set.npz", images=(colours / 255).astype(np.float32), labels=np.array(LABELS))
    splits = load(tmp_path / "set.npz")
    assert contents(splits) == expected(colours)
    assert any("channels, height, width" in note for note in splits.notes)
    assert any("shares of white" in note for note in splits.notes)


@pytest.mark.parametrize("nested", [True, False])
def test_parquet_holds_bytes_as_datasets_writes_them_or_plain(tmp_path: Path, pixels: Bytes, nested: bool) -> None:
    held: list[Any] = [png(picture) for picture in pixels]
    table = pa.table(
        {"image": [{"bytes": value, "path": None} for value in held] if nested else held, "label": [row % 2 for row in range(COUNT)]}
    )
    if nested:
        info = {"info": {"features": {"label": {"names": ["dog", "cat"], "_type": "ClassLabel"}}}}
        table = table.replace_schema_metadata({"huggingface": json.dumps(info)})
    pq.write_table(table, tmp_path / "train-00000-of-00001.parquet")
    splits = load(tmp_path)
    assert contents(splits) == expected(pixels, LABELS if nested else [str(row % 2) for row in range(COUNT)])


def test_a_table_of_paths_counts_them_from_its_own_folder(tmp_path: Path, pixels: Bytes) -> None:
    by_class(tmp_path, pixels)
    lines = [f"{LABELS[row]}/{row:03}.png,{LABELS[row]},{row // 4}" for row in range(COUNT)]
    (tmp_path / "all.csv").write_text("image,label,farm\n" + "\n".join(lines))
    splits = load(tmp_path / "all.csv", group="farm")
    assert contents(splits) == expected(pixels)
    farms = [set(part.table["group"]) for part in (splits.train, splits.valid, splits.test)]
    assert not farms[0] & farms[1] | farms[0] & farms[2] | farms[1] & farms[2]


def test_a_group_is_refused_where_pictures_have_no_columns(tmp_path: Path, pixels: Bytes) -> None:
    np.savez(tmp_path / "all.npz", images=pixels, labels=np.arange(COUNT) % 2)
    for source in (by_class(tmp_path / "photos", pixels), tmp_path / "all.npz"):
        with pytest.raises(DataError, match=rf"{source.name}:.*'farm' \(data.group\)"):
            load(source, group="farm")


def test_a_table_without_the_groups_column_beside_one_that_has_it_is_cut_picture_by_picture(tmp_path: Path, pixels: Bytes) -> None:
    by_class(tmp_path, pixels)
    paths = [f"{LABELS[row]}/{row:03}.png,{LABELS[row]}" for row in range(COUNT)]
    (tmp_path / "farms.csv").write_text("image,label,farm\n" + "\n".join(f"{path},{row // 2}" for row, path in enumerate(paths[:12])))
    (tmp_path / "others.csv").write_text("image,label\n" + "\n".join(paths[12:]))
    config = DataConfig(
        train=[str(tmp_path / name) for name in ("farms.csv", "others.csv")], valid=str(tmp_path / "others.csv"), group="farm"
    )
    splits = load_pictures(config, Frame())
    assert {*splits.train.table["group"], *splits.test.table["group"]} == {"", *map(str, range(6))}
    assert f"{tmp_path / 'others.csv'} has no column 'farm': each of its rows is a group of its own" in splits.notes


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("cat/none.png,cat", "cat/none.png: no such file"),
        ("all.csv,cat", "all.csv: is not a readable picture"),
        (",cat", "the image is empty"),
        ("cat/000.png, ", "the label is empty"),
    ],
)
def test_what_is_wrong_with_a_table_of_paths_is_told_by_its_line(tmp_path: Path, pixels: Bytes, row: str, said: str) -> None:
    by_class(tmp_path, pixels)
    lines = [f"{LABELS[number]}/{number:03}.png,{LABELS[number]}" for number in range(COUNT)]
    table = tmp_path / "all.csv"
    table.write_text("image,label\n" + "\n".join([*lines[:4], row, *lines[4:]]))
    message = refused(table)
    assert message.startswith(f"{table}:6: ")
    assert said in message
    assert len(contents(load(table, skip_bad=1))) == COUNT


def test_the_same_pictures_have_the_same_digest_and_others_another(tmp_path: Path, pixels: Bytes) -> None:
    first = load(by_class(tmp_path / "a", pixels)).digest
    assert load(tmp_path / "a").digest == first
    pixels[3, 2, 2] ^= 1
    assert load(by_class(tmp_path / "b", pixels)).digest != first


def test_a_picture_that_stands_in_two_splits_is_told(tmp_path: Path, pixels: Bytes) -> None:
    by_class(tmp_path / "train", pixels)
    by_class(tmp_path / "test", pixels[:4])
    assert any("of 4 test rows are in" in note for note in load(tmp_path).notes)


# ------------------------------------------------------------------------------------------------------------- decoding


def test_colour_wins_and_grey_pictures_follow(tmp_path: Path, pixels: Bytes) -> None:
    by_class(tmp_path, pixels)
    Image.fromarray(np.dstack([pixels[0]] * 2 + [255 - pixels[0]])).save(tmp_path / "dog" / "000.png")
    splits = load(tmp_path)
    assert splits.train.shape == (3, 6, 5)
    assert load(tmp_path, Frame(channels=1)).train.shape == (1, 6, 5)


def test_pictures_are_brought_to_the_size_asked_for(tmp_path: Path) -> None:
    wide = np.zeros((4, 8), np.uint8)
    wide[:, 4:] = 255
    Image.fromarray(wide).save(tmp_path / "wide.png")
    path = tmp_path / "wide.png"
    square = {fit: open_picture(path, Frame(height=4, width=4, fit=fit))[0] for fit in ("crop", "pad", "stretch")}  # type: ignore[arg-type]
    assert square["crop"].tolist() == [[0, 0, 255, 255]] * 4
    assert square["pad"][0].tolist() == [0, 0, 0, 0]
    assert square["stretch"][1, 0] == 0
    assert square["stretch"][1, 3] == 255


def test_transparency_lies_on_white_and_sixteen_bits_keep_their_shares(tmp_path: Path) -> None:
    clear = np.zeros((2, 2, 4), np.uint8)
    clear[0, 0, 3] = 255
    Image.fromarray(clear).save(tmp_path / "clear.png")
    assert open_picture(tmp_path / "clear.png", Frame(channels=1))[0].tolist() == [[0, 255], [255, 255]]
    Image.fromarray(np.array([[0, 257 * 100], [65535, 257]], np.uint16)).save(tmp_path / "deep.png")
    assert open_picture(tmp_path / "deep.png", Frame())[0].tolist() == [[0, 100], [255, 1]]


def test_a_photo_is_turned_as_its_camera_says(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # lies on its side
    Image.new("RGB", (4, 2), "red").save(tmp_path / "a.jpg", exif=exif)
    assert open_picture(tmp_path / "a.jpg", Frame()).shape == (3, 4, 2)


def test_a_picture_as_data_is_the_picture(pixels: Bytes) -> None:
    assert np.array_equal(open_picture(data_uri(pixels[0]), Frame())[0], pixels[0])


def test_what_a_model_is_asked_about_is_found_in_folders_and_files(tmp_path: Path, pixels: Bytes) -> None:
    by_class(tmp_path, pixels[:3])
    assert [Path(path).name for path in picture_inputs(tmp_path)] == ["001.png", "000.png", "002.png"]
    write_idx(tmp_path / "x-images-idx3-ubyte", pixels)
    write_idx(tmp_path / "x-labels-idx1-ubyte", np.zeros(COUNT, np.uint8))
    assert np.array_equal(open_picture(picture_inputs(tmp_path / "x-images-idx3-ubyte")[5], Frame())[0], pixels[5])


def test_all_pictures_of_another_folder_are_scored_whatever_their_classes(tmp_path: Path, pixels: Bytes) -> None:
    by_class(tmp_path, pixels[:12], ["dog"] * 12)
    pictures, _ = load_picture_rows(DataConfig(train=str(tmp_path)), Frame(height=3, width=3))
    assert len(pictures) == COUNT // 2
    assert pictures.shape == (1, 3, 3)


# ------------------------------------------------------------------------------------------------------------- bad data


def refused(source: Path | str, frame: Frame = Frame(), **data: Any) -> str:
    with pytest.raises(DataError) as caught:
        load(source, frame, **data)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_truncated_picture_is_named_and_can_be_left_out(tmp_path: Path, pixels: Bytes) -> None:
    by_class(tmp_path, np.repeat(np.repeat(pixels, 20, 1), 20, 2))
    path = tmp_path / "cat" / "005.png"
    path.write_bytes(path.read_bytes()[:200])
    assert refused(tmp_path).startswith(f"{path}: is a damaged picture: ")
    splits = load(tmp_path, skip_bad=1)
    assert len(contents(splits)) == COUNT - 1
    assert any("1 bad row skipped" in note for note in splits.notes)


@pytest.mark.parametrize(
    "content",
    [b"", b"this is no picture", b"\x89PNG\r\n\x1a\n" + b"\0" * 40, b"GIF89a", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n"],
)
def test_a_file_that_is_no_picture_is_named(tmp_path: Path, pixels: Bytes, content: bytes) -> None:
    by_class(tmp_path, pixels)
    (tmp_path / "dog" / "bad.png").write_bytes(content)
    assert f"{tmp_path / 'dog' / 'bad.png'}: is " in refused(tmp_path)


def test_a_bomb_is_not_decoded(tmp_path: Path, pixels: Bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    by_class(tmp_path, pixels)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 20)
    assert "more pixels than can be decoded safely" in refused(tmp_path)


def test_pictures_of_two_sizes_need_one(tmp_path: Path, pixels: Bytes) -> None:
    by_class(tmp_path, pixels)
    Image.fromarray(pixels[0][:5]).save(tmp_path / "dog" / "000.png")
    message = refused(tmp_path)
    assert "000.png has 5 × 5 pixels and" in message
    assert "task.height=6 task.width=5" in message
    assert load(tmp_path, Frame(height=6, width=5)).train.shape == (1, 6, 5)


def test_the_size_that_is_proposed_is_that_of_most_pictures(tmp_path: Path, pixels: Bytes) -> None:
    by_class(tmp_path, pixels)
    first = min(path for path in tmp_path.rglob("*.png"))
    Image.fromarray(pixels[0][:1, :1]).save(first)
    message = refused(tmp_path)
    assert message.startswith(f"{first} has 1 × 1 pixels and ")
    assert message.endswith("6 × 5; bring all to one size: task.height=6 task.width=5")


def test_a_folder_is_no_picture(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="--file"):
        open_picture(str(tmp_path), Frame())


def test_folders_that_cannot_be_learned_from_say_why(tmp_path: Path, pixels: Bytes) -> None:
    assert refused(tmp_path / "none") == f"{tmp_path / 'none'}: no such file or folder"
    (tmp_path / "empty").mkdir()
    assert "has no folders of pictures" in refused(tmp_path / "empty")
    by_class(tmp_path / "one", pixels[:12], ["dog"] * 12)
    assert "all 12 rows have the label 'dog': there is nothing to tell apart" in refused(tmp_path / "one")
    assert "has pictures and no labels" in refused(tmp_path / "one" / "dog")
    (tmp_path / "one" / "cat").mkdir()
    assert f"{tmp_path / 'one' / 'cat'}: is a class without a picture" in refused(tmp_path / "one")
    by_class(tmp_path / "split" / "test", pixels)
    assert "none for training" in refused(tmp_path / "split")
    assert "is one picture: give a folder" in refused(tmp_path / "one" / "dog" / "000.png")


def test_idx_files_that_are_wrong_say_how(tmp_path: Path, pixels: Bytes) -> None:
    path = write_idx(tmp_path / "train-images-idx3-ubyte", pixels)
    assert "its labels are not beside it: there is no train-labels-idx1-ubyte" in refused(path)
    labels = write_idx(tmp_path / "train-labels-idx1-ubyte", np.zeros(7, np.uint8))
    assert refused(path) == f"{labels}: holds 7 labels, and train-images-idx3-ubyte has 24 pictures"
    path.write_bytes(path.read_bytes()[:100])
    assert "is cut short: its header promises 24 × 6 × 5 bytes, and 84 follow" in refused(path)
    path.write_bytes(b"\x89PNG" + path.read_bytes())
    assert "is not an idx file: it begins with 89 50 4e 47" in refused(path)
    path.write_bytes(bytes([0, 0, 13, 1, 0, 0, 0, 0]))
    assert "of type 0x0d; only bytes (0x08) are read" in refused(path)
    cut = write_idx(tmp_path / "cut-images-idx3-ubyte.gz", pixels)
    cut.write_bytes(cut.read_bytes()[:50])
    assert "the gzip file is cut short" in refused(cut)
    with pytest.raises(DataError, match=r"file.*labels"):
        load(labels)
    assert read_idx(labels).tolist() == [0] * 7


def test_npz_files_that_are_wrong_say_how(tmp_path: Path, pixels: Bytes) -> None:
    path = tmp_path / "set.npz"
    np.savez(path, images=np.array([{"a": 1}], dtype=object), labels=[0])
    assert "only pickle could read" in refused(path)
    np.savez(path, images=pixels)
    assert "has pictures (images) and no labels for them; it has images" in refused(path)
    np.savez(path, a=pixels, b=[1])
    assert "has no arrays such as x_train and y_train" in refused(path)
    np.savez(path, images=pixels, labels=np.zeros((COUNT, 2)))
    assert "labels has shape (24, 2)" in refused(path)
    np.savez(path, images=pixels.astype(np.float32) - 1, labels=np.zeros(COUNT))
    assert "holds numbers from -1 to" in refused(path)
    path.write_bytes(b"PK\x03\x04 no zip")
    assert "is not a readable npz file" in refused(path)


def test_parquet_files_that_are_wrong_say_how(tmp_path: Path, pixels: Bytes) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"image": [png(picture) for picture in pixels], "label": [None, *LABELS[1:]]}), path)
    assert refused(path) == f"{path}:1: 'label' is missing (null)"
    pq.write_table(pa.table({"image": [1] * COUNT, "label": LABELS}), path)
    assert refused(path) == f"{path}:1: 'image' holds no bytes of a picture"
    pq.write_table(pa.table({"image": [png(pixels[0]), b"broken"] * 12, "label": LABELS}), path)
    assert refused(path) == f"{path}:2: is not a readable picture, or its beginning is damaged"
    pq.write_table(pa.table({"a": [1], "label": ["x"]}), path)
    assert "no column looks like the image" in refused(path)


def test_pictures_of_several_sizes_are_brought_to_one_that_patches_divide(tmp_path: Path) -> None:
    for number, (height, width) in enumerate(((40, 61), (43, 70), (52, 200))):
        for label in "ab":
            for copy in range(4):
                own = tmp_path / label / f"{number}{copy}.png"
                own.parent.mkdir(exist_ok=True)
                Image.fromarray(np.full((height, width), 20 * number + copy + ord(label), np.uint8)).save(own)
    config = DataConfig(train=str(tmp_path))
    splits = load_pictures(config, Frame(), step=8)
    assert splits.train.shape == (1, 40, 72)
    assert any("3 sizes" in note and "40 × 72" in note for note in splits.notes)
    assert load_pictures(config, Frame(), step=2).train.shape == (1, 20, 32)  # at most 16 patches a side
    assert load_pictures(config, Frame(height=16, width=16), step=8).train.shape == (1, 16, 16)


def test_a_turned_photograph_is_measured_upright_and_what_is_no_picture_has_no_size(tmp_path: Path) -> None:
    turned = Image.new("L", (30, 20))
    exif = turned.getexif()
    exif[ORIENTATION] = 6
    turned.save(tmp_path / "turned.jpg", exif=exif)
    assert measure(tmp_path / "turned.jpg") == (30, 20)
    assert measure(np.zeros((9, 7, 3), np.uint8)) == (9, 7)
    assert measure(b"no picture") is None
    assert measure(tmp_path / "none.png") is None
