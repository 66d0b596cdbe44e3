"""The sources of the documents that `top` shows."""
