"""What the default recipes reach, on real data and on the built-in sets."""

from collections.abc import Iterator

from benchmarks.real.trial import Trial, section

TITLE = "Real data: the default recipes"
ABOUT = "With 95 % bootstrap intervals; baselines are fitted and scored on the same splits by the same command."
LONG = False
REVIEWS = "$ATTENTIF_DATA/reviews_fr"
TRIALS = [
    Trial("reviews", "reviews", "The built-in synthetic reviews. Goal: above 97 %, TF-IDF at least 5 points below."),
    Trial("numbers", "numbers", "The built-in French numbers, translated to English. Goal: 99 % of unseen numbers exactly right."),
    Trial(
        "series",
        f"reviews --data {REVIEWS}/series.csv --group series",
        "Reviews of television series, split by series. TF-IDF + logistic regression reached 91.9 % on a split of the same kind.",
    ),
    Trial("films", f"reviews --data {REVIEWS}/films_train.csv", "Two thousand film reviews: few, for a model that starts from nothing."),
    Trial("stdlib", "stdlib", "A language model of Python's standard library, one pass."),
    Trial("window-mlp", "window-mlp", "The same text by the fixed window of 2003."),
    Trial("ibm1", "ibm1", "Word alignment of number words by counting."),
    Trial("forecast", "forecast", "Built-in hourly series, a day ahead; real ones are in the section of ETTh1."),
    Trial("heartbeats", "heartbeats", "Built-in signals like electrocardiograms."),
    Trial("digits-cnn", "digits-cnn", "scikit-learn's digits by a residual network."),
    Trial("captions", "captions", "Built-in scenes told in words, by an LSTM that attends to a convolutional map."),
    Trial("video", "video", "Built-in films of moving digits."),
    Trial("contrastive", "contrastive", "Pictures, words and tones of numbers: the right one of 200 is found from another kind."),
]


def run(quick: bool) -> Iterator[str]:
    for trial in TRIALS:
        yield section(trial, quick=quick)
