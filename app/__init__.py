"""The demo application, its uWSGI configuration and the programs that run them; used from a checkout, never installed.

Any Python, however old, reads this file before the other files of the folder. It therefore only checks the version and
prints a clear message: the other files would fail with a syntax error.
"""

import os
import sys

if sys.version_info < (3, 10):  # noqa: UP036  # older Pythons reach this line, on purpose
    sys.exit(
        "uwsgi-headroom needs Python 3.10 or newer, and "
        + sys.executable
        + " is "
        + sys.version.split()[0]
        + ". Choose another one: make demo PYTHON=python3.13"
    )

# The demo begins before the package is installed. It needs the package's words, which import nothing else.
sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "exporter"))
