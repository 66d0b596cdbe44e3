"""Computes figures from windows, and findings and verdicts from figures: no I/O, no clock, no Prometheus.

A figure that the window does not support is None: never NaN, infinite or negative.
"""
