"""Situations on a real uWSGI: `check` has to reach the verdict that was written down before each was run."""
