"""Windows to figures, and figures to words. Pure functions: no I/O, no clock, no Prometheus.

A figure that the window cannot support is None: never NaN, never infinite, never negative.
"""
