"""The scenes of `captions`, told in English: data.name = "captions-en"."""

from attentif.data.builtin.captions import english_set

SET = english_set()
