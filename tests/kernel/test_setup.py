"""The setup of real servers, how often it is read, whether cores are threads, where the log is, and disks.

File systems without room are as statvfs(2) would describe them; the mounts and files are this process's own.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.kernel.contained import snapshot_of
from tests.support import real_uwsgi
from tests.support.other_namespaces import as_nobody, as_root
from uwsgi_headroom import stats
from uwsgi_headroom.kernel import setup
from uwsgi_headroom.kernel.backlogs import are_mapped
from uwsgi_headroom.kernel.host import Host
from uwsgi_headroom.kernel.setup import (
    SetupReader,
    count_metrics_files,
    find_concurrency_kind,
    find_full_disks,
    find_log_file,
    read_somaxconn,
)
from uwsgi_headroom.record import UNKNOWN, Options, Setup
from uwsgi_headroom.source import Answer
from uwsgi_headroom.stats import Snapshot


def _accepting(server: real_uwsgi.Uwsgi) -> Snapshot:
    real_uwsgi.wait_until(lambda: b'"accepting":0' not in server.document(), what="the workers to accept")
    return snapshot_of(server)


def _setup(server: real_uwsgi.Uwsgi, snapshot: Snapshot) -> Setup:
    return SetupReader().read(server.pid, snapshot, {worker.pid for worker in snapshot.workers}, 0.0)


def test_read_again_after_a_minute_or_for_other_workers(monkeypatch):
    """The first reading is kept for seconds only: a worker accepts before it has begun its threads."""
    reads: list[object] = []
    monkeypatch.setattr("uwsgi_headroom.kernel.setup.read_setup", lambda *arguments: reads.append(arguments) or UNKNOWN)
    core = {"in_request": 0}
    worker = {"pid": 2, "status": "idle", "accepting": 1, "last_spawn": 9, "cores": [core]}
    one, two = (
        stats.decode(json.dumps({"pid": 1, "workers": workers, "sockets": [{"name": "a"}]}).encode())
        for workers in ([worker], [worker, worker | {"pid": 3}])
    )
    reader = SetupReader()
    for snapshot, now, times in (
        (one, 0.0, 1),
        (one, setup.KEEP_FIRST_SECONDS - 0.1, 1),
        (one, setup.KEEP_FIRST_SECONDS, 2),
        (one, setup.KEEP_FIRST_SECONDS + setup.KEEP_SECONDS - 1, 2),
        (one, setup.KEEP_FIRST_SECONDS + setup.KEEP_SECONDS, 3),
        (two, 2 * setup.KEEP_SECONDS, 4),
        (two, 2 * setup.KEEP_SECONDS + 1, 4),
    ):
        reader.read(1, snapshot, {2, 3}, now)
        assert len(reads) == times
    reader.read(1, two, {2}, 2 * setup.KEEP_SECONDS + 2)
    assert len(reads) == 5, "the second worker is no longer a child of the master"


@pytest.mark.parametrize(
    ("options", "pid", "kind"),
    [(Options(), 0, "threads"), (Options(), 3, "async"), (Options(gevent=20), 0, "async")],
)
def test_workers_that_end_are_not_async(monkeypatch, options, pid, kind):
    """While a reload waits for a worker, the others are gone, and that worker has ended its threads."""
    seen = Setup(options, None, "async", None, None)
    monkeypatch.setattr("uwsgi_headroom.kernel.setup.read_setup", lambda *arguments: seen)
    worker = {"pid": 2, "status": "busy", "accepting": 1, "last_spawn": 9, "respawn_count": 1, "cores": []}
    document = {"pid": 1, "workers": [worker, worker | {"pid": pid}], "sockets": []}
    setup = SetupReader().read(1, stats.decode(json.dumps(document).encode()), {2, 3}, 0.0)
    assert setup.concurrency_kind == kind


@pytest.mark.parametrize(
    ("options", "holders", "workers", "mapped"),
    [
        (Options(), {"a": (1, 2), "b": (1, 2)}, 2, False),
        (Options(), {"a": (1,), "b": (2,)}, 2, True),
        (Options(), {"a": (1,)}, 2, True),
        (Options(), None, 2, None),
        (Options(map_socket=("0:1",)), None, 2, True),
        (Options(complete=True), None, 2, False),
        (Options(), {}, 2, None),
    ],
)
def test_mapped(options, holders, workers, mapped):
    """The descriptors show whether sockets are mapped; if they are hidden, the options may."""
    assert are_mapped(options, holders, workers) is mapped


def test_somaxconn():
    assert read_somaxconn(os.getpid()) == int(Path("/proc/sys/net/core/somaxconn").read_text())
    assert read_somaxconn(2**22 + 1) is None


@pytest.fixture(scope="module")
def mapped():
    """Four workers of eight threads each; the first has a UNIX socket for itself."""
    sockets = ["--http-socket", "web", "--socket", "127.0.0.1:0", "--map-socket", "0:1", "--map-socket", "1:2,3,4"]
    shape = ["--master", "--processes", "4", "--threads", "8", "--wsgi-file", str(real_uwsgi.APP), "--stats", "stats"]
    with real_uwsgi.bare(*shape, *sockets, "--listen", "20") as server:
        yield server


@pytest.mark.integration
def test_mapped_sockets(mapped):
    setup = _setup(mapped, _accepting(mapped))
    holders = dict(setup.socket_holders or {})
    assert holders.pop("web") == (1,)
    assert list(holders.values()) == [(2, 3, 4)]
    assert setup.mapped is True
    assert setup.concurrency_kind == "threads"
    assert setup.options.listen == 20
    assert setup.options.map_socket == ("0:1", "1:2,3,4")
    assert setup.somaxconn
    # The facts of a host include the setup of a proven master.
    snapshot = _accepting(mapped)
    assert Host().read_facts(snapshot, Answer(b"", peer_pid=mapped.pid)).setup.mapped is True
    assert Host().read_facts(snapshot, Answer(b"", peer_pid=os.getpid())).setup is None


@pytest.mark.integration
@as_root
def test_descriptors_are_hidden_from_other_users(mapped):
    snapshot = _accepting(mapped)
    setup = as_nobody(lambda: _setup(mapped, snapshot))
    assert setup.socket_holders is None
    assert setup.mapped is True
    assert setup.concurrency_kind == "threads"


@pytest.mark.integration
@pytest.mark.parametrize(
    ("options", "kind"), [(["--processes", "2"], "single"), (["--ugreen", "--async", "10"], "async")]
)
def test_concurrency(options, kind):
    """A prefork worker serves one request, one with green threads many on one thread; the cores show it as well."""
    with real_uwsgi.uwsgi(*options) as server:
        snapshot = _accepting(server)
        setup = _setup(server, snapshot)
        assert setup.concurrency_kind == kind
        assert setup.mapped is False
        workers = tuple(worker.worker_id for worker in snapshot.workers)
        assert list((setup.socket_holders or {}).values()) == [workers, workers]
        cores = {worker.pid: worker.threads for worker in snapshot.workers if worker.pid}
        assert find_concurrency_kind(Options(), cores) == kind


def _proc(where: Path, *threads: int) -> Path:
    for pid, count in enumerate(threads, 1):
        (where / str(pid)).mkdir()
        (where / str(pid) / "status").write_text(f"Name:\tuwsgi\nThreads:\t{count}\nSigQ:\t0/1\n")
    return where


@pytest.mark.parametrize(
    ("options", "cores", "threads", "kind"),
    [
        (Options(), {1: 1, 2: 1}, (1, 1), "single"),
        (Options(), {1: 1}, (12,), "single"),  # the application has threads of its own
        (Options(), {1: 8}, (8,), "threads"),
        (Options(), {1: 8}, (30,), "threads"),
        (Options(), {1: 8, 2: 8}, (3, 8), "threads"),  # the first process is ending
        (Options(), {1: 50, 2: 50}, (1, 4), "async"),
        (Options(gevent=50), {1: 50}, (90,), "async"),
        (Options(async_cores=50), {}, (), "async"),
        (Options(gevent=1), {1: 1}, (1,), "single"),
        (Options(asyncio=0), {1: 8}, (8,), "threads"),
        (Options(threads=8), {1: 8}, (2,), "threads"),  # the worker has not begun all of them
        (Options(threads=8, gevent=50), {1: 50}, (9,), "async"),
        (Options(), {1: None}, (8,), None),  # stats-no-cores
        (Options(), {9: 8}, (), None),  # the process has ended
        (Options(), {}, (), None),
    ],
)
def test_kind(options, cores, threads, kind, tmp_path):
    """Fewer threads than cores are async; more are threads, unless the options say otherwise."""
    assert find_concurrency_kind(options, cores, proc=_proc(tmp_path, *threads)) == kind


def tree(folder: Path, **descriptors: str) -> Path:
    fds = folder / "proc" / "7" / "fd"
    fds.mkdir(parents=True)
    for number, target in descriptors.items():
        (fds / number.removeprefix("fd")).symlink_to(target)
    return folder / "proc"


@pytest.mark.parametrize(
    ("descriptors", "options", "found"),
    [
        ({"fd1": "one.log", "fd2": "two.log"}, ("one.log",), "two.log"),
        ({"fd1": "one.log", "fd2": "pipe:[4711]"}, (), "one.log"),  # it is the log where 2 is no file
        *(({"fd2": each}, (), None) for each in ("/dev/null", "pipe:[4711]", "socket:[4711]", "/nonexistent", "/tmp")),
        ({"fd2": "a b;rm.log"}, (), None),  # the name goes into a command line that people paste
        ({}, ("older.log", "one.log", "missing.log"), "one.log"),  # without the right, the last option that fits
    ],
)
def test_where_the_log_is(descriptors, options, found, tmp_path):
    """Descriptor 2 is the log. A pipe, a device or a directory cannot be read."""
    for name in ("one.log", "two.log", "a b;rm.log"):
        (tmp_path / name).touch()
    targets = {each: str(tmp_path / name) if name.endswith(".log") else name for each, name in descriptors.items()}
    log_files = tuple(str(tmp_path / name) for name in options)
    log = find_log_file(7, Options(log_files=log_files), proc=tree(tmp_path, **targets))
    assert log == (str(tmp_path / found) if found else "")


def test_the_output_of_a_unit_goes_to_the_journal(tmp_path, monkeypatch):
    """A socket, in a unit of systemd: journald is at its other end. Outside of a unit, nothing is known of a socket."""
    proc = tree(tmp_path, fd1="/dev/null", fd2="socket:[4711]")
    monkeypatch.setattr(setup, "_HAS_JOURNAL", tmp_path)
    assert find_log_file(7, Options(), proc=proc) == ""
    (proc / "7" / "cgroup").write_text("0::/system.slice/shop.service\n")
    assert find_log_file(7, Options(), proc=proc) == "journal:shop.service"
    monkeypatch.setattr(setup, "_HAS_JOURNAL", tmp_path / "nowhere")
    assert find_log_file(7, Options(), proc=proc) == ""


MB = 1_000_000
ROOM = {"f_frsize": 1, "f_blocks": 1000 * MB, "f_files": 1000, "f_flag": 0}


def give(free: int, inodes: int = 10, **more: int) -> Callable[[str], SimpleNamespace]:
    left = dict.fromkeys(("f_bfree", "f_bavail"), free) | dict.fromkeys(("f_ffree", "f_favail"), inodes)
    return lambda _: SimpleNamespace(**ROOM | left | more)


@pytest.mark.parametrize(
    ("statvfs", "expected"),
    [
        (give(4 * MB), []),
        (give(4 * MB - 1), [False]),
        (give(30_000, f_blocks=2 * MB), []),  # a small one
        (give(0, f_blocks=2 * MB), [False]),
        (give(900 * MB, 0), [True]),
        (give(900 * MB, 0, f_files=0), []),  # as of btrfs, which makes them as it needs them
        (give(0, f_flag=os.ST_RDONLY), []),  # as of an image
        (give(0, f_blocks=0), []),
    ],
)
def test_what_is_full(monkeypatch, tmp_path, statvfs, expected):
    """Neither a small file system nor one that nothing is written to is full. The current directory is uWSGI's own."""
    monkeypatch.setattr(setup.procfs, "read_begin", lambda *_: b"disk / ext4 rw 0 0\n")  # a chroot shows none
    monkeypatch.setattr(os, "statvfs", statvfs)
    monkeypatch.chdir(tmp_path)
    found = [each for each in find_full_disks(os.getpid(), "") if each[0] == "directory"]
    assert [each[3] for each in found] == expected
    assert all(each[1] == "/" for each in found)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("counter_123.db", 3), ("gauge_liveall_9.db", 3), ("histogram_1.db", 3), ("orders.db", None)],
)
def test_the_files_of_metrics(tmp_path, name, expected):
    """They are counted in the folder in which a process has one of its own open."""
    for each in ("counter_1.db", "counter_2.db", name, "counter_2.db"):
        (tmp_path / each).touch()
    with open(tmp_path / name, "rb"):
        assert count_metrics_files(os.getpid()) == ((str(tmp_path), expected) if expected else ("", 0))
    assert count_metrics_files(os.getpid()) == ("", 0)


def test_others_are_never_asked(monkeypatch, tmp_path):
    def refuse(path: str) -> None:
        raise AssertionError(path)

    monkeypatch.setattr(setup, "_LOCAL", ())
    monkeypatch.setattr(os, "statvfs", refuse)
    assert find_full_disks(os.getpid(), "/var/log/uwsgi.log") == ()
    assert find_full_disks(2**22 + 1, "") == ()
