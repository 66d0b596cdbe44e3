"""Follows what `discover` prints to turn on uWSGI's stats, to the letter, on booted Debians, and measures the harm."""
