"""The studio: pages that look inside the runs of a folder, and the small local API behind them."""
