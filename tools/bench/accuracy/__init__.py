"""Compares the exporter's figures with the truth: `python3 -m tools.bench.accuracy` (`make bench-accuracy`)."""
