"""Text classification, single- and multi-label, with calibration and linear models."""
