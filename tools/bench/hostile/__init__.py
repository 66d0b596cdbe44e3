"""What hostile stats servers and HTTP clients cost.

`beside` measures an exporter beside both, one or none of them; `decoding` measures the worst documents within the
bounds; `report` formats the tables.
"""
