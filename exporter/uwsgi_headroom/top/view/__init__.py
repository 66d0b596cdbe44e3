"""Documents to lines of text: pure functions."""
