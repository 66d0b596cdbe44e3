"""Situations on a real uWSGI, each with the verdict that `check` must reach, written before the first run."""
