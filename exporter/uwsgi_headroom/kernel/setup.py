"""Reads the identity of a server (its host, the start and directory of its master, its emperor and systemd unit) and
its setup: its options, its kernel's limits, its concurrency, the sockets of each worker, where its log is, the file
systems without room that it uses, and the files of its metrics.

File systems of another host, or of a program (FUSE), are never asked for their room: they may not answer."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path, PurePath
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from uwsgi_headroom.config.defaults import JOURNAL
from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.aside import DIRECT, Asks, NotYetError
from uwsgi_headroom.kernel.backlogs import are_mapped, find_socket_holders
from uwsgi_headroom.kernel.namespaces import ask_in_network_of, read_pid_numbers
from uwsgi_headroom.kernel.options import PLAIN_NAME, read_options
from uwsgi_headroom.record import UNKNOWN, ConcurrencyKind, Options, Setup
from uwsgi_headroom.stats.server import Snapshot
from uwsgi_headroom.surroundings import DiskUse, FullDisk


class MasterIdentity(Struct, frozen=True):
    """The identity of a proven master. A field is None if it is hidden or does not exist.

    host: the name of this host.
    started: epoch seconds of the start of the process, which a reload does not change.
    working_directory: the current one; it needs the permission to trace the process (`procfs.read_socket_inodes`).
    emperor_pid: the PID of the parent in its own PID namespace, as in its stats, if the parent is a uWSGI.
    """

    host: str
    started: float | None
    working_directory: str | None
    emperor_pid: int | None


def read_identity(master_pid: int, *, proc: Path = Path("/proc")) -> MasterIdentity:
    """The identity of the uWSGI whose proven master is `master_pid`. Never raises."""
    return MasterIdentity(
        host=os.uname().nodename,
        started=procfs.read_start(master_pid),
        working_directory=read_working_directory(master_pid, proc=proc),
        emperor_pid=_find_emperor(master_pid, proc),
    )


SAME_START = 1.0
"""Seconds between two figures of one start: each is derived from the time since boot, by a clock that is adjusted."""


def is_running(pid: int, started: float | None) -> bool:
    """Whether the process that began at `started` (epoch seconds) still runs, also while it is stopped."""
    now = procfs.read_start(pid)
    if now is None or started is None or abs(now - started) >= SAME_START:
        return False
    return procfs.read_state(pid) not in (b"", b"Z", b"X")


def read_working_directory(pid: int, *, proc: Path = Path("/proc")) -> str | None:
    """The current working directory of a process; None if this user may not read it."""
    try:
        return os.readlink(proc / str(pid) / "cwd")
    except OSError:
        return None


def _find_emperor(pid: int, proc: Path) -> int | None:
    """The PID of the parent if it is a uWSGI: only an emperor starts another master."""
    try:
        parent = int(procfs.read_stat_fields(str(proc / str(pid) / "stat"))[1])
        name = procfs.read_text(proc, str(parent), "comm")
    except (OSError, ValueError, IndexError):
        return None
    if "uwsgi" not in name:
        return None
    return next(reversed(read_pid_numbers(parent, proc=proc)), parent)


_UNIT = re.compile(r"^[0-9]+:(?:name=systemd)?:.*/([\w@.\\:-]+\.service)(?:/|$)", re.MULTILINE | re.ASCII)


def find_systemd_unit(pid: int, root: Path = Path("/")) -> str | None:
    """The innermost service of a process; None if the process is in no service, has ended, or is hidden.

    Its cgroup says so: `/system.slice/uwsgi.service` is `uwsgi.service` (systemd.unit(5), cgroups(7)).
    """
    try:
        found = _UNIT.search(procfs.read_text(root, f"proc/{pid}/cgroup"))
    except (OSError, ValueError):
        return None
    return found and found[1]


KEEP_SECONDS = 60.0
KEEP_FIRST_SECONDS = 4.0
"""How long the first reading of new workers is kept: uWSGI has one accept before it has begun its threads."""


class SetupReader:
    """Reads the setup of one server repeatedly. It is costly to read and changes only with a reload or a new worker:
    kept until the workers change, for a minute at most."""

    def __init__(self, asks: Asks = DIRECT) -> None:
        self._asks = asks
        self._identity: tuple[int, Mapping[int, int], tuple[str, ...]] | None = None
        self._setup: Setup | None = None
        self._kept_until: float

    def read(self, master_pid: int, snapshot: Snapshot, children: Container[int], now: float) -> Setup:
        """The setup of the server whose proven master is `master_pid`. children: PIDs of its proven workers; now:
        monotonic time in seconds. Until an answer is there, it is the last one. Never raises."""
        # A worker that is still starting has not begun its threads, nor closed the sockets of other workers.
        workers = [each for each in snapshot.workers if each.accepting and each.pid in children]
        known = tuple([_Known(each.pid or 0, each.worker_id, each.threads, each.last_spawn) for each in workers])
        names = tuple(socket.name for socket in snapshot.sockets)
        identity = master_pid, {each.pid: each.worker_id for each in known}, names
        is_new = identity != self._identity
        if self._setup is None or is_new or now >= self._kept_until:
            try:
                setup = self._asks.ask(read_setup, master_pid, known, names)
            except NotYetError:
                return self._setup or UNKNOWN
            except OSError as error:
                setup = replace(UNKNOWN, why_unknown=str(error))
            options = setup.options
            has_cores = options.async_cores or options.gevent or options.asyncio
            is_reloading = any(worker.state == "gone" for worker in snapshot.workers)
            if is_reloading and setup.concurrency_kind == "async" and not has_cores:
                # A reload waits for the workers that are left, which have ended their threads.
                setup = replace(setup, concurrency_kind="threads")
            self._setup, self._identity = setup, identity
            self._kept_until = now + (KEEP_FIRST_SECONDS if is_new else KEEP_SECONDS)
        return self._setup


class _Known(NamedTuple):
    """What the document has of an accepting worker."""

    pid: int
    worker_id: int
    threads: int | None
    last_spawn: float | None


def read_setup(master_pid: int, workers: Sequence[_Known], names: tuple[str, ...]) -> Setup:
    """The setup of a server; a question for `aside`."""
    spawns = [worker.last_spawn for worker in workers if worker.last_spawn]
    options = read_options(master_pid, oldest_worker=min(spawns, default=None))
    holders = find_socket_holders(master_pid, names, {worker.pid: worker.worker_id for worker in workers})
    log_path, user = find_log_file(master_pid, options), workers[0].pid if workers else master_pid
    return Setup(
        options=options,
        somaxconn=read_somaxconn(master_pid),
        concurrency_kind=find_concurrency_kind(options, {worker.pid: worker.threads for worker in workers}),
        socket_holders=holders,
        mapped=are_mapped(options, holders, len(workers)),
        log_path=log_path,
        full_disks=find_full_disks(user, log_path),
        metrics_files=count_metrics_files(user),
    )


def read_somaxconn(pid: int) -> int | None:
    """net.core.somaxconn in the network namespace of a process; None if it cannot be asked. /proc/sys shows the
    namespace of the reading thread."""
    try:
        return int(ask_in_network_of(pid, lambda: procfs.read_file("/proc/sys/net/core/somaxconn")))
    except (OSError, ValueError):
        return None


def find_concurrency_kind(
    options: Options, cores: Mapping[int, int | None], *, proc: Path = Path("/proc")
) -> ConcurrencyKind | None:
    """How a worker serves several requests at once: on threads, or on one thread (gevent, asyncio, ugreen). cores: the
    cores of each accepting worker, by PID; None with stats-no-cores. The stats document has a core for each request
    that a worker can serve at once, but does not say if a core is a thread.

    A process with fewer threads than cores proves `async`. More threads do not prove `threads`, since applications
    start threads as well; a server then counts as threaded unless its options say otherwise. Where they set the number
    of threads, nothing is counted: a worker accepts before it has begun all of its threads.
    """
    if any(number and number > 0 for number in (options.async_cores, options.gevent, options.asyncio)):
        return "async" if max(options.async_cores or 0, options.gevent or 0, options.asyncio or 0) > 1 else "single"
    if (options.threads or 0) > 1:
        return "threads"
    known = {pid: number for pid, number in cores.items() if number}
    if not known:
        return None
    if max(known.values()) == 1:
        return "single"
    found = ((pid, procfs.read_status("Threads", proc, str(pid), "status")) for pid in known)
    counts = {pid: int(words[0]) for pid, words in found if words}  # without those that have ended
    if not counts:
        return None
    # All, not any: a worker that is ending may already have joined some of its threads.
    return "async" if all(count < known[pid] for pid, count in counts.items()) else "threads"


_HAS_JOURNAL = Path("/run/systemd/journal")


def find_log_file(pid: int, options: Options, *, proc: Path = Path("/proc")) -> str:
    """The path of the log of the master whose proven PID is `pid`, or `journal:UNIT`; empty if it is not known.
    options: its own. Never raises, but may never end: a question for `aside`.

    Only a regular file that this process can see under the same name is found: a path that could not be read would be
    no advice. A unit of systemd whose output is a socket writes to the journal. Reading the descriptors takes the
    rights of waits.
    """
    for path, descriptor in _candidates(pid, options, proc):
        if path.startswith("socket:") and (unit := find_systemd_unit(pid, proc.parent)) and _HAS_JOURNAL.is_dir():
            return f"{JOURNAL}{unit}"
        try:
            found = os.stat(path)
            if not (path.startswith("/") and PLAIN_NAME.fullmatch(path) and stat.S_ISREG(found.st_mode)):
                continue
            own = os.stat(proc / str(pid) / "fd" / descriptor) if descriptor else _seen_by(pid, path, proc)
        except OSError:
            continue
        if own is None or (own.st_dev, own.st_ino) == (found.st_dev, found.st_ino):
            return path
    return ""


def _seen_by(pid: int, path: str, proc: Path) -> os.stat_result | None:
    """What the process sees at a path, which may be in another root directory; None if that may not be known."""
    try:
        return os.stat(f"{proc}/{pid}/root{path}")
    except PermissionError:
        return None
    except FileNotFoundError:
        if os.path.exists(f"{proc}/{pid}/root"):
            raise
        return None


def _candidates(pid: int, options: Options, proc: Path) -> Iterator[tuple[str, str]]:
    """Paths, the likeliest first, each with the descriptor that it must be the file of; empty for an option's."""
    for descriptor in ("2", "1"):
        try:
            yield os.readlink(proc / str(pid) / "fd" / descriptor), descriptor
        except OSError:
            continue
    for path in reversed(options.log_files):
        yield path, ""


_LOCAL = ("btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "reiserfs", "tmpfs", "xfs", "zfs")
_MOST_FILES, _MOST_MOUNTS, _MOST_ENTRIES = 256, 256 << 10, 20_000

FULL = (4e6, 0.01)
"""Fewer free bytes than these, and a smaller part of the whole, are no room."""


def find_full_disks(pid: int, log_path: str) -> tuple[FullDisk, ...]:
    """Those with a process's directory, log, open or temporary files; none if hidden. A question for `aside`."""
    found = dict[str, FullDisk | None]()
    try:
        places: list[tuple[str, DiskUse]] = [(os.readlink(f"/proc/{pid}/cwd"), "directory"), (log_path, "log")]
        places += [("/tmp", "temporary files")]  # noqa: S108 - nothing is written
        places += [(path, "open files") for _, path in procfs.list_descriptors(pid, _MOST_FILES)]
        lines = procfs.read_begin(_MOST_MOUNTS, f"/proc/{pid}/mounts").decode(errors="replace").splitlines()
        kinds = {words[1]: words[2] for words in (line.split(" ") for line in lines) if len(words) > 2}
        for path, use in places:
            above = (path, *map(str, PurePath(path).parents)) * path.startswith("/")
            mount = next((each for each in above if each in kinds), "")
            if kinds.get(mount) in _LOCAL and mount.isprintable() and mount not in found:
                with suppress(OSError):
                    found[mount] = _find_lack(pid, mount, use)
    except OSError:
        return ()
    return tuple(filter(None, found.values()))


_METRICS = re.compile(r"(/.*)/(?:counter|gauge_\w+|histogram|summary)_\w+\.db")


def count_metrics_files(pid: int) -> tuple[str, int]:
    """The folder in which a worker has files of prometheus_client's multiprocess mode open, and how many files there
    are; an empty folder if it has none. A question for `aside`."""
    with suppress(OSError):
        found = (_METRICS.fullmatch(path) for _, path in procfs.list_descriptors(pid, _MOST_FILES))
        if folder := next((match[1] for match in found if match and match[1].isprintable()), ""):
            with os.scandir(f"/proc/{pid}/root{folder}") as entries:
                return folder, sum(1 for _ in islice(entries, _MOST_ENTRIES))
    return "", 0


def _find_lack(pid: int, mount: str, use: DiskUse) -> FullDisk | None:
    disk, is_root = os.statvfs(f"/proc/{pid}/root{mount}"), os.stat(f"/proc/{pid}").st_uid == 0
    blocks, files = (disk.f_bfree, disk.f_ffree) if is_root else (disk.f_bavail, disk.f_favail)
    (least, part), free = FULL, blocks * disk.f_frsize
    is_full, lacks_inodes = free < min(least, part * disk.f_blocks * disk.f_frsize), disk.f_files > 0 == files
    if disk.f_flag & os.ST_RDONLY or not (is_full or lacks_inodes):
        return None
    return FullDisk(use, mount, free, not is_full)
