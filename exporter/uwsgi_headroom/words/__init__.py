"""How figures, states and limits are written: one table for Python, the page, `top`, the report and the dashboards.

This package imports no other.
"""
