"""A neighbour of the demo's uWSGI: a busy loop that runs for a bounded time."""

from __future__ import annotations

import sys
import time

if __name__ == "__main__":
    end = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end:
        pass
