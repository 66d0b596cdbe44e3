"""Exit statuses of `check`, which are those of a monitoring plugin. Imports nothing, so that help answers at once."""

UNKNOWN = 3
"""The server was not judged: it could not be read, the command was wrong, it was interrupted, or it failed."""
