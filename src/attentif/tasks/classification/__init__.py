"""Labels for texts: one each, or several at once; what network and linear model answer together."""
