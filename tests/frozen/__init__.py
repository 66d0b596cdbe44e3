"""Frozen judgements: what the judge was given by real servers and by tests, and what it made of it."""
