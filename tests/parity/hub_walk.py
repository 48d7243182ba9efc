"""A long walk over the shapes of every family: each is read as transformers computes it, or refused.

    python tests/parity/hub_walk.py                  every family; its counts go to docs/checkpoints.md
    python tests/parity/hub_walk.py llama bart       these alone, and no page is written

`test_hub_variants.py` takes the first steps of such a walk on every run of the tests. Here every class of a family takes part, and any
key of its configuration may have another value. A shape is drawn again where transformers cannot have it, or does not load what it saved.
"""

import argparse
import json
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from hub_cases import CASES, VOCAB, Case
from test_hub import LENGTHS, frames_of, heard, known, ours, pooled
from test_hub_keys import others
from test_hub_variants import GRID, NOT_DRAWN, close

from attentif.decode import GenerateOptions, generate
from attentif.errors import AttentifError
from attentif.hub import FAMILIES, Imported, read_folder, write_folder
from attentif.models import Batch, Input
from attentif.nn.seq import Seq

PAGE = Path(__file__).parents[2] / "docs" / "checkpoints.md"
EACH, SEED = 40, 28
OUTCOMES = ("equal", "refused", "different", "crashed")
HEADER = "| family | equal | refused | different | crashed |"
FIRST = 9  # token ids before it may be special ones
KEPT = NOT_DRAWN | {
    "vocab_size",
    "decoder_vocab_size",
    "architectures",
    "id2label",
    "label2id",
    "dtype",
    "problem_type",
    "task_specific_params",
}


def cases_of(kind: str) -> list[Case]:
    family = FAMILIES[kind]
    names = {head.architecture for form in (family, *family.others) for head in form.heads}
    return [case for case in CASES.values() if case.architecture in names and case.kind != "pair"]


def draw(case: Case, chance: random.Random) -> dict[str, Any]:
    """Other values of one to six keys of a case, and of each table in it."""
    config = getattr(transformers, case.config)(**case.sizes).to_dict()
    tables = {key: table | draw_keys(config[key], chance) for key, table in case.sizes.items() if key.endswith("_config")}
    return draw_keys(config, chance) | tables


def draw_keys(config: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    choices = {key: list(GRID.get(key) or others(value, key)) for key, value in config.items() if key not in KEPT}
    keys = sorted(key for key, values in choices.items() if values)
    return {key: chance.choice(choices[key]) for key in chance.sample(keys, min(len(keys), chance.randint(1, 6)))}


def saved(case: Case, changed: dict[str, Any], folder: Path, how: int) -> Any:
    """transformers' model of a changed case, as it loads what it saved in one of several ways; None where it cannot."""
    dtype = torch.float32 if case.single else torch.float64
    how = 0 if how == 1 and case.config == "PegasusConfig" else how  # whose sinusoids would be rounded, too
    try:
        model = Case(case.architecture, case.config, case.sizes | changed, case.kind, spread=3.0).build(folder, dtype)
        weights = model.state_dict()
        if how == 1:
            weights = model.to(torch.bfloat16).state_dict()
            model.save_pretrained(folder)
        elif how == 2:
            (folder / "model.safetensors").unlink()
            model.save_pretrained(folder, max_shard_size="20KB")
        elif how == 3:
            said = model.config.to_diff_dict() | {"architectures": [case.architecture]}
            (folder / "config.json").write_text(json.dumps(said, default=str))
        again = type(model).from_pretrained(folder, dtype=dtype).eval()
        same = all(torch.equal(weights[name].to(tensor.dtype), tensor) for name, tensor in again.state_dict().items())
        return again if same and all(found.isfinite().all() for found in theirs_of(case, again)) else None
    except Exception:
        return None


def given(case: Case, model: Any) -> list[torch.Tensor]:
    """What is read: texts of several lengths, a picture, sounds or their frames."""
    torch.manual_seed(3)
    config, dtype = model.config, next(model.parameters()).dtype
    if case.kind == "image":
        config = getattr(config, "vision_config", config)
        size = config.image_size if isinstance(config.image_size, list | tuple) else [config.image_size] * 2
        return [torch.randn(1, config.num_channels, *size, dtype=dtype)]
    if case.kind == "waves":
        return [torch.randn(1, length, dtype=dtype) for length in (200, 140)]
    if case.kind == "frames":
        return [1.9 * torch.rand(1, 2 * config.max_source_positions, config.num_mel_bins, dtype=dtype)]
    rows = [torch.randint(FIRST, VOCAB, (1, length)) for length in LENGTHS]
    if case.kind == "seq2seq" and isinstance(config.eos_token_id, int):  # where its classes are read
        for row in rows:
            row[0, -1] = config.eos_token_id
    return rows


WRITTEN = torch.arange(FIRST, FIRST + 7)[None]  # what a decoder has written behind frames


def theirs_of(case: Case, model: Any) -> list[torch.Tensor]:
    rows = given(case, model)
    if case.kind == "image":
        return [pooled(case, model(rows[0]))]
    if case.kind == "waves":
        return [heard(model(row)) for row in rows]
    if case.kind == "frames":
        writes = case.architecture.endswith("Generation")
        return [model(input_features=row.mT, **({"decoder_input_ids": WRITTEN} if writes else {})).logits for row in rows]
    return [known(case, model, row) for row in rows]


def ours_of(case: Case, found: Imported, theirs: Any) -> list[torch.Tensor]:
    """The same of ours: each alone, then each in a ragged batch."""
    rows, model = given(case, theirs), found.model
    if case.kind == "image":
        return [model(Batch(Input(rows[0], Seq.from_padded([1]))))[0]]
    if case.kind == "waves":
        return [model(Batch(Input(row, Seq.from_padded([row.shape[1]]))))[0] for row in rows]
    if case.kind == "frames":
        source = [Input(frames_of(row), Seq.from_padded([row.shape[1]])) for row in rows]
        target = Input(WRITTEN, Seq.from_padded([WRITTEN.shape[1]])) if model.target is not None else None
        return [model(Batch(one, target))[0] for one in source]
    longest = max(LENGTHS)
    together = torch.cat([torch.nn.functional.pad(row, (0, longest - row.shape[1])) for row in rows])
    ragged = ours(model, together, LENGTHS, case.marked)
    per_token = ragged.shape[1] == longest
    cut = [ragged[number : number + 1, :length] if per_token else ragged[number : number + 1] for number, length in enumerate(LENGTHS)]
    return [ours(model, row, [row.shape[1]], case.marked) for row in rows] + cut


def writes_the_same(found: Imported, theirs: Any, ids: torch.Tensor) -> bool:
    """Whether each of 20 greedy tokens is the best after those before it to transformers too, or as good within a rounding."""
    written = generate(found.model, [ids[0].tolist()], GenerateOptions(max_tokens=20, temperature=0.0))[0].tokens
    whole = torch.cat([ids, torch.tensor([written])], 1)
    scores = torch.stack([theirs(whole[:, :end]).logits[0, -1] for end in range(ids.shape[1], whole.shape[1])])
    best = scores.gather(1, torch.tensor(written)[:, None])[:, 0]
    return bool((best >= scores.amax(1) - 1e-4 * scores.abs().amax(1)).all())


def outcome(case: Case, theirs: Any, folder: Path) -> tuple[str, str]:
    """What becomes of a folder, and a word about it."""
    expected = theirs_of(case, theirs)
    try:
        found = read_folder(folder, dtype=next(theirs.parameters()).dtype)
    except AttentifError as error:
        return "refused", error.message
    mine = ours_of(case, found, theirs)
    if not all(close(own, other) for own, other in zip(mine, [*expected, *expected][: len(mine)], strict=True)):
        return "different", "read"
    if case.writes and not writes_the_same(found, theirs, given(case, theirs)[0]):
        return "different", "written text"
    back = folder / "back"
    try:
        write_folder(
            back, found.model, family=found.family.kind, architecture=case.architecture, labels=found.labels, special=found.special
        )
    except AttentifError as error:
        return "equal", f"not written: {error.message}"
    again = type(theirs).from_pretrained(back, dtype=next(theirs.parameters()).dtype).eval()
    same = all(close(own, other) for own, other in zip(theirs_of(case, again), expected, strict=True))
    return ("equal", "") if same else ("different", "written back")


@torch.no_grad()
def walk(kind: str, each: int, seed: int, tell: Callable[[str], None]) -> Counter[str]:
    """The outcomes of as many shapes of a family; two towers at once are drawn in `test_hub_variants.py`."""
    chance, counts, drawn = random.Random(f"{seed} {kind}"), Counter[str](), 0
    cases = cases_of(kind)
    while counts.total() < each and drawn < 20 * each:
        drawn += 1
        case = chance.choice(cases)
        changed = draw(case, chance)
        with tempfile.TemporaryDirectory() as name:
            if (theirs := saved(case, changed, Path(name), drawn % 4)) is None:
                continue
            try:
                found, why = outcome(case, theirs, Path(name))
            except Exception as error:
                found, why = "crashed", f"{type(error).__name__}: {error}"
        counts[found] += 1
        if found != "equal" or why:
            tell(f"{found}: {kind} {case.architecture} saved {drawn % 4} with {changed}: {why}")
    return counts


def table(found: dict[str, Counter[str]]) -> str:
    whole = sum(found.values(), Counter[str]())
    rows = [*((f"`{kind}`", counts) for kind, counts in sorted(found.items())), ("**together**", whole)]
    lines = [f"| {name} | {' | '.join(str(counts[outcome]) for outcome in OUTCOMES)} |" for name, counts in rows]
    return "\n".join([HEADER, "|---|---:|---:|---:|---:|", *lines])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", choices=[[], *sorted(FAMILIES)])
    parser.add_argument("--each", type=int, default=EACH, help="Shapes of each family.")
    parser.add_argument("--seed", type=int, default=SEED, help="Another walk, of which no page is written.")
    options = parser.parse_args()
    found: dict[str, Counter[str]] = {}
    for kind in options.families or sorted(FAMILIES):
        found[kind] = walk(kind, options.each, options.seed, lambda text: print(text, flush=True))
        print(kind, dict(found[kind]), flush=True)
    print(table(found))
    if not options.families and options.seed == SEED:
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(
            re.sub(rf"{re.escape(HEADER)}.*?\n(?=\n|$)", lambda _: table(found) + "\n", text, flags=re.DOTALL), encoding="utf-8"
        )
    sys.exit(any(counts["different"] + counts["crashed"] for counts in found.values()))


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    main()
