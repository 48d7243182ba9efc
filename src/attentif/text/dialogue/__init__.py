"""Dialogue by rules, before anything was learned: ELIZA."""

from attentif.text.dialogue.eliza import LANGUAGES, Eliza, Script, load_script

__all__ = ["LANGUAGES", "Eliza", "Script", "load_script"]
