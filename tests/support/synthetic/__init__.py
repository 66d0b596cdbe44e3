"""Synthetic histories of uWSGI servers with known answers, for tests and examples of the capacity review."""
