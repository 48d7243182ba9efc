"""Questions about pictures, by both designs, and digits painted as asked for."""

from collections.abc import Iterator

from benchmarks.real.trial import Trial, format_score, section, train_run

TITLE = "Real data: questions about pictures, and pictures from words"
ABOUT = """
With 95 % bootstrap intervals, those of questions over pictures. Scenes are of scikit-learn's handwritten digits; the digits of the test
stand in no training scene. A drawing is recognised where a support vector machine fitted on real training pictures gives it the class that
was asked for; what that machine is worth on real test pictures stands beside. Nothing was chosen on this test; that relations were not
learned, before each was asked about every digit, had been seen on the test of that time, which had other rows.
"""
LONG = False
TRIALS = [
    Trial("scenes", "vision-language", "A question looks at a picture by cross-attention. Goal: above 95 % exact answers, in minutes."),
    Trial(
        "scenes, one encoder",
        "vision-language model.base=one-encoder-tiny train.epochs=3 train.batch_tokens=4096",
        "Patches and words in one sequence, on the same data; three passes, for every question reads its picture anew. "
        "After six (34 minutes, 2026-11-18) 87.0 %: sums 94 %, relations 73 to 75 %.",
    ),
    Trial("scenes, in English", "vision-language data.name=scenes-en", "The same scenes, asked about and answered in English."),
    Trial("digits painted", "paint", "scikit-learn's digits, 8 × 8 pixels."),
    Trial(
        "MNIST painted",
        "paint --data $ATTENTIF_DATA/mnist task.patch=4 task.codes=256 train.epochs=0 train.minutes=10 train.batch_tokens=4096",
        "MNIST, 28 × 28 pixels, ten minutes.",
    ),
]


def run(quick: bool) -> Iterator[str]:
    for trial in TRIALS:
        yield section(trial, quick=quick)
    yield measure_copying("paint", quick)


def measure_copying(command: str, quick: bool) -> str:
    """How near the drawings of one more seed are to training pictures, and whether another seed draws as well."""
    results = train_run(f"{command} train.seed=1", quick=quick)
    near = results["details"]["copying"]
    return "\n".join(
        [
            "### digits painted, another seed",
            "",
            f"`attentif train {command} train.seed=1`",
            "",
            f"{format_score('recognised', results)} recognised. The median drawing is {near['drawn']:.3f} from the nearest training "
            f"picture (root mean square of a pixel), the median real test picture {near['real']:.3f}; {100 * near['copies']:.1f} % "
            "of the drawings are a training picture to the pixel.",
            "",
        ]
    )
