"""Files of `/proc` and `/sys`: trees in tests/kernel/trees.json, each the root for process 4242.

* `hybrid_*`, `v1_*`: captured from Linux 6.18 with the cpu controller in cgroup version 1 and quotas set by hand;
  `v1_container` and `v1_neighbour` inside a cgroup namespace. Each list of pids is replaced by 4242.
* `v2_*`: not captured but written according to the kernel's Documentation/admin-guide/cgroup-v2.rst (`cpu.max`) and
  cgroup_namespaces(7).
* `netstat`: captured from Linux 6.18 after a TCP listen queue had overflowed.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

_FOLDER = tempfile.TemporaryDirectory(prefix="headroom-trees-")

TREES = Path(_FOLDER.name)
"""The folder of the trees, by name; it lasts as long as this process."""

for name, files in json.loads((Path(__file__).parents[1] / "kernel" / "trees.json").read_text()).items():
    for place, text in files.items():
        file = TREES / name / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
