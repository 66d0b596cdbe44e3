"""Situations on a real uWSGI: each has an expected verdict, written down before it is run, that `check` has to reach."""
