"""Memory of large blocks goes back to the kernel."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
from uwsgi_headroom.allocator import return_large_blocks
return_large_blocks()
bytes(16_000_000)  # freed at once: from here on, glibc by itself takes blocks up to this size from its heap
kept = []
for _ in range(20):
    large = [bytearray(8_000_000)]
    large[0][::4096] = bytes(len(large[0][::4096]))  # so that each of its pages is held
    kept.append((large, bytearray(100_000)))
for large, _ in kept:
    large.clear()
print(int(open("/proc/self/statm").read().split()[1]) * 4096)
"""


def test_large_blocks_return() -> None:
    """After 160 MB in large blocks, each below a small one that stays, next to nothing of them is held."""
    result = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert int(result.stdout) < 60_000_000
