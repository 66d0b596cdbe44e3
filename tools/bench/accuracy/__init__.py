"""Compares the exporter's figures with the truth: a real uWSGI, a load that times its own requests, and the exporter.

`python3 -m tools.bench.accuracy` (`make bench-accuracy`) prints the table. `truth.py` defines the truth.
"""
