"""Finds request threads by their epoll sets, for a uWSGI whose stats say nothing.

Each request thread of uWSGI makes an epoll set of its own, keeps it for life, and puts the listening sockets into it
before its first request (core/loop.c, `simple_loop_run`): so a worker has as many threads as sets that hold a listening
socket, also if all of them hang. The kernel lists the members of a set in proc_pid_fdinfo(5), under the mutex of the
set: a question for `aside`, asked once for each process and program.
"""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial

from msgspec import Struct

from uwsgi_headroom.errors import AddressError
from uwsgi_headroom.kernel import procfs, sock_diag
from uwsgi_headroom.kernel.namespaces import ask_in_network_of
from uwsgi_headroom.kernel.sock_diag import Family
from uwsgi_headroom.record import is_tcp
from uwsgi_headroom.source import Tcp, Unix, parse_address

_MEMBER = re.compile(rb"^tfd:\s*(\d+).*\bino:([0-9a-f]+)", re.MULTILINE)

_EPOLL, _EVENT = "anon_inode:[eventpoll]", "anon_inode:[eventfd]"

_MOST_DESCRIPTORS, _MOST_CONNECTIONS = 65_536, 16_384
"""How many descriptors of a process are looked at, 0.7 us each: once, and once a second."""

_MOST_SETS = 4096
_MOST_BYTES = 4 << 20
"""Of all sets of a process, 70 bytes a member: a request thread has five, coroutines one for each connection."""

_LIST_SECONDS = 0.1
_MOST_PLACES, _MOST_OTHERS = 4, 256

NONE_WAITS = "no process of it waits for requests: it loads its application, or ends before it has"


class RequestSets(Struct, frozen=True):
    """What one process waits for and holds. It is sent between processes.

    sets: of each epoll set that holds a listening socket, its descriptor; waits: the inodes of these sockets; listens:
    those of all listening sockets; others: those of the other members of the first such set; held: those of all of its
    sockets and pipes; pipes: of pipes alone; loops: whether the set is that of an event loop, which wakes itself up, as
    that of gevent does.
    """

    sets: tuple[int, ...] = ()
    waits: frozenset[int] = frozenset()
    listens: frozenset[int] = frozenset()
    held: frozenset[int] = frozenset()
    others: frozenset[int] = frozenset()
    pipes: frozenset[int] = frozenset()
    loops: bool = False
    names: tuple[tuple[int, str], ...] = ()
    """The names of these listening sockets by inode, as the kernel writes them."""
    why: str = ""
    """Why nothing is known, as a sentence; empty if it is."""


def find_sets(pids: Sequence[int]) -> list[RequestSets]:
    """What each of these processes waits for; nothing for one that has ended. A question for `aside`."""
    return [_find(pid) for pid in pids]


DENIED = f"this user may not see what process {{}} waits for: {procfs.WHO_MAY_KNOW}"


def find_listening(place: Unix | Tcp) -> frozenset[int]:
    """The inodes of the sockets that clients reach at a place in this network namespace. A question for `aside`.

    Other users can listen under the same name: on a file of that path in a mount namespace of their own, and on all
    addresses of IPv6 alone, beside a socket of IPv4.
    """
    named = name_listening(None)
    if isinstance(place, Unix) and place.path.startswith("@"):
        return frozenset(inode for inode, name in named.items() if name == place.path)
    if isinstance(place, Unix):
        path = os.path.abspath(place.path)
        same = [inode for inode, name in named.items() if name == path]
        others = [inode for inode, name in named.items() if os.path.basename(name) == os.path.basename(path)]
        found = frozenset(each for each in same if _is_reached(each, path, is_named=True))
        return found or frozenset(each for each in others[:_MOST_OTHERS] if _is_reached(each, path, is_named=False))
    own, every = sock_diag.inet_name(place.host, place.port), (f"0.0.0.0:{place.port}", f"[::]:{place.port}")
    for name in (own, *every[":" in place.host :]):  # the kernel prefers the socket of one address
        if inodes := frozenset(inode for inode, found in named.items() if found == name):
            return inodes
    return frozenset()


def find_place(pids: Sequence[int]) -> tuple[Unix | Tcp | None, str]:
    """Where clients here reach a socket at which one of these processes waits for requests: None if only this kernel
    knows it, as in another network namespace. With why nothing is known, or that none waits; empty if one does. A
    question for `aside`."""
    found = find_sets(pids)
    pairs = zip(pids, found, strict=True)
    names = {inode: (name, pid) for pid, each in pairs for inode, name in each.names[:_MOST_PLACES]}
    for inode, (name, pid) in sorted(names.items()):
        with suppress(AddressError, OSError):
            here = "" if is_tcp(name) or name.startswith(("/", "@")) else f"{os.readlink(f'/proc/{pid}/cwd')}/"
            place = parse_address(here + name.replace("0.0.0.0:", "127.0.0.1:").replace("[::]:", "[::1]:"))
            if isinstance(place, Unix | Tcp) and inode in find_listening(place):
                return place, ""
    return None, "" if names else next(filter(None, (each.why for each in found)), NONE_WAITS)


def _is_reached(inode: int, path: str, *, is_named: bool) -> bool:
    """Whether a UNIX socket is the one of this path here: it was bound to this file. is_named: by this path, and not by
    a relative one or through a link. Raises OSError of the kernel's."""
    payload = sock_diag.ask_about(sock_diag.unix_request(sock_diag.UDIAG_SHOW_VFS | sock_diag.UDIAG_SHOW_UID, inode))
    found = sock_diag.attributes(payload or b"", sock_diag.unix_diag_msg)
    try:
        file, owner = os.stat(path), found.get(sock_diag.UNIX_DIAG_UID)
    except OSError:  # no client that is like this program can reach it
        return False
    # Btrfs and overlays say other numbers. Only root and its owner can have made the file.
    users = [user.to_bytes(4, sys.byteorder) for user in (0, file.st_uid) if is_named]
    return sock_diag.unix_file(found.get(sock_diag.UNIX_DIAG_VFS, b"")) == (file.st_ino, file.st_dev) or owner in users


def list_accepted(pids: Sequence[int], names: Sequence[str], *ages: str) -> list[dict[int, tuple[float, bool]] | None]:
    """The connections that each of these processes of one server has accepted from sockets of these names: by inode,
    the seconds since data of the client came, as far as TCP knows, else 0 (and 0 without the word "ages"), and whether
    the client has closed it since; None where they are hidden or too many. A question for `aside`."""
    connections = ask_in_network_of(pids[0], partial(list_connections, names, bool(ages)))
    found: list[dict[int, tuple[float, bool]] | None] = []
    for pid in pids:
        held: dict[int, tuple[float, bool]] | None = None
        with suppress(OSError):
            targets = dict(procfs.list_descriptors(pid, _MOST_CONNECTIONS))
            if len(targets) < _MOST_CONNECTIONS:
                inodes = filter(None, map(procfs.socket_inode, targets.values()))
                held = {inode: connections[inode] for inode in inodes if inode in connections}
        found.append(held)
    return found


def find_blocked(threads: Sequence[tuple[int, int]]) -> list[float]:
    """For how many seconds each of these threads, as process and thread, has not run; 0 if it has, or if that is
    unknown. A question for `aside`.

    The kernel says when a thread ran last (`se.exec_start` of sched(5), with CONFIG_SCHED_DEBUG), on a clock of its CPU
    that stands still while the CPU serves interrupts or the hypervisor. So this thread reads each CPU's clock there.
    """
    stats = [(procfs.read_process_stat(pid, thread), _read_last_run(f"{pid}/task/{thread}")) for pid, thread in threads]
    ran = [(stat.cpu, at) if stat and at is not None else (-1, 0.0) for stat, at in stats]
    clocks = _read_clocks({cpu for cpu, _ in ran})
    seconds = [clocks.get(cpu, at) - at for cpu, at in ran]
    return [each if each >= _RUNS_SECONDS else 0.0 for each in seconds]


_RUNS_SECONDS = 1.0
"""A thread that last ran fewer seconds ago is taken for one that runs."""

_MOST_CPUS = 16
_LAST_RUN = re.compile(rb"^se\.exec_start\s*:\s*(\d+\.\d+)", re.MULTILINE)


def _read_last_run(thread: str) -> float | None:
    """When a thread ran last, in seconds of its CPU's clock."""
    with suppress(OSError):
        if found := _LAST_RUN.search(procfs.read_begin(512, "/proc", thread, "sched")):
            return float(found[1]) / 1000
    return None


def _read_clocks(cpus: Collection[int]) -> dict[int, float]:
    """What the clocks of those of these CPUs say that this thread may use."""
    own, found = os.sched_getaffinity(0), dict[int, float]()
    try:
        for cpu in sorted(own.intersection(cpus))[:_MOST_CPUS]:
            os.sched_setaffinity(0, {cpu})
            if clock := _read_last_run("thread-self"):
                found[cpu] = clock
    finally:
        os.sched_setaffinity(0, own)
    return found


def list_connections(names: Sequence[str], ages: bool) -> dict[int, tuple[float, bool]]:
    """The connections to sockets of these names, in this thread's network, by inode. Raises OSError."""
    inodes: dict[int, tuple[float, bool]] = {}
    ports = {int(name.rpartition(":")[2]) for name in names if is_tcp(name)}
    for port in ports.intersection(range(1 << 16)):
        for family in (socket.AF_INET, socket.AF_INET6):
            request = sock_diag.connections_request(family, port.to_bytes(2, "big"))
            for payload in sock_diag.ask(request, seconds=_LIST_SECONDS)[0]:
                found = sock_diag.inet_diag_msg.unpack_from(payload)
                age, _ = (ages and sock_diag.read_ages(payload)) or (0.0, 0.0)
                inodes[found[-1]] = age, sock_diag.seconds_to_end(payload) > 0
    if not all(map(is_tcp, names)):
        request = sock_diag.unix_request(sock_diag.UDIAG_SHOW_NAME, states=1 << sock_diag.TCP_ESTABLISHED)
        for payload in sock_diag.ask(request, seconds=_LIST_SECONDS)[0]:
            parts = sock_diag.attributes(payload, sock_diag.unix_diag_msg)
            name = parts.get(sock_diag.UNIX_DIAG_NAME, b"")
            if name and sock_diag.unix_name(name) in names:
                left = parts.get(sock_diag.UNIX_DIAG_SHUTDOWN) == sock_diag.BOTH_WAYS
                inodes[sock_diag.unix_diag_msg.unpack_from(payload)[4]] = 0.0, left
    return inodes


def _find(pid: int) -> RequestSets:
    try:
        targets = dict(procfs.list_descriptors(pid, _MOST_DESCRIPTORS))
        sets = _read_sets(pid, [number for number, target in targets.items() if target == _EPOLL])
        sockets = {number: inode for number, target in targets.items() if (inode := procfs.socket_inode(target))}
        inodes = {*sockets.values()}
        names = ask_in_network_of(pid, partial(name_listening, inodes)) if inodes else {}
    except PermissionError:  # files of a process that ends belong to root, from when its memory is gone
        stat = procfs.read_process_stat(pid)
        is_ending = stat is not None and (stat.has_ended or not stat.pages)
        return RequestSets(why=DENIED.format(pid) * (not is_ending))
    except (FileNotFoundError, ProcessLookupError):
        return RequestSets()
    except OSError as error:
        return RequestSets(why=str(error))
    listening = {number for number, inode in sockets.items() if inode in names}
    first = min((number for members in sets.values() for number in members if number in listening), default=None)
    # uWSGI opens its sockets first: a set without the first one is the application's own.
    own = {number: members for number, members in sets.items() if first in members}
    waits = {inode for members in own.values() for number, inode in members.items() if number in listening}
    members = own[min(own)] if own else {}
    pipes = {int(target[len("pipe:[") : -1]) for target in targets.values() if target.startswith("pipe:[")}
    return RequestSets(
        sets=tuple(sorted(own)),
        waits=frozenset(waits),
        others=frozenset({*members.values()} - waits),
        held=frozenset({*sockets.values(), *pipes}),
        pipes=frozenset(pipes),
        loops=any(targets.get(number) == _EVENT for number in members),
        names=tuple([(inode, names[inode]) for inode in sorted(waits)]),
        listens=frozenset(names),
    )


def _read_sets(pid: int, descriptors: Sequence[int]) -> dict[int, dict[int, int]]:
    """The members of these epoll sets: inodes by descriptor. Raises OSError."""
    found: dict[int, dict[int, int]] = {}
    left = _MOST_BYTES
    for descriptor in descriptors[:_MOST_SETS]:
        try:
            text = procfs.read_begin(left, f"/proc/{pid}/fdinfo/{descriptor}")
        except FileNotFoundError:  # it was closed meanwhile
            continue
        found[descriptor] = {int(number): int(inode, 16) for number, inode in _MEMBER.findall(text)}
        left -= len(text)
        if left <= 0:
            break
    return found


def name_listening(inodes: set[int] | None) -> dict[int, str]:
    """The names of those of these sockets, or of all, that listen in this thread's network. Raises OSError."""
    families: tuple[Family, ...] = ("unix", "inet", "inet6")
    found = (sock_diag.list_listeners(family, inodes, seconds=_LIST_SECONDS) for family in families)
    return {listener.inode: listener.name for listeners in found for listener in listeners}
