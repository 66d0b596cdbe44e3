"""Pure functions from documents to lines of text."""
