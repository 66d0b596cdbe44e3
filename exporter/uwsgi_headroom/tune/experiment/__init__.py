"""Runs servers under loads: one run, a series of them, their results."""
