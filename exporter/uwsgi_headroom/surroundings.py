"""What is around the workers of a uWSGI at one instant, in plain types, as parts of its `record.ServerRecord`.

Its other processes, the limits and disks that it shares with other programs, and what leads clients to it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from msgspec import Struct

DiskUse = Literal["directory", "log", "open files", "temporary files"]


class FullDisk(NamedTuple):
    """A file system of this host without room, and what uWSGI has there. lacks_inodes: it has space, but no inode."""

    use: DiskUse
    mount: str
    free: int
    lacks_inodes: bool


class TrackedConnections(NamedTuple):
    """The kernel's table of tracked connections at one moment, which firewalls and containers need. When it is full,
    the kernel drops packets that begin a connection (nf_conntrack-sysctl.rst in the kernel's documentation)."""

    entries: int
    most: int  # entries that there can be
    dropped: int
    """Packets since the kernel started, also for other reasons."""


class Tasks(NamedTuple):
    """The processes and threads of the cgroup, or user, that has the fewest left, and how many it may have."""

    used: int
    most: int
    zombies: int = 0
    """Ended children of the workers, for which these did not wait; counted where half of the limit is in use."""
    limit: Literal["pids.max", "ulimit -u"] = "pids.max"
    """The latter is that of uWSGI's user, of which only those of the workers are counted as in use."""


Role = Literal["cron", "daemon", "master", "mule", "other", "router", "spooler"]
"""What a process of uWSGI is for that is no worker. daemon: another program that the master started; other: unknown."""


class RoleUse(NamedTuple):
    role: Role
    processes: int
    cpu_seconds: float
    """Since the first look; it never decreases."""
    cpus: float | None
    """CPUs in use on average between the last two looks; None at the first."""
    resident_bytes: int
    stopped: tuple[int, ...] = ()
    """The PIDs here of those that a signal or a debugger has stopped."""
    threads: int = 0  # of all
    files: int = 0
    most_files: int = 0
    """Descriptors of the router that has the fewest left: open, and its limit; 0 if unknown."""


class SharedConnection(NamedTuple):
    """A connection to another server that several workers share, because it was opened before they were forked."""

    address: str
    """Of the other end, as in `ss`."""
    workers: int
    """How many of them have it."""


class Rival(NamedTuple):
    """A process that listens in the place of a uWSGI. serves: whether it held a connection that it had accepted."""

    pid: int
    name: str
    serves: bool


SharedSocket = Literal["same", "older", "port", "fork", "left"]
"""The same; an older one, which was at this path before; another of this port (`reuse-port`); of a forked process; of
this port, where nobody accepts."""


class Sharer(NamedTuple):
    """Another uWSGI that waits for requests at a socket of this name: since when, in epoch seconds, both do."""

    name: str
    pid: int
    since: float
    socket: SharedSocket
    is_stopped: bool = False
    is_older: bool = False
    parent: int = 0
    number: int = 1  # of forked ones, or connections that wait


class Keeper(NamedTuple):
    """Programs that hold connections of clients, and no worker does. age: of the oldest, which is named, in seconds."""

    age: float
    program: str
    connections: int


class Refusal(NamedTuple):
    """What keeps a web server from connecting: the path of the socket, or of a directory above it, its mode and its
    owner, `root:root`. Without a path, nothing does; without a mode, the web server finds nothing there."""

    program: str
    user: str
    group: str
    path: str = ""
    mode: str = ""
    owner: str = ""


class Way(NamedTuple):
    """Where the path of a UNIX socket leads. Of another socket there: since when, in epoch seconds, whether nobody
    listens, and who does, as far as that is visible. refusal: None if no web server was asked."""

    name: str
    path: str
    state: Literal["clear", "gone", "replaced", "unknown"]
    since: float = 0.0
    nobody: bool = False
    rival: Rival | None = None
    refusal: Refusal | None = None


class WebLine(NamedTuple):
    """A line of a web server's configuration that leads to a socket; without a name, it turns buffering off, or its
    block has parameters of its own alone. group: the `upstream` that it belongs to."""

    name: str
    path: str
    line: int
    directive: str
    protocol: str
    group: str = ""


WebCause = Literal[
    "large_head", "none_alive", "not_buffered", "timed_out", "unread", "uploads", "full", "short", "closed", "refused",
    "body_limit", "rate_limit", "no_file", "other", "any", "busy"
]  # fmt: skip


class WebError(NamedTuple):
    """How often the error log of a web server says something about an address, since the first look. name: of the
    socket; empty if the address is none of this uWSGI's. reason: the operating system's, empty without one; of
    `other` and `any`, an error about whatever address, what the web server says."""

    name: str
    address: str
    program: str
    cause: WebCause
    reason: str
    log: str
    number: int


class Unserved(NamedTuple):
    """An address of the uwsgi protocol where a web server could not connect `number` times since the first look, and
    nobody listens. holder: of a socket that had this path, or 0; is_down: whether more tries failed than where others
    answer."""

    address: str
    program: str
    reason: str
    number: int
    holder: int
    is_down: bool


class WaysIn(NamedTuple):
    """What leads clients to a uWSGI, as of the last look. ways: of its sockets with a path; came: whether requests came
    since the look before; lines, errors, sharers and dead_ends, addresses to which a router passes requests and where
    nobody listens: only where files are searched."""

    ways: tuple[Way, ...] = ()
    came: bool = False
    lines: tuple[WebLine, ...] = ()
    errors: tuple[WebError, ...] = ()
    sharers: tuple[Sharer, ...] = ()
    dead_ends: tuple[str, ...] = ()
    keepers: tuple[Keeper, ...] = ()

    @property
    def is_clear(self) -> bool:
        """Whether all paths lead to uWSGI, and the web server of this host may connect to one of them."""
        asked = [way.refusal for way in self.ways if way.refusal and not way.refusal.path]
        return bool(asked) and all(way.state == "clear" for way in self.ways)


class Silence(Struct, frozen=True):
    """Stats that do not answer although the master runs: the figures are the kernel's. since: when they last answered
    (epoch seconds); pid: of the master, here; is_stopped: whether a signal has stopped it; reason: one of
    `errors.REASONS`; why: the same in words; changes: how often threads became idle or busy in the last minute."""

    since: float
    pid: int
    is_stopped: bool
    reason: str
    why: str
    changes: int


def is_local(address: str) -> bool:
    """Whether an address is one of this host: of a UNIX socket, or of the loopback."""
    return address.startswith(("/", "@", "127.", "[::1]"))


class EmperorRecord(Struct, frozen=True):
    vassals: int
    """The number that run."""
    throttled: tuple[str, ...]
    """The names of those that fail to start."""
    longest: float | None
    """The longest wait in seconds before the next attempt; None if unknown."""
    refused: str = ""
    """By the log, the name of the vassal that tyrant mode refuses most often."""
    start: str = ""
    """The message of the log that says why one does not start."""
