"""What hostile stats servers and HTTP clients cost: `python3 -m tools.bench.hostile [--write FILE]`.

`beside` measures an exporter that has both, one or none of them around it, `decoding` the worst documents within the
bounds, `report` puts it into tables.
"""
