"""CLIP and SigLIP from their folders: the vectors, the scores and the probabilities that transformers gives, for texts beside pictures."""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hub_cases import CASES
from PIL import Image
from torch.testing import assert_close
from vocabularies import FOLDERS, PAGE

import attentif
from attentif.api import export_model, import_model
from attentif.errors import AttentifError
from attentif.hub import read_folder, write_folder
from attentif.hub.vocabulary import read_tokenizer
from attentif.models import Batch, Input, ModelConfig
from attentif.models.heads.pooling import ProbeConfig
from attentif.nn.seq import Seq
from attentif.serve.served import RefusedError, Served
from attentif.serve.settings import ServerLimits
from attentif.serve.studio.given import open_input
from attentif.serve.studio.messages import InputRequest
from attentif.tasks.embeddings.pictures import match_pictures
from attentif.training.backbone import Backbone, make_backbone_layer

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore:.*requires torchvision")]
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

TEXTS = ["Le film était très bon, mais trop long !", "a dog", "你好世界。"]
PROCESSORS = {"clip": "CLIPImageProcessorPil", "siglip": "SiglipImageProcessorPil"}


def make_folder(kind: str, folder: Path) -> Any:
    """A small random model with its tokenizer and its way with pictures."""
    config = FOLDERS[kind].make(folder)
    tokenizer = read_tokenizer(folder, config)
    assert tokenizer is not None
    case = CASES[kind]
    text = case.sizes["text_config"] | {"vocab_size": tokenizer.vocab, "eos_token_id": tokenizer.eos}
    torch.manual_seed(3)
    model = getattr(transformers, case.architecture)(getattr(transformers, case.config)(**case.sizes | {"text_config": text})).eval()
    for parameter in model.parameters():
        if parameter.ndim < 2:
            torch.nn.init.normal_(parameter, std=0.3)
        else:
            parameter.data *= 8
    model.save_pretrained(folder)
    sizes = {"size": {"shortest_edge": 16}, "crop_size": 12} if kind == "clip" else {"size": {"height": 12, "width": 12}}
    getattr(transformers, PROCESSORS[kind])(**sizes).save_pretrained(folder)
    said = json.loads((folder / "tokenizer_config.json").read_text()) if (folder / "tokenizer_config.json").is_file() else {}
    (folder / "tokenizer_config.json").write_text(json.dumps(said | {"model_max_length": 40}))
    return model


def make_pictures(folder: Path) -> list[Path]:
    random, found = np.random.default_rng(0), []
    for number, (height, width) in enumerate([(30, 20), (12, 12), (17, 44)]):
        found.append(folder / f"{number}.png")
        Image.fromarray(random.integers(0, 256, (height, width, 3), dtype=np.uint8)).save(found[-1])
    return found


def by_transformers(kind: str, folder: Path, model: Any, pictures: list[Path], texts: list[str]) -> Any:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    processor = getattr(transformers, PROCESSORS[kind]).from_pretrained(folder)
    read = tokenizer(texts, padding="max_length" if kind == "siglip" else True, truncation=True, max_length=40, return_tensors="pt")
    pixels = processor([Image.open(picture) for picture in pictures], return_tensors="pt")["pixel_values"]
    more = {} if kind == "siglip" else {"attention_mask": read["attention_mask"]}
    with torch.no_grad():
        return model(input_ids=read["input_ids"], pixel_values=pixels, **more)


@pytest.mark.parametrize("kind", ["clip", "siglip"])
def test_texts_and_pictures_have_the_vectors_and_the_matches_of_transformers(kind: str, tmp_path: Path) -> None:
    theirs = make_folder(kind, tmp_path / "theirs")
    pictures, texts = make_pictures(tmp_path), [*TEXTS, " ".join(PAGE)]  # the last is cut
    expected = by_transformers(kind, tmp_path / "theirs", theirs, pictures, texts)
    made = import_model(tmp_path / "theirs", tmp_path / "run")
    export_model(made, tmp_path / "back")
    back = type(theirs).from_pretrained(tmp_path / "back").eval()
    again = by_transformers(kind, tmp_path / "back", back, pictures, texts)
    for run in (attentif.load(tmp_path / "theirs"), attentif.load(tmp_path / "run"), attentif.load(tmp_path / "back")):
        vectors = run.embed([pictures[0], *texts, *pictures[1:]])
        np.testing.assert_allclose(vectors[1:-2], expected.text_embeds, atol=1e-5)
        np.testing.assert_allclose(vectors[[0, -2, -1]], expected.image_embeds, atol=1e-5)
        found = expected.logits_per_image.softmax(-1) if kind == "clip" else expected.logits_per_image.sigmoid()
        np.testing.assert_allclose(run.match(pictures, texts), found, atol=1e-4)
    assert_close(again.logits_per_image, expected.logits_per_image, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["clip", "siglip"])
@torch.no_grad()
def test_both_towers_agree_and_come_back(kind: str, tmp_path: Path) -> None:
    case = CASES[kind]
    theirs = case.build(tmp_path, torch.float64)
    found = read_folder(tmp_path, dtype=None)
    ids = torch.cat([torch.randint(3, 97, (2, 8)), torch.full((2, 1), 97)], 1)
    pictures = torch.randn(3, 3, 12, 12, dtype=torch.float64)
    expected = theirs(input_ids=ids, pixel_values=pictures).logits_per_text
    assert found.model.tower is not None
    texts = found.model(Batch(Input(ids, Seq.from_padded([9, 9]))))[0]
    seen = found.model.tower(Batch(Input(pictures, Seq.from_padded([1] * 3))))[0]
    assert_close(found.model.head.scores(texts, seen), expected, rtol=1e-10, atol=1e-10)
    write_folder(tmp_path / "back", found.model, family=kind, special=found.special)
    again, info = type(theirs).from_pretrained(tmp_path / "back", dtype=torch.float64, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert_close(again.eval()(input_ids=ids, pixel_values=pictures).logits_per_text, expected, rtol=1e-10, atol=1e-10)


def test_a_task_of_texts_begins_with_the_tower_of_texts(tmp_path: Path) -> None:
    make_folder("clip", tmp_path / "clip")
    import_model(tmp_path / "clip", tmp_path / "run")
    backbone = Backbone.of(tmp_path / "run")
    model = ModelConfig.model_validate(make_backbone_layer(backbone.layer, backbone.config, "tag").values["model"])
    assert model.tower is None
    backbone.check(model.with_any_size())


def test_a_table_by_its_older_name_takes_the_place_of_the_other(tmp_path: Path) -> None:
    """`text_config_dict`, as LAION's folders have it: transformers goes by it alone."""
    CASES["clip"].build(tmp_path, torch.float32)
    said = json.loads((tmp_path / "config.json").read_text())
    said |= {"text_config_dict": said["text_config"], "text_config": said["text_config"] | {"hidden_act": "relu"}}
    (tmp_path / "config.json").write_text(json.dumps(said))
    theirs = transformers.CLIPConfig.from_pretrained(tmp_path).text_config
    decoder = read_folder(tmp_path).model.config.decoder
    assert decoder is not None
    assert theirs.hidden_act == "quick_gelu"
    assert decoder.block["ffn"].mixer.model_dump()["activation"] == "gelu-quick"


def test_an_end_that_is_not_the_tokenizers_is_refused(tmp_path: Path) -> None:
    make_folder("clip", tmp_path / "clip")
    said = json.loads((tmp_path / "clip" / "config.json").read_text())
    said["text_config"]["eos_token_id"] = 5
    (tmp_path / "clip" / "config.json").write_text(json.dumps(said))
    with pytest.raises(AttentifError, match="eos_token_id"):
        attentif.load(tmp_path / "clip")


def test_what_a_run_cannot_compare_is_refused(tmp_path: Path) -> None:
    make_folder("clip", tmp_path / "clip")
    pictures = make_pictures(tmp_path)
    with pytest.raises(AttentifError, match="pooling"):
        attentif.load(tmp_path / "clip").embed([pictures[0]], pooling="mean")
    CASES["vit bare"].build(tmp_path / "vit", torch.float32)
    run = attentif.load(tmp_path / "vit")  # of pictures alone
    assert run.embed([*pictures]).shape == (3, 32)
    with pytest.raises(AttentifError, match="reads no texts"):
        run.embed(["a dog"])
    with pytest.raises(AttentifError, match="compares no pictures"):
        match_pictures(run.network, run.embed([*pictures]), run.embed([*pictures]))


def test_a_server_reads_pictures_by_content_and_opens_no_file_by_its_name(tmp_path: Path) -> None:
    make_folder("clip", tmp_path / "clip")
    CASES["vit bare"].build(tmp_path / "vit", torch.float32)
    picture = make_pictures(tmp_path)[0]
    content = "data:image/png;base64," + base64.b64encode(picture.read_bytes()).decode()
    refused = lambda error: RefusedError.of(error).status
    for name in ("clip", "vit"):
        run = attentif.load(tmp_path / name)
        served = Served(name, run, ServerLimits(), tmp_path)
        served.warm_up()
        call = served.call("embed", {"texts": [content]})
        found = call.capability.call(run, call.request).model_dump()["vectors"]
        np.testing.assert_allclose(found, run.embed([picture]), rtol=1e-6)
        by_name, by_content = (run.predict([{"image": given}])[0].details["vector"] for given in (str(picture), content))
        np.testing.assert_allclose(by_name, by_content, rtol=1e-6)
        for asked, fields in (
            (None, {"inputs": [{"text": "a", "image": str(picture)}]}),
            (None, {"inputs": [str(picture)]}),
            ("inspect", {"text": json.dumps({"image": str(picture)})}),
        ):
            with pytest.raises((AttentifError, RefusedError)) as error:
                served.call(asked, fields)
            assert refused(error.value) == 400
        with pytest.raises(AttentifError) as error, open_input(run, InputRequest(text="a", beside={"image": str(picture)})):
            pass
        assert refused(error.value) == 400
    with pytest.raises(AttentifError, match="reads no texts") as error:  # a name is a text
        run.embed([str(picture)])
    assert refused(error.value) == 400
    named = attentif.load(tmp_path / "clip").embed([str(picture), content])
    assert not np.allclose(named[0], named[1])


@torch.no_grad()
def test_the_learned_query_is_torchs_attention() -> None:
    """Of a ragged batch: each row alone, by torch's own multi-head attention."""
    torch.manual_seed(0)
    probe = ProbeConfig(heads=2).build(8).double()
    for parameter in probe.parameters():
        torch.nn.init.normal_(parameter)
    theirs = torch.nn.MultiheadAttention(8, 2, batch_first=True, dtype=torch.float64)
    theirs.in_proj_weight.copy_(torch.cat([probe.q.weight, probe.k.weight, probe.v.weight]))
    theirs.in_proj_bias.copy_(torch.cat([probe.q.bias, probe.k.bias, probe.v.bias]))
    theirs.out_proj.load_state_dict(probe.out.state_dict())
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    found = probe(x, Seq.from_padded([5, 3]))
    for row, length in enumerate([5, 3]):
        seen = x[row : row + 1, :length]
        pooled = theirs(probe.query.expand(1, 1, -1), seen, seen)[0]
        expected = pooled + probe.ffn(probe.norm(pooled), Seq.from_padded([1]))
        assert_close(found[row], expected[0, 0])
