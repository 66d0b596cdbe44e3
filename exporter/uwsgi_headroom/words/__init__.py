"""How figures, states and limits are written: one table for Python, the page, `top`, the report and the dashboards.

What may live here: `formats` (a rule for each kind of figure), `states` (the words, signs and styles of states, limits,
severities and events), `colours` (the palette, light and dark) and `template` (sentences that are filled with facts).
`tools/generate.py` writes states and colours into the page's files. This package imports no other.
"""
