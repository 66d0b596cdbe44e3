"""Runs processes so that none outlives a run, and reads what they use."""
