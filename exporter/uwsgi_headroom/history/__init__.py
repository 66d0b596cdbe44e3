"""Keeps readings in memory: totals that never decrease, and an hour of their history."""
