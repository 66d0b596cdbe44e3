"""The demo application, its uWSGI configuration and what runs them; used from a checkout, never installed.

This file is read before any other of the folder, and on whatever Python is at hand. So the one thing it does
is to refuse a Python that is too old in words: the others would answer with a syntax error.
"""

import sys

if sys.version_info < (3, 10):  # noqa: UP036  # older Pythons do get here, that is the point
    sys.exit(
        "uwsgi-headroom needs Python 3.10 or newer, and "
        + sys.executable
        + " is "
        + sys.version.split()[0]
        + ". Choose another one: make demo PYTHON=python3.13"
    )
