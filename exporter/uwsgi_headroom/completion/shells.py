"""The shells that there are scripts for. Imports nothing: the command line names them."""

SHELLS = ("bash", "zsh", "fish")
