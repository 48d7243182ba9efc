"""Which architecture, at what cost, and why: comparisons, profiles, and the experiments that measure what the course says."""
