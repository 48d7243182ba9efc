"""From a model's scores to a text: drawn, or searched for."""

from attentif.decode.beam import BeamSearch, Hypothesis, Node, beam_search, search_trees
from attentif.decode.generate import Generated, Token, generate, stream
from attentif.decode.options import GenerateOptions

__all__ = ["BeamSearch", "GenerateOptions", "Generated", "Hypothesis", "Node", "Token", "beam_search", "generate", "search_trees", "stream"]
