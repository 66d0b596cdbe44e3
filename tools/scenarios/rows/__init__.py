"""The rows of the table by theme, each with the expectation that was written before it was run."""
