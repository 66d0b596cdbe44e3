"""Reads uWSGI's log: counts known messages in it, and keeps nothing else of a line."""
