"""Available memory: from trees of `/proc` and `/sys` written by these tests, and from a cgroup of this machine."""

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.other_namespaces import as_root
from uwsgi_headroom.kernel.memory import UNLIMITED, AvailableMemory, read_available_memory

PID = 4242
MB = 1_000_000
HOST = 4_096_000_000  # as in MEMINFO
MEMINFO = "MemTotal:        8000000 kB\nMemFree:          100000 kB\nMemAvailable:    4000000 kB\n"
NO_LIMIT = 9_223_372_036_854_771_712
"""The kernel's value of memory.limit_in_bytes without a limit."""

V1 = {
    "proc/4242/cgroup": "4:memory:/site/app\n0::/\n",
    "proc/self/mountinfo": "30 25 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "31 25 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
}
V2 = {
    "proc/4242/cgroup": "0::/web.slice/app.service\n",
    "proc/self/mountinfo": "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
}
HYBRID = {  # the cpu controller in version 1, the memory controller in version 2
    "proc/4242/cgroup": "1:cpu,cpuacct:/site/app\n0::/web.slice/app.service\n",
    "proc/self/mountinfo": "29 25 0:25 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
    "30 25 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
}


def v1_level(folder: str, limit: int, usage: int, cache: int) -> dict[str, str]:
    path = f"sys/fs/cgroup/memory{folder}"
    return {
        f"{path}/cgroup.procs": "",
        f"{path}/memory.limit_in_bytes": f"{limit}\n",
        f"{path}/memory.usage_in_bytes": f"{usage}\n",
        f"{path}/memory.stat": f"inactive_file 1\ntotal_inactive_file {cache}\ntotal_active_file 7\n",
    }


def v2_level(folder: str, limit: int | str, usage: int, cache: int, top: str = "sys/fs/cgroup") -> dict[str, str]:
    path = f"{top}{folder}"
    return {
        f"{path}/cgroup.procs": "",
        f"{path}/memory.max": f"{limit}\n",
        f"{path}/memory.current": f"{usage}\n",
        f"{path}/memory.stat": f"anon 1\ninactive_file {cache}\nactive_file 7\n",
    }


def available(*parts: Mapping[str, str], without: str = "") -> AvailableMemory | None:
    """The memory available to process 4242, in a tree of these files and MEMINFO but not of the file `without`."""
    with tempfile.TemporaryDirectory() as directory:
        for part in ({"proc/meminfo": MEMINFO}, *parts):
            for name, text in part.items():
                if name != without:
                    path = Path(directory, name)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(text)
        return read_available_memory(PID, root=Path(directory))


V1_LIMITED = (
    V1,
    v1_level("", NO_LIMIT, 900 * MB, 0),
    v1_level("/site", 1000 * MB, 800 * MB, 300 * MB),
    v1_level("/site/app", 2000 * MB, 700 * MB, 100 * MB),
)
V2_LIMITED = (
    V2,
    {"sys/fs/cgroup/cgroup.procs": ""},
    v2_level("/web.slice", "max", 800 * MB, 300 * MB),
    v2_level("/web.slice/app.service", 600 * MB, 500 * MB, 200 * MB),
)


def test_the_tightest_level_of_version_1() -> None:
    """A parent's limit applies to its children; its usage is that of all below it, without the inactive file cache."""
    assert available(*V1_LIMITED) == AvailableMemory(500 * MB, "cgroup")


def test_the_tightest_level_of_version_2() -> None:
    """Neither `max` nor a level without the controller is a limit."""
    assert available(*V2_LIMITED) == AvailableMemory(300 * MB, "cgroup")


def test_hybrid() -> None:
    """The memory controller may belong to version 2 while the cpu controller belongs to version 1."""
    top = "sys/fs/cgroup/unified"
    tree = {f"{top}/cgroup.procs": "", f"{top}/web.slice/cgroup.procs": ""}
    own = v2_level("/web.slice/app.service", 600 * MB, 500 * MB, 0, top)
    assert available(HYBRID, tree, own) == AvailableMemory(100 * MB, "cgroup")


@pytest.mark.parametrize(
    "tree",
    [
        (V1, v1_level("", NO_LIMIT, 0, 0), v1_level("/site", NO_LIMIT, 0, 0), v1_level("/site/app", UNLIMITED, 0, 0)),
        (V2, {"sys/fs/cgroup/web.slice/app.service/cgroup.procs": ""}),
        (V2, v2_level("/web.slice/app.service", "max", 10, 0)),
        (V2, v2_level("/web.slice/app.service", HOST, 10, 10)),
        ({"proc/4242/cgroup": "4:pids:/\n"},),
    ],
    ids=["version 1", "not enabled", "max", "as much as the host", "no controller"],
)
def test_without_a_tighter_limit(tree: tuple[Mapping[str, str], ...]) -> None:
    """If no cgroup has less, the host's available memory is the limit."""
    assert available(*tree) == AvailableMemory(HOST, "host")


@pytest.mark.parametrize(
    ("usage", "cache", "left"),
    [(700 * MB, 0, 0), (650 * MB, 100 * MB, 50 * MB), (100 * MB, 200 * MB, 600 * MB)],
    ids=["above its limit", "above it with cache", "more cache than usage"],
)
def test_figures_that_contradict_each_other(usage: int, cache: int, left: int) -> None:
    """Usage may exceed a limit, and cache may exceed usage: the rest is never negative, nor above the limit."""
    tree = v2_level("/web.slice/app.service", 600 * MB, usage, cache)
    assert available(V2, tree) == AvailableMemory(left, "cgroup")


@pytest.mark.parametrize(
    ("tree", "without"),
    [
        (V1_LIMITED, "proc/meminfo"),
        (V1_LIMITED, "proc/4242/cgroup"),
        (V1_LIMITED, "proc/self/mountinfo"),
        (V1_LIMITED, "sys/fs/cgroup/memory/site/memory.usage_in_bytes"),
        (V1_LIMITED, "sys/fs/cgroup/memory/site/memory.stat"),
        (V1_LIMITED, "sys/fs/cgroup/memory/site/app/cgroup.procs"),
        (V2_LIMITED, "sys/fs/cgroup/web.slice/app.service/memory.current"),
        (V2_LIMITED, "sys/fs/cgroup/web.slice/app.service/memory.stat"),
    ],
)
def test_an_unreadable_limit_makes_the_figure_unknown(tree: tuple[Mapping[str, str], ...], without: str) -> None:
    """Without a file that a limit depends on, available memory is unknown: the process may not get what the host
    has."""
    assert available(*tree, without=without) is None


def test_an_invalid_file_makes_the_figure_unknown() -> None:
    """A file with unexpected text makes available memory unknown."""
    assert available(*V2_LIMITED, {"proc/meminfo": "MemFree: 10 kB\n"}) is None
    assert available(*V2_LIMITED, {"sys/fs/cgroup/web.slice/memory.max": "plenty\n"}) is None
    assert available(*V2_LIMITED, {"sys/fs/cgroup/web.slice/app.service/memory.stat": "anon 1\n"}) is None


def test_a_limit_that_cannot_be_opened_is_unknown() -> None:
    """A limit that cannot be opened (here, because it is a folder) is unknown, which is different from no limit."""
    limit = "sys/fs/cgroup/web.slice/app.service/memory.max"
    assert available(*V2_LIMITED, {f"{limit}/something": ""}, without=limit) is None


SIZES = st.integers(0, 10_000 * MB)
LEVELS = st.lists(st.tuples(st.none() | SIZES, SIZES, SIZES), min_size=1, max_size=3)


@given(LEVELS)
def test_the_least_wins(levels: list[tuple[int | None, int, int]]) -> None:
    """For any levels, available memory is not negative, at most the host's and every limit, and determined by one of
    them."""
    folders = ["", "/web.slice", "/web.slice/app.service"][-len(levels) :]
    parts = [
        v2_level(folder, "max" if limit is None else limit, usage, cache)
        for folder, (limit, usage, cache) in zip(folders, levels, strict=True)
    ]
    answer = available(V2, *parts)
    assert answer is not None
    left = [max(0, limit - max(0, usage - cache)) for limit, usage, cache in levels if limit is not None]
    assert answer.byte_count == min([HOST, *left])
    assert 0 <= answer.byte_count <= min([HOST, *(limit for limit, _, _ in levels if limit is not None)])
    assert answer.limited_by == ("cgroup" if left and min(left) < HOST else "host")


def test_gone() -> None:
    """The memory available to a process that has ended is unknown."""
    assert read_available_memory(2**22 + 1) is None


MEMORY_CONTROLLER = Path("/sys/fs/cgroup/memory")  # cgroup version 1


@contextlib.contextmanager
def cgroup(name: str, limit: int) -> Iterator[Path]:
    """A real cgroup, removed at the end of the test."""
    folder = MEMORY_CONTROLLER / name
    folder.mkdir()
    try:
        (folder / "memory.limit_in_bytes").write_text(str(limit))
        yield folder
    finally:
        folder.rmdir()


@as_root
@pytest.mark.skipif(
    not (MEMORY_CONTROLLER / "cgroup.procs").exists(),
    reason="the memory controller of this machine is not in cgroup version 1",
)
def test_real_limit() -> None:
    """A limit on a cgroup's parent applies to a process in the cgroup, minus the process's own usage."""
    name = f"headroom-{os.getpid()}"
    program = "taken = b'x' * 20_000_000; print(flush=True); input()"
    with cgroup(name, 64 << 20), cgroup(f"{name}/inner", 128 << 20) as inner:
        join = f'echo $$ > {inner}/cgroup.procs && exec python3 -c "{program}"'
        with subprocess.Popen(["sh", "-c", join], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout
            assert process.stdout.readline() == b"\n"
            answer = read_available_memory(process.pid)
            process.kill()
            process.wait()
    assert answer is not None
    assert answer.limited_by == "cgroup"
    assert 20_000_000 < answer.byte_count < (64 << 20) - 20_000_000
