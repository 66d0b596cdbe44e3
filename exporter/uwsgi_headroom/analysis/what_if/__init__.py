"""Predicts how a server would do in another setting of processes and threads, from one setting that was observed.

Pure Python: no I/O, no clock. A prediction takes some milliseconds.
"""
