"""Reads the kernel's facts about processes whose PID is proven, and about the sockets they listen on.

This package reads `/proc`, `/sys` and netlink, and nothing else: no uWSGI key, no Prometheus, no timer. Every
function is short and synchronous (it runs on the event loop), never raises because a process has ended or a
permission is missing, and returns None for an unknown fact: 0 is a measurement.
"""
