"""The scenes of `scenes`, asked about and answered in English: data.name = "scenes-en"."""

from attentif.data.builtin.scenes import english_set

SET = english_set()
