"""Pictures, texts and sounds in one space: what is learned, scored, refused and answered."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import attentif
from attentif.config import Layer
from attentif.data.builtin import BUILTIN
from attentif.errors import ConfigError, DataError, UsageError
from attentif.models import Batch, build
from attentif.tasks.matching.contrastive import ContrastiveConfig, encode_kind, one_kind, split_kinds
from attentif.tasks.matching.contrastive_report import recall_at
from attentif.training.load import load_run_config
from attentif.training.run import check_config

FEW = {"train": 24, "valid": 8, "test": 8}


def prepare(**data: Any) -> Any:
    layers = [Layer({"data": data or {"name": "three-ways", "options": FEW}}, "test")]
    config = load_run_config("contrastive", layers)
    task, adapted = check_config(config)
    prepared = task.prepare(config.data, config.tokenizer or {}, adapted, lambda line: None)
    torch.manual_seed(0)
    return task, prepared, build(prepared.sizes.fill(adapted)).eval()


def write_table(folder: Path, rows: int = 12, sound: bool = False) -> Path:
    random = np.random.default_rng(0)
    with (folder / "things.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "text", *(["audio"] if sound else [])])
        for row in range(rows):
            Image.fromarray(random.integers(0, 255, (8, 8), dtype=np.uint8)).save(folder / f"{row}.png")
            cells = [f"{row}.png", f"chose {row}"]
            if sound:
                import soundfile

                soundfile.write(folder / f"{row}.wav", random.standard_normal(4000).astype(np.float32) / 10, 8000)
                cells.append(f"{row}.wav")
            writer.writerow(cells)
    return folder / "things.csv"


def test_each_kind_is_read_alone_and_does_not_depend_on_its_neighbours() -> None:
    _, prepared, model = prepare()
    whole = split_kinds(prepared.train.batch([0, 1, 2]))
    assert [*whole] == ["text", "image", "audio"]
    with torch.no_grad():
        together = {kind: encode_kind(model, source) for kind, source in whole.items()}
        alone = {kind: encode_kind(model, source) for kind, source in split_kinds(prepared.train.batch([1])).items()}
    for kind, vectors in together.items():
        torch.testing.assert_close(vectors.norm(dim=-1), torch.ones(3))
        torch.testing.assert_close(vectors[1:2], alone[kind], rtol=1e-4, atol=1e-5)
    assert not torch.allclose(together["text"], together["image"])


def test_the_loss_falls_and_every_kind_learns() -> None:
    task, prepared, model = prepare()
    batch: Batch = prepared.train.batch(range(12))
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(0)
    losses = []
    for _ in range(25):
        loss = task.step(model.train(), batch)
        optimiser.zero_grad()
        (loss.total / loss.count).backward()
        assert all(
            part.grad is not None for part in (model.frontend.picture.patch.weight, model.frontend.text.tokens.weight, model.head.log_scale)
        )
        optimiser.step()
        losses.append(float(loss.total.detach()) / loss.count)
    assert losses[-1] < losses[0] / 2


def test_test_numbers_are_new_and_each_stands_once() -> None:
    splits = BUILTIN["three-ways"].rows(0, {})
    texts = {split: columns["text"] for split, columns in splits.items()}
    assert not {*texts["test"], *texts["valid"]} & {*texts["train"]}
    assert len({*texts["test"]}) == len(texts["test"]) == 200
    assert splits["test"]["image"][0].shape == (8, 24)


def test_recall_counts_rows_that_are_nearer_than_the_right_one() -> None:
    asks = np.eye(3)
    finds = np.array([[0.9, 0, 0], [1, 0.5, 0], [0, 0.6, 0.1]])
    assert recall_at(1, asks, finds, np.arange(3)).tolist() == [0, 0, 1]  # 1 is nearer than 0 to the first; 2 than 1 to the second
    assert recall_at(2, asks, finds, np.arange(3)).tolist() == [1, 1, 1]
    assert recall_at(1, asks, finds, np.array([0, 0, 2])).tolist() == [1, 0, 1]  # 0 and 1 are the same thing


def test_a_table_of_pictures_and_texts_is_enough(tmp_path: Path) -> None:
    task, prepared, model = prepare(train=str(write_table(tmp_path)), valid_fraction=0.2, test_fraction=0.2)
    assert prepared.train.kinds == ("text", "image")
    found = task.evaluate(model, prepared.state, prepared.test)
    assert {"recall_at_1", "recall_at_5", "loss"} <= found.scores.keys()
    with pytest.raises(UsageError, match="sounds"):
        task.predict(model, prepared.state, prepared.tokenizers, [{"audio": str(tmp_path / "0.wav")}])


def test_inputs_of_several_kinds_are_matched_with_each_other(tmp_path: Path) -> None:
    table = write_table(tmp_path, sound=True)
    task, prepared, model = prepare(train=str(table), valid_fraction=0.2, test_fraction=0.2)
    inputs = task.inputs(table, None)
    assert inputs is not None
    assert inputs[:3] == [{"text": "chose 0"}, {"image": str(tmp_path / "0.png")}, {"audio": str(tmp_path / "0.wav")}]
    answers = task.predict(model, prepared.state, prepared.tokenizers, inputs[:6])
    assert answers[0].output not in {"chose 0", "chose 1"}  # never one of its own kind
    assert len(answers[0].scores) == 4
    alone = task.predict(model, prepared.state, prepared.tokenizers, inputs[:1])
    assert alone[0].output in prepared.state.texts
    assert task.predict(model, prepared.state, prepared.tokenizers, ["chose 1", '{"image": "%s"}' % (tmp_path / "1.png")])[
        0
    ].output.endswith("1.png")


@pytest.mark.parametrize("wrong", [{}, {"text": "a", "image": "b.png"}, {"image": " "}])
def test_an_input_is_of_one_kind(wrong: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="input 2"):
        one_kind(wrong, 2)


def test_a_file_without_any_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    with pytest.raises(DataError, match="column"):
        ContrastiveConfig().build().inputs(tmp_path / "a.csv", None)


def test_models_that_read_one_kind_are_refused() -> None:
    for base in ("encoder-tiny", "one-encoder-tiny", "vit-tiny"):
        with pytest.raises(ConfigError, match="limoe-tiny"):
            prepare_base(base)


def prepare_base(base: str) -> None:
    config = load_run_config("contrastive", [Layer({"model": {"base": base}}, "test")])
    check_config(config)


def test_a_run_finds_texts_for_pictures(tmp_path: Path) -> None:
    run = attentif.train("contrastive", data={"options": FEW}, train={"steps": 2, "epochs": 0, "baselines": False}, out=tmp_path / "run")
    assert "match" in run.capabilities
    Image.fromarray(np.zeros((8, 24), np.uint8)).save(tmp_path / "a.png")
    (answer,) = run.predict([{"image": str(tmp_path / "a.png")}])
    assert len(answer.output.split()) == 3
    assert run.maps(f'{{"image": "{tmp_path}/a.png"}}')
