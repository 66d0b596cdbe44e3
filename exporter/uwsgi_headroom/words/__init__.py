"""How figures, states and limits are written: one table for Python, the page, `top`, the report and the dashboards.

What may live here: `formats` (a rule for each kind of figure), `states` (the words, signs and styles of states, limits,
severities and events) and `colours` (the palette, light and dark). `tools/generate.py` writes both into the page's
files. This package imports no other.
"""
