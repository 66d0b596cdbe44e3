"""Benchmarks of the exporter: `python3 -m tools.bench.NAME` runs one."""
