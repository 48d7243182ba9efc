"""Training: loop, optimisers, schedules, checkpoints, run folders, distribution."""
