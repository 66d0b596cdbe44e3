"""Ours against the truth: real uWSGI, a load that times itself, and the exporter as it is run, beside each other.

`python3 -m tools.bench.accuracy` (`make bench-accuracy`) prints the table. `truth.py` says what counts as the truth.
"""
