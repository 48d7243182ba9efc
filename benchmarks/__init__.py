"""Measurements. Attentif comes before torch, as in its own commands: it says how OpenMP's threads wait, here for all contestants."""

import attentif  # noqa: F401
