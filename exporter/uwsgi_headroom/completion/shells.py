"""The shells that have a completion script. Imports nothing, so that help appears at once."""

SHELLS = ("bash", "zsh", "fish")
