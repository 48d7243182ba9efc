"""From a model's scores to a text: drawn, or searched for."""

from attentif.decode.beam import Hypothesis, Node, Search, beam_search, search_trees
from attentif.decode.generate import Generated, Token, generate, stream
from attentif.decode.options import GenerateOptions

__all__ = ["GenerateOptions", "Generated", "Hypothesis", "Node", "Search", "Token", "beam_search", "generate", "search_trees", "stream"]
