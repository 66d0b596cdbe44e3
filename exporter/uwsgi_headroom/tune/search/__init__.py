"""Searches for the best setting with few runs. Pure logic: no I/O, no clock."""
