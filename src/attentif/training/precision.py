"""The scale that keeps fp16's gradients from vanishing: halved where they overflow, doubled after enough steps without."""

from attentif.training.train_state import TrainState

FIRST_SCALE, LARGEST_SCALE = 2.0**16, 2.0**24
STEADY = 1000  # steps without an overflow after which the scale is doubled


def begin_scale(place: TrainState) -> None:
    """fp16 begins with a large scale; the other types need none."""
    if place.precision == "fp16" and place.scale == 1.0:
        place.scale = FIRST_SCALE


def lower_scale(place: TrainState) -> bool:
    """Halve the scale after gradients that were too large for fp16; False if it cannot be halved further."""
    if place.precision != "fp16" or place.scale <= 1.0:
        return False
    place.scale, place.steady = place.scale / 2, 0
    return True


def note_step(place: TrainState) -> None:
    """Double the scale after enough steps without an overflow."""
    if place.precision != "fp16":
        return
    place.steady += 1
    if place.steady >= STEADY and place.scale < LARGEST_SCALE:
        place.scale, place.steady = place.scale * 2, 0
