"""Pictures: MNIST and scikit-learn's digits, a vision transformer beside a convolutional network, neighbours and a linear model."""

from collections.abc import Iterator

from benchmarks.real.trial import Trial, section

TITLE = "Real data: pictures"
ABOUT = """
The test files are scored once, at the end; the validation split, cut from the training files, is what settings were chosen on. Baselines
are fitted and scored on the same splits by the same command. Intervals are 95 % bootstraps.
"""
LONG = False
TRIALS = [
    Trial(
        "mnist", "mnist --data $ATTENTIF_DATA/mnist", "60,000 digits of 28 × 28 pixels, 10,000 to score. Goal: 99.3 % within half an hour."
    ),
    Trial("digits", "digits", "scikit-learn's 1,797 digits of 8 × 8 pixels. Goal: above 97 % within two minutes."),
]


def run(quick: bool) -> Iterator[str]:
    for trial in TRIALS:
        yield section(trial, quick=quick)
