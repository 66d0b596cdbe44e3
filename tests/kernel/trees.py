"""Files of `/proc` and `/sys`: trees in tests/kernel/trees.json, each the root for process 4242.

* `hybrid_*`, `v1_*`: captured from Linux 6.18 with the cpu controller in cgroup version 1 and quotas set by hand;
  `v1_container` and `v1_neighbour` inside a cgroup namespace. Each list of pids is replaced by 4242.
* `v2_*`: not captured but written according to the kernel's Documentation/admin-guide/cgroup-v2.rst (`cpu.max`) and
  cgroup_namespaces(7).
* `netstat`: captured from Linux 6.18 after a TCP listen queue had overflowed.

`KernelTree` is a `/proc/stat` and a cgroup with a quota, of which a test sets how much CPU is used. `make_tree`
makes a `/proc` of one process with a root directory of its own, to read options from.
"""

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from uwsgi_headroom.kernel.cpus import GroupQuota
from uwsgi_headroom.kernel.options import read_options
from uwsgi_headroom.record import Options

_FOLDER = tempfile.TemporaryDirectory(prefix="headroom-trees-")

TREES = Path(_FOLDER.name)
"""The folder of the trees, by name; it lasts as long as this process."""


def write_files(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


for _name, _files in json.loads((Path(__file__).with_name("trees.json")).read_text()).items():
    write_files(TREES / _name, _files)

TICKS = os.sysconf("SC_CLK_TCK")


class KernelTree:
    """A fake tree. root: the folder of `/proc` and the cgroup; offline: CPUs that are offline."""

    def __init__(self, root: Path, cpus: int = 2) -> None:
        self.root = root
        self.offline: set[int] = set()
        self._idle = dict.fromkeys(range(cpus), 0.0)
        self._used = dict.fromkeys(range(cpus), 0.0)
        self._group = 0.0
        (root / "proc").mkdir(exist_ok=True)
        (root / "group").mkdir(exist_ok=True)
        self._write()

    def run(self, cpu: int, *, idle: float = 0.0, used: float = 0.0) -> None:
        self._idle[cpu] += idle
        self._used[cpu] += used
        self._write()

    def use_group(self, seconds: float) -> str:
        """Adds CPU seconds to the usage of the cgroup. Returns the text of its usage file."""
        self._group += seconds
        path = self.root / "group" / "cpu.stat"
        path.write_text(f"usage_usec {round(self._group * 1e6)}\nuser_usec 0\nnr_throttled 0\n")
        return str(path)

    def group(self, quota: float) -> GroupQuota:
        return GroupQuota(quota, self.use_group(0.0))

    def _write(self) -> None:
        lines = ["cpu 0 0 0 0 0 0 0 0 0 0"]
        lines += [
            f"cpu{cpu} {round(self._used[cpu] * TICKS)} 0 0 {round(idle * TICKS)} 0 0 0 0 0 0"
            for cpu, idle in self._idle.items()
            if cpu not in self.offline
        ]
        (self.root / "proc/stat").write_text("\n".join([*lines, "intr 1 2 3", ""]))


PID = 7
CWD = "/srv"


def make_tree(where: Path, *words: str, files: Mapping[str, str] | None = None) -> Path:
    """A `/proc` in which process PID has these words as its command line. files: by absolute path in its root."""
    proc, root = where / "proc", where / "root"
    (proc / str(PID)).mkdir(parents=True)
    (proc / str(PID) / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in words))
    (proc / str(PID) / "cwd").symlink_to(CWD)
    (proc / str(PID) / "root").symlink_to(root)
    (root / CWD[1:]).mkdir(parents=True)
    write_files(root, {name[1:]: text for name, text in (files or {}).items()})
    return proc


def options_of(where: Path, *words: str, files: Mapping[str, str] | None = None) -> Options:
    return read_options(PID, proc=make_tree(where, "/usr/bin/uwsgi", *words, files=files))


def set_in(options: Options) -> dict[str, object]:
    return {name: getattr(options, name) for name in options.source}
