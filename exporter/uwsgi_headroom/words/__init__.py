"""How figures, states and limits are written: one table for Python, the page, `top`, the report and the dashboards.

What may live here: `formats` (a rule for each kind of figure), `states` (the words, signs and styles of states, limits,
severities and events), `colours` (the palette, light and dark) and `stylesheet` (both as the page's files have them).
This package imports no other.
"""
