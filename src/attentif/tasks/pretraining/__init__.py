"""Learning from text alone: hidden, replaced or missing tokens; and filling them in."""
