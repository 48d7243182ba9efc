"""Rule-based dialogue: ELIZA."""

from attentif.text.dialogue.eliza import LANGUAGES, Eliza, ElizaScript, load_script

__all__ = ["LANGUAGES", "Eliza", "ElizaScript", "load_script"]
