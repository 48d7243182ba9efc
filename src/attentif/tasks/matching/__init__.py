"""Tasks that bring several kinds of data together in one space."""
