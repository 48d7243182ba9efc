"""Hugging Face folders in and out: one table a family, read in both directions."""

from attentif.hub import families
from attentif.hub.family import FAMILIES, Family
from attentif.hub.folder import Imported, read_folder, write_folder

__all__ = ["FAMILIES", "Family", "Imported", "families", "read_folder", "write_folder"]
