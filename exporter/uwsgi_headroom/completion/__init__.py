"""Scripts that complete the command line in a shell, made from its parsers."""
