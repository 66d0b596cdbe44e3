"""Raises the load of real servers until requests wait, and until they break, and compares that with the headroom."""
