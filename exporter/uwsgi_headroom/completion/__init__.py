"""Shell completion scripts, made from the command line's parsers."""
