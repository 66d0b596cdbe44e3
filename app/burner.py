"""A neighbour of the demo's uWSGI: uses all the CPU it gets, for a bounded time."""

from __future__ import annotations

import sys
import time

if __name__ == "__main__":
    end = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end:
        pass
