"""Measures what hostile stats servers and HTTP clients cost: `python3 -m tools.bench.hostile [--write FILE]`.

`beside` measures an exporter beside both, one or none of them; `decoding` measures the worst documents within the
bounds; `report` formats the tables.
"""
