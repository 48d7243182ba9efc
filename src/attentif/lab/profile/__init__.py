"""Time and peak memory against length, of any mixers and presets at one width, on this machine.

found = attentif.profile(["attention", "mamba", "lstm"], lengths="128:16384")
found.words()                # "From 1,900 tokens on, mamba trains faster than attention on this machine ..."
found.save("profile.html")   # or found.as_data(), for machines
"""

from attentif.lab.profile.report import Profile, lengths_of, profile

__all__ = ["Profile", "lengths_of", "profile"]
