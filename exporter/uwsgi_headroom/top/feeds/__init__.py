"""Where the documents that `top` shows come from."""
