"""Memory: what a process may still take, what one more worker takes, and processes that ran out of it."""

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernel.contained import cgroup
from tests.kernel.trees import write_files
from tests.support.other_namespaces import as_nobody, as_root
from tests.support.real_uwsgi import Uwsgi, uwsgi, wait_until
from tests.support.simulated_server import MovableClock
from uwsgi_headroom import stats
from uwsgi_headroom.kernel import memory as module
from uwsgi_headroom.kernel.facts import Memories
from uwsgi_headroom.kernel.host import Host
from uwsgi_headroom.kernel.memory import USS_SECONDS, AvailableMemory, OomKills, WorkerMemories, WorkerMemory
from uwsgi_headroom.kernel.processes import Processes, WorkerProcess
from uwsgi_headroom.record import MemoryPressure
from uwsgi_headroom.source import Answer

PID = 4242
MB = 1_000_000
HOST = 4_096_000_000  # as in MEMINFO
MEMINFO = "MemTotal:        8000000 kB\nMemFree:          100000 kB\nMemAvailable:    4000000 kB\n"
NO_LIMIT = 9_223_372_036_854_771_712
"""The kernel's value of memory.limit_in_bytes without a limit."""

MOUNTED = "30 25 0:26 / /{} rw - cgroup2 cgroup2 rw\n"
V1_MOUNT = "29 25 0:25 / /sys/fs/cgroup/{} rw - cgroup cgroup rw,{}\n"
TOP, UNIFIED, MEMORY = "sys/fs/cgroup", "sys/fs/cgroup/unified", "sys/fs/cgroup/memory"

V1 = {
    "proc/4242/cgroup": "4:memory:/site/app\n0::/\n",
    "proc/self/mountinfo": V1_MOUNT.format("memory", "memory") + MOUNTED.format(UNIFIED),
}
V2 = {"proc/4242/cgroup": "0::/web.slice/app.service\n", "proc/self/mountinfo": MOUNTED.format(TOP)}
HYBRID = {  # the cpu controller in version 1, the memory controller in version 2
    "proc/4242/cgroup": "1:cpu,cpuacct:/site/app\n0::/web.slice/app.service\n",
    "proc/self/mountinfo": V1_MOUNT.format("cpu", "cpu,cpuacct") + MOUNTED.format(UNIFIED),
}


def level(path: str, version: int, limit: int | str, usage: int, cache: int) -> dict[str, str]:
    names, field = {
        1: (("limit_in_bytes", "usage_in_bytes"), "total_inactive_file"),
        2: (("max", "current"), "inactive_file"),
    }[version]
    figures = {f"{path}/memory.{name}": f"{value}\n" for name, value in zip(names, (limit, usage), strict=True)}
    stat = f"anon 1\n{'inactive_file 1' if version == 1 else 'x 1'}\n{field} {cache}\nactive_file 7\n"
    return {f"{path}/cgroup.procs": "", f"{path}/memory.stat": stat, **figures}


def v1_level(folder: str, limit: int, usage: int, cache: int) -> dict[str, str]:
    return level(MEMORY + folder, 1, limit, usage, cache)


def v2_level(folder: str, limit: int | str, usage: int, cache: int, top: str = TOP) -> dict[str, str]:
    return level(top + folder, 2, limit, usage, cache)


def available(*parts: Mapping[str, str], without: str = "") -> AvailableMemory | None:
    """The memory available to process 4242, in a tree of these files and MEMINFO but not of the file `without`."""
    files = {name: text for part in ({"proc/meminfo": MEMINFO}, *parts) for name, text in part.items()}
    files.pop(without, None)
    with tempfile.TemporaryDirectory() as directory:
        write_files(Path(directory), files)
        return module.read_available_memory(PID, root=Path(directory))


V1_LIMITED = (
    V1,
    v1_level("", NO_LIMIT, 900 * MB, 0),
    v1_level("/site", 1000 * MB, 800 * MB, 300 * MB),
    v1_level("/site/app", 2000 * MB, 700 * MB, 100 * MB),
)
UNLIMITED = {"": NO_LIMIT, "/site": NO_LIMIT, "/site/app": module.UNLIMITED}
V2_LIMITED = (
    V2,
    {"sys/fs/cgroup/cgroup.procs": ""},
    v2_level("/web.slice", "max", 800 * MB, 300 * MB),
    v2_level("/web.slice/app.service", 600 * MB, 500 * MB, 200 * MB),
)
HYBRID_LIMITED = (
    HYBRID,
    {f"{UNIFIED}/cgroup.procs": "", f"{UNIFIED}/web.slice/cgroup.procs": ""},
    v2_level("/web.slice/app.service", 600 * MB, 500 * MB, 0, UNIFIED),
)


@pytest.mark.parametrize(
    ("tree", "left"),
    [
        (V1_LIMITED, 500 * MB),  # a parent's limit applies to its children; its usage is that of all below it
        (V2_LIMITED, 300 * MB),  # neither `max` nor a level without the controller is a limit
        (HYBRID_LIMITED, 100 * MB),  # the memory controller is in version 2, the cpu controller in version 1
        # If no cgroup has less, the host's available memory is the limit.
        ((V1, *(v1_level(*each, 0, 0) for each in UNLIMITED.items())), None),
        ((V2, {"sys/fs/cgroup/web.slice/app.service/cgroup.procs": ""}), None),  # not enabled
        ((V2, v2_level("/web.slice/app.service", "max", 10, 0)), None),
        ((V2, v2_level("/web.slice/app.service", HOST, 10, 10)), None),  # as much as the host
        (({"proc/4242/cgroup": "4:pids:/\n"},), None),  # no controller
    ],
)
def test_the_tightest_level(tree, left):
    """The level with the least left counts, without the inactive file cache."""
    assert available(*tree) == (AvailableMemory(left, "cgroup") if left else AvailableMemory(HOST, "host"))


@pytest.mark.parametrize(
    ("usage", "cache", "left"),
    [(700 * MB, 0, 0), (650 * MB, 100 * MB, 50 * MB), (100 * MB, 200 * MB, 600 * MB)],
    ids=["above its limit", "above it with cache", "more cache than usage"],
)
def test_figures_that_contradict_each_other(usage, cache, left):
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
def test_an_unreadable_limit_makes_the_figure_unknown(tree, without):
    assert available(*tree, without=without) is None


APP = "sys/fs/cgroup/web.slice/app.service"


@pytest.mark.parametrize(
    ("changed", "without"),
    [
        ({"proc/meminfo": "MemFree: 10 kB\n"}, ""),
        ({"sys/fs/cgroup/web.slice/memory.max": "plenty\n"}, ""),
        ({f"{APP}/memory.stat": "anon 1\n"}, ""),
        ({f"{APP}/memory.max/something": ""}, f"{APP}/memory.max"),  # a folder: that is not the same as no limit
    ],
)
def test_an_invalid_file_makes_the_figure_unknown(changed, without):
    assert available(*V2_LIMITED, changed, without=without) is None
    assert module.read_available_memory(2**22 + 1) is None


SIZES = st.integers(0, 10_000 * MB)
LEVELS = st.lists(st.tuples(st.none() | SIZES, SIZES, SIZES), min_size=1, max_size=3)


@settings(max_examples=40)
@given(LEVELS)
def test_the_least_wins(levels):
    folders = ["", "/web.slice", "/web.slice/app.service"][-len(levels) :]
    parts = [
        v2_level(folder, "max" if limit is None else limit, usage, cache)
        for folder, (limit, usage, cache) in zip(folders, levels, strict=True)
    ]
    answer = available(V2, *parts)
    left = [max(0, limit - max(0, usage - cache)) for limit, usage, cache in levels if limit is not None]
    assert answer.byte_count == min([HOST, *left])
    assert 0 <= answer.byte_count <= min([HOST, *(limit for limit, _, _ in levels if limit is not None)])
    assert answer.limited_by == ("cgroup" if left and min(left) < HOST else "host")


CGROUP_WAITS = """\
some avg10=1.66 avg60=0.70 avg300=0.17 total=739274
full avg10=1.66 avg60=0.70 avg300=0.17 total=739274
"""
HOST_WAITS = """\
some avg10=0.93 avg60=0.39 avg300=0.10 total=1284458
full avg10=0.90 avg60=0.32 avg300=0.08 total=814550
"""
"""Captured from Linux 6.18, of a process that reads more than fits into its limit, and of its host."""

OF_HOST, NO_TREE = {"proc/pressure/memory": HOST_WAITS}, {"proc/4242/cgroup": "4:memory:/app\n"}
OWN, UNIFIED_TOP = "sys/fs/cgroup/web.slice/app.service", f"{UNIFIED}/memory.pressure"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {**V2, **OF_HOST, f"{OWN}/cgroup.procs": "", f"{OWN}/memory.pressure": CGROUP_WAITS},
            (0.007, 0.007, "cgroup"),
        ),
        # The limits are those of version 1, and the waits are counted in version 2, as where these lines were captured.
        ({**V1, **OF_HOST, f"{UNIFIED}/cgroup.procs": "", UNIFIED_TOP: CGROUP_WAITS}, (0.007, 0.007, "cgroup")),
        ({**V2, **OF_HOST, f"{OWN}/cgroup.procs": ""}, (0.0039, 0.0032, "host")),  # `cgroup_disable=pressure`
        ({**NO_TREE, **OF_HOST}, (0.0039, 0.0032, "host")),
        ({**NO_TREE, "proc/pressure/memory": "some avg10=0.93\n"}, None),
        (NO_TREE, None),  # an older kernel
    ],
)
def test_how_long_processes_wait_for_memory(tmp_path, files, expected):
    """In the last minute: those of its own cgroup, else those of the host."""
    write_files(tmp_path, files)
    found = module.read_pressure(PID, root=tmp_path)
    assert found == (expected and MemoryPressure(pytest.approx(expected[0]), pytest.approx(expected[1]), expected[2]))
    assert available(*V2_LIMITED, OF_HOST).pressure.some == pytest.approx(0.0039)


MEMORY_CONTROLLER = Path("/sys/fs/cgroup/memory")  # cgroup version 1


@as_root
@pytest.mark.skipif(
    not (MEMORY_CONTROLLER / "cgroup.procs").exists(),
    reason="the memory controller of this machine is not in cgroup version 1",
)
def test_real_limit():
    name = f"headroom-{os.getpid()}"
    program = "taken = b'x' * 20_000_000; print(flush=True); input()"
    outer, setting = MEMORY_CONTROLLER / name, "memory.limit_in_bytes"
    with cgroup(outer, setting, 64 << 20), cgroup(outer / "inner", setting, 128 << 20) as inner:
        join = f'echo $$ > {inner}/cgroup.procs && exec python3 -c "{program}"'
        with subprocess.Popen(["sh", "-c", join], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout.readline() == b"\n"
            answer = module.read_available_memory(process.pid)
            process.kill()
            process.wait()
    assert answer.limited_by == "cgroup"
    assert 20_000_000 < answer.byte_count < (64 << 20) - 20_000_000


OOM_V1 = V1 | {
    f"{MEMORY}/site/app/cgroup.procs": "",
    f"{MEMORY}/site/app/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
}
OOM_V2 = V2 | {
    f"{APP}/cgroup.procs": "",
    f"{APP}/memory.events": "low 0\nhigh 0\nmax 9\noom 4\noom_kill 2\noom_group_kill 0\n",
}
OOM_HOST = {"proc/vmstat": "nr_free_pages 9\noom_kill 7\nunevictable_pgs_scanned 0\n"}


@pytest.mark.parametrize(
    ("files", "kills"),
    [
        (OOM_V1 | OOM_HOST, OomKills(3, 7)),
        (OOM_V2 | OOM_HOST, OomKills(2, 7)),
        (OOM_V2, OomKills(2, None)),
        (OOM_HOST, OomKills(None, 7)),
        (OOM_V2 | {f"{APP}/memory.events": "low 0\n"} | OOM_HOST, OomKills(None, 7)),  # before Linux 4.13
        (OOM_HOST | {"proc/vmstat": "oom_kill\n"}, OomKills(None, None)),
        (OOM_HOST | {"proc/vmstat": "oom_kill many\n"}, OomKills(None, None)),
    ],
)
def test_counts_of_both_versions_are_read(tmp_path, files, kills):
    write_files(tmp_path, files)
    assert module.read_oom_kills(PID, root=tmp_path) == kills
    assert (module.read_oom_kills(1).host or 0) >= 0, "this machine"


MASTER = 4000
KB = 1024

ROLLUP = """\
55c9024a1000-7ffef294f000 ---p 00000000 00:00 0                          [rollup]
Rss:                1700 kB
Pss:                 194 kB
Shared_Clean:       1540 kB
Private_Clean:        44 kB
Private_Dirty:     {dirty:>5} kB
Anonymous:           116 kB
"""
"""A file of Linux 6.18, with some lines left out."""

HUGE = "Shared_Hugetlb:        0 kB\nPrivate_Hugetlb:    2048 kB\n"
SWAP = "Swap:               1000 kB\nSwapPss:             700 kB\n"


def write_rollup(root: Path, pid: int, dirty: int, more: str = "") -> None:
    write_files(root, {f"proc/{pid}/smaps_rollup": ROLLUP.format(dirty=dirty) + more})


def process(pid: int, anonymous: int | None = None, start: float = 1e9) -> WorkerProcess:
    return WorkerProcess(pid, 1.0, 0.5, 20_000_000, 1, 1, None, (0,), 0, start, anonymous)


def by_pid(*processes: WorkerProcess) -> dict[int, WorkerProcess]:
    return {process.pid: process for process in processes}


@pytest.mark.parametrize(("more", "kilobytes"), [("", 44 + 116), (HUGE, 44 + 116 + 2048), (SWAP, 44 + 116 + 700)])
def test_unique_memory(tmp_path, more, kilobytes):
    """Private pages, clean, dirty, swapped and of hugetlbfs; a file without private pages is an error, not 0."""
    write_rollup(tmp_path, 7, 116, more)
    assert module.walk(7, tmp_path)[0] == kilobytes * KB
    write_files(tmp_path, {"proc/7/smaps_rollup": "Rss: 10 kB\nPrivate_Clean: 1 kB\n"})
    with pytest.raises(ValueError, match="no private pages"):
        module.walk(7, tmp_path)


def test_one_worker_a_minute_the_largest_first(tmp_path):
    """One worker is read per minute: first those never read, the largest first, then the one read the longest ago."""
    workers = by_pid(process(1, 10_000), process(2, 30_000), process(3, 20_000))
    for pid in workers:
        write_rollup(tmp_path, pid, pid)
    memories = WorkerMemories(root=tmp_path)
    known = []
    for turn in range(4):
        for part in (0.0, 0.5, 0.99):
            answer = memories.read(MASTER, workers, (turn + part) * USS_SECONDS)
            known.append(sorted(answer.unique))
        write_rollup(tmp_path, 2, 100)  # read when it is worker 2's turn again
    assert known == [*[[2]] * 3, *[[2, 3]] * 3, *[[1, 2, 3]] * 6]
    assert (answer.largest, answer.source) == (144 * KB, "uss")


def test_the_largest_value_of_each_worker_counts(tmp_path):
    memories = WorkerMemories(root=tmp_path)
    write_rollup(tmp_path, 1, 956)
    assert memories.read(MASTER, by_pid(process(1)), 0.0) == WorkerMemory(1000 * KB, "uss", 1000 * KB, {1: 1000 * KB})
    write_rollup(tmp_path, 1, 156)
    assert memories.read(MASTER, by_pid(process(1), process(2)), USS_SECONDS) is not None
    write_rollup(tmp_path, 2, 456)
    both = memories.read(MASTER, by_pid(process(1), process(2)), 2 * USS_SECONDS)
    assert both.unique[1] == 1000 * KB
    used_again = memories.read(MASTER, by_pid(process(1, start=2e9)), 3 * USS_SECONDS)
    assert used_again == WorkerMemory(200 * KB, "uss", 200 * KB, {1: 200 * KB})


def test_together(tmp_path):
    """A worker not yet read counts as the largest."""
    write_rollup(tmp_path, 2, 56)
    workers = by_pid(process(1, 50_000), process(2, 90_000), process(3, 70_000))
    uss = WorkerMemory(100 * KB, "uss", 300 * KB, {2: 100 * KB})
    assert WorkerMemories(root=tmp_path).read(MASTER, workers, 0.0) == uss
    # A worker that restarts is not read before its minute.
    memories = WorkerMemories(root=tmp_path)
    for pid in (1, 2):
        write_rollup(tmp_path, pid, 100)
    memories.read(MASTER, by_pid(process(1)), 0.0)
    assert memories.read(MASTER, by_pid(process(2)), 5.0) is None


def test_anonymous_memory_if_there_is_no_other(tmp_path):
    """Without smaps_rollup, the most of a living worker is the figure, also for all. It may be unknown, too."""
    memories = WorkerMemories(root=tmp_path)
    for now, workers, most in (
        (0.0, (process(1, 900), process(2, 100)), 900),
        (5.0, (process(1, 300), process(2, 200)), 900),
        (10.0, (process(2, 150),), 200),
    ):
        assert memories.read(MASTER, by_pid(*workers), now) == WorkerMemory(most, "anonymous", most, {})
    assert memories.read(MASTER, {}, 15.0) is None
    assert memories.read(MASTER, by_pid(process(1)), 20.0) is None


def test_a_walk_that_takes_too_long_is_not_repeated(tmp_path, monkeypatch):
    write_rollup(tmp_path, 1, 956)
    memories, workers, cpu = WorkerMemories(root=tmp_path), by_pid(process(1, 5_000_000)), [0.0]
    slow = WorkerMemory(5_000_000, "anonymous", 5_000_000, {})

    def read(turn: int, master: int, seconds: float) -> WorkerMemory:
        monkeypatch.setattr(time, "thread_time", lambda: cpu.append(cpu[-1] + seconds) or cpu[-1])
        return memories.read(master, workers, turn * USS_SECONDS)

    assert read(0, MASTER, 0.9 * module.LONGEST_WALK).source == "uss"
    assert read(1, MASTER, 1.1 * module.LONGEST_WALK) == slow
    assert read(2, MASTER, 0.0) == slow
    assert read(3, MASTER + 1, 0.0).source == "uss"


@given(st.lists(st.dictionaries(st.integers(1, 4), st.integers(0, 10**9), max_size=4), min_size=1, max_size=6))
def test_the_largest_living_worker_is_the_figure(samples):
    memories = WorkerMemories(root=Path("/nonexistent"))
    most: dict[int, int] = {}
    for turn, sizes in enumerate(samples):
        most = {pid: max(size, most.get(pid, 0)) for pid, size in sizes.items()}
        answer = memories.read(MASTER, by_pid(*(process(pid, size) for pid, size in sizes.items())), 5.0 * turn)
        assert (answer.largest if answer else None) == max(most.values(), default=None)


def test_a_real_process():
    """Anonymous memory is the kernel's RssAnon, and unique memory is at least what the process allocated itself."""
    program = "taken = b'x' * 20_000_000; print(flush=True); input()"
    with subprocess.Popen(["python3", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        known = Processes().read(os.getpid(), [child.pid])
        status = Path(f"/proc/{child.pid}/status").read_text()
        answer = WorkerMemories().read(os.getpid(), known, 0.0)
        child.kill()
    named = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon:"))
    # The kernel adds up the pages of each CPU only occasionally.
    assert known[child.pid].anonymous_bytes == pytest.approx(named * KB, abs=2_000_000)
    assert answer.source == "uss"
    assert 20_000_000 < answer.largest < 40_000_000


OWN_BYTES = 50_000_000
"""The bytes that large_workers_app.py allocates in each worker."""

OTHER_BYTES = 16_000_000
"""The bytes that the interpreter and uWSGI may add: pages written after the fork, and pages of only one worker."""


@pytest.fixture(scope="module")
def large_workers():
    app = Path(__file__).with_name("large_workers_app.py")
    with uwsgi("--processes", "2", app=app) as server:
        wait_until(lambda: b'"accepting":0' not in server.document(), what="the workers to accept")
        yield server


def memory_over_minutes(server: Uwsgi, minutes: int) -> Memories:
    hands = MovableClock()
    host = Host(clock=hands.clock.monotonic)
    for _ in range(minutes):
        facts = host.read_facts(stats.decode(server.document()), Answer(b"", peer_pid=server.pid))
        hands.move(USS_SECONDS)
    assert facts.memory
    return facts.memory


@pytest.mark.integration
def test_unique_memory_of_real_workers(large_workers):
    memory = memory_over_minutes(large_workers, 6)  # so rarely, one reading in five is slow
    assert memory.worker.source == "uss"
    assert len(memory.worker.unique) == 2
    assert all(OWN_BYTES <= unique <= OWN_BYTES + OTHER_BYTES for unique in memory.worker.unique.values())
    assert memory.worker.largest == max(memory.worker.unique.values())
    assert memory.available.byte_count > 0


@pytest.mark.integration
@as_root
def test_anonymous_memory_of_another_users_workers(large_workers):
    """For a user who may not read the workers' page tables, the figure is anonymous memory, shared pages included."""
    memory = as_nobody(lambda: memory_over_minutes(large_workers, 6), before=lambda: open_to_all(large_workers))
    assert (memory.worker.source, memory.worker.unique) == ("anonymous", {})
    assert OWN_BYTES <= memory.worker.largest <= OWN_BYTES + 2 * OTHER_BYTES
    assert memory.available


def open_to_all(server: Uwsgi) -> None:
    server.directory.chmod(0o755)
    Path(server.stats).chmod(0o666)
