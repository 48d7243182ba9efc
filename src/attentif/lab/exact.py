"""Claims that are equalities: they hold up to rounding, or not at all."""

from torch import Tensor


def relative_distance(found: Tensor, expected: Tensor) -> float:
    """‖found − expected‖ / ‖expected‖."""
    return float((found - expected).norm() / expected.norm())
