"""The long-range suite: every recipe of it as it is, beside the most frequent answer and whatever baselines it has."""

from collections.abc import Iterator

from benchmarks.real.trial import Trial, section

TITLE = "The long-range suite, each recipe as it is"
ABOUT = """
Generated sets (`docs/long-range.md`), 10,000 rows to learn from and 1,000 to score at the small default sizes, seed 0; 95 % bootstrap
intervals over rows. A model was chosen for each that can do it, but for ListOps, of which 10,000 rows teach the small encoder about half:
what others make of them is for `attentif compare`.
"""
LONG = False
TRIALS = [
    Trial("copying", "copying", "Mamba: symbols said again after a silence of 32."),
    Trial("selective copying", "selective-copying", "Mamba: the symbols that stood among blanks."),
    Trial("associative recall", "recall", "Attention: the value of each of 4 keys."),
    Trial("induction", "induction", "Mamba: what followed the mark before."),
    Trial("sorting", "sorting", "Attention: 12 numbers in order."),
    Trial("parity", "parity", "LSTM: is the number of ones odd, so far?"),
    Trial("ListOps", "listops", "Attention: the value of nested operations, one of ten."),
    Trial("needle", "needle", "Mamba: a colour said once among decoys."),
]


def run(quick: bool) -> Iterator[str]:
    for trial in TRIALS:
        yield section(trial, quick=quick)
