"""Predicts how a server would do in another setting of processes and threads, from one setting that was observed."""
