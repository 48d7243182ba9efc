"""Questions and their passages as the task gives them to imported models: the scores of transformers at every place of the passage.

It tells the two texts apart as each model was trained to, and marks the question, which Longformer lets see all; BigBird's own program
takes the question's places out of the running, as the task does.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from foreign import BERT, FOLDERS, ROBERTA, TEXTS, bytes_merged, save, wordpiece
from torch.testing import assert_close

import attentif

pytestmark = pytest.mark.parity
transformers.logging.set_verbosity_error()

QUESTION, PASSAGE = "Quel roi ?", f"{TEXTS[3]} {TEXTS[0]}"
SPARSE = {"block_size": 2, "num_random_blocks": 1, "sep_token_id": 3}
ANSWERING: dict[str, tuple[str, dict[str, Any], Any]] = {
    "bert": ("BertForQuestionAnswering", BERT, wordpiece),
    "longformer": ("LongformerForQuestionAnswering", ROBERTA | {"attention_window": [4, 4], "sep_token_id": 2}, bytes_merged),
    "big_bird": ("BigBirdForQuestionAnswering", BERT | SPARSE, wordpiece),
}


@pytest.mark.parametrize("name", ANSWERING)
@torch.no_grad()
def test_places_of_a_passage_have_the_scores_of_transformers(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FOLDERS, name, ANSWERING[name])
    theirs, run = save(name, tmp_path), attentif.load(tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    read = tokenizer(QUESTION, PASSAGE, return_tensors="pt", return_token_type_ids=name == "bert")
    inside = [place for place, owner in enumerate(read.sequence_ids()) if owner == 1]
    found = theirs(**read)
    batch = run.task._read_inputs(run.model, run.tokenizers, [{"question": QUESTION, "context": PASSAGE}]).batch([0])
    assert batch.source.data.tolist() == read["input_ids"].tolist()
    expected = torch.stack([found.start_logits, found.end_logits], -1)[0, inside]
    assert_close(run.model(batch)[0][0, inside], expected, rtol=1e-4, atol=1e-5)
