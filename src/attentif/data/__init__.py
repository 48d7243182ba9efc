"""Examples: readers, built-in sets, splits, token shards, batches."""

from attentif.data.batching import padding_waste, plan
from attentif.data.columns import ANSWER, CLASSIFY, LANGUAGE, SUMMARISE, TAG, TEXT_TO_TEXT, TRANSLATE, Roles
from attentif.data.config import DataConfig
from attentif.data.corpus import Corpora, Corpus, file_corpus, load_corpora
from attentif.data.load import load_rows, load_table
from attentif.data.shards import TokenStream, token_stream
from attentif.data.table import Splits, Table

__all__ = [
    "ANSWER", "CLASSIFY", "LANGUAGE", "SUMMARISE", "TAG", "TEXT_TO_TEXT", "TRANSLATE", "Corpora", "Corpus", "DataConfig", "Roles",
    "Splits", "Table", "TokenStream", "file_corpus", "load_corpora", "load_rows", "load_table", "padding_waste", "plan", "token_stream",
]  # fmt: skip
