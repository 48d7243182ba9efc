"""Examples: readers, built-in sets, splits, token shards, batches."""

from attentif.data.batching import padding_waste, plan
from attentif.data.columns import CLASSIFY, LANGUAGE, TRANSLATE, Roles
from attentif.data.config import DataConfig
from attentif.data.corpus import Corpora, Corpus, load_corpora
from attentif.data.load import load_table
from attentif.data.shards import TokenStream, token_stream
from attentif.data.table import Splits, Table

__all__ = [
    "CLASSIFY", "LANGUAGE", "TRANSLATE", "Corpora", "Corpus", "DataConfig", "Roles", "Splits", "Table", "TokenStream",
    "load_corpora", "load_table", "padding_waste", "plan", "token_stream",
]  # fmt: skip
