"""The rows of the table by theme, each with an expectation that was written before its first run."""
