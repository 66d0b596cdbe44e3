"""Keeps readings in memory: totals that never decrease, an hour of their history, and the events in it."""
