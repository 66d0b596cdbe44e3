"""Reads what leads clients to the sockets of an application: whether a path is that of uWSGI's socket, what else takes
requests from it, and whether the web server of this host may connect.

sock_diag says which file a UNIX socket was bound to, by inode and device; stat(2) says which file is at its path now.
The path is resolved as the master sees it, within its root. A socket that uWSGI inherited may have been bound where
other mounts are, such as those of systemd: a file that only an ancestor of the master finds is no less its own.

A process that is not of this uWSGI, but waits for requests at its sockets, is left over only if its own master is
gone: zerg, the emperor and socket activation share sockets between processes that have one. Whether a web server may
connect, the kernel is asked by a child process that takes all ids of its workers. All of this is a question for
`aside`: an odd file system, or another process, may never answer.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

from uwsgi_headroom.kernel import procfs, sock_diag
from uwsgi_headroom.kernel.as_user import Ids, ask_as
from uwsgi_headroom.kernel.aside import DIRECT, Asks, NotYetError
from uwsgi_headroom.kernel.namespaces import ask_in_network_of, read_pid_numbers
from uwsgi_headroom.kernel.request_sets import find_sets, list_accepted
from uwsgi_headroom.kernel.web_files import find_named
from uwsgi_headroom.record import Place, Refusal, Rival, Way, WaysIn, is_tcp
from uwsgi_headroom.stats.server import Snapshot

LOOK_SECONDS = 10.0
"""The shortest time between two looks at one server, 1 ms each."""

_MOST_SOCKETS, _MOST_ANCESTORS, _MOST_RIVALS = 16, 8, 8
_MOST_PROCESSES, _MOST_DESCRIPTORS = 8192, 256
_SEARCH_SECONDS = 0.1
_ASK_SECONDS = 0.2
_LOOKS = 20  # at a process that is left over: whether it holds a connection

_EXACT = frozenset({"ext2", "ext3", "ext4", "xfs", "tmpfs", "ramfs", "f2fs", "zfs", "devtmpfs"})
_LOCAL = _EXACT | {"btrfs", "overlay", "bcachefs"}
"""File systems that answer at once; of the exact ones, stat(2) and sock_diag say one number for one file."""

_WEB_SERVER = "nginx"


class WaysInReader:
    """Looks at one server again and again."""

    def __init__(self, asks: Asks = DIRECT) -> None:
        self._asks = asks
        self.reads_files = False
        """Whether to search the files of the web server, as for one look."""
        self._at, self._requests = float("-inf"), -1
        self._latest: WaysIn | None = None

    def read(self, master_pid: int, snapshot: Snapshot, now: float) -> WaysIn | None:
        """What the last look saw, the same object until the next one; None if nothing is known. now: monotonic seconds.
        Never raises."""
        if now - self._at < LOOK_SECONDS:
            return self._latest
        requests = sum([worker.requests or 0 for worker in snapshot.workers])
        came = requests != self._requests and self._requests >= 0
        sockets = tuple([(socket.name, socket.protocol) for socket in snapshot.sockets[:_MOST_SOCKETS]])
        before = self._latest or WaysIn()
        known = tuple([(way.name, way.since) for way in before.ways if way.since is not None])
        met = tuple([place.rival.pid for way in before.ways if (place := way.place) and place.rival])
        try:
            latest = self._asks.ask(read_ways, master_pid, sockets, known, met, came, self.reads_files)
        except NotYetError:
            return self._latest
        except OSError:
            latest = None
        self._at, self._requests, self._latest = now, requests, latest
        return latest


def read_ways(
    master_pid: int,
    sockets: Sequence[tuple[str, str]],
    known: Sequence[tuple[str, float]],
    met: Sequence[int],
    came: bool,
    reads_files: bool = False,
) -> WaysIn | None:
    """The ways in to a uWSGI with sockets of these names and protocols; a question for `aside`. known: by the names of
    those that were seen before, since when they have not led to it, 0 if they did; met: PIDs of rivals; came: whether
    requests came since. None if the master's descriptors are hidden."""
    held = procfs.read_socket_inodes(master_pid)
    if held is None:
        return None
    bound = ask_in_network_of(master_pid, _list_bound)
    own = {each.name: each for each in bound if each.inode in held}
    before, ways = dict(known), list[Way]()
    for name, _ in sockets:
        if name in own and not is_tcp(name) and not name.startswith(("@", "\\0")):
            way = _look(master_pid, own[name], bound, before.get(name), met)
            ways.append(way._replace(refusal=None if came or way.state != "clear" else _ask_web_server(way.path)))
    paths = {way.name: way.path for way in ways}
    addresses = tuple([(name, paths.get(name, name), protocol) for name, protocol in sockets])
    named = find_named(addresses, _find_named(_WEB_SERVER)) if reads_files else ()
    return WaysIn(tuple(ways), tuple(_find_left_over(master_pid, held)), came, named)


class _Bound(NamedTuple):
    """A listening UNIX socket: its name, and the inode and the device of its file, None if unknown."""

    inode: int
    name: str
    file: tuple[int, int] | None


def _list_bound() -> list[_Bound]:
    request = sock_diag.unix_request(sock_diag.UDIAG_SHOW_NAME | sock_diag.UDIAG_SHOW_VFS)
    payloads, _ = sock_diag.ask(request, seconds=_SEARCH_SECONDS)
    found = list[_Bound]()
    for payload in payloads:
        inode = sock_diag.unix_diag_msg.unpack_from(payload)[4]
        parts = sock_diag.attributes(payload, sock_diag.unix_diag_msg)
        name = sock_diag.unix_name(parts.get(sock_diag.UNIX_DIAG_NAME, b""))
        found.append(_Bound(inode, name, sock_diag.unix_file(parts.get(sock_diag.UNIX_DIAG_VFS, b""))))
    return found


def _look(pid: int, own: _Bound, bound: Sequence[_Bound], since: float | None, met: Sequence[int]) -> Way:
    """Where the path of a socket leads. A relative one that never led to it may be relative to another directory."""
    path = own.name
    if not path.startswith("/"):
        with suppress(OSError):
            path = os.path.normpath(os.path.join(os.readlink(f"/proc/{pid}/cwd"), path))
    found = _find_file(pid, path)
    if _is(found, own) or any(_is(_find_file(each, path), own) for each in _list_ancestors(pid)):
        return Way(own.name, path, "clear", 0.0)
    is_sure = found is not None and (since is not None or own.name.startswith("/"))
    if own.file is None or found is None or not is_sure:
        return Way(own.name, path, "unknown")
    since = since or time.time()
    if found is _NOTHING:
        return Way(own.name, path, "gone", since)
    if not found.is_exact:
        return Way(own.name, path, "unknown")
    there = [each for each in bound if each.file == found.file]
    rival = _find_holder(there[0].inode, met) if there else None
    serves = bool(rival and _serves(rival.pid, [there[0].name]))
    place = Place(min(since, found.changed), not there, rival and rival._replace(serves=serves))
    return Way(own.name, path, "replaced", since, place)


class _File(NamedTuple):
    file: tuple[int, int]
    changed: float
    is_exact: bool


_NOTHING = _File((0, 0), 0.0, is_exact=True)


def _is(found: _File | None, own: _Bound) -> bool:
    return found is not None and found.file == own.file


_OPENAT2, _RESOLVE_IN_ROOT = 437, 0x10  # asm-generic/unistd.h, linux/openat2.h
_open_how = struct.Struct("=QQQ")
_libc = ctypes.CDLL(None, use_errno=True)


def _find_file(pid: int, path: str) -> _File | None:
    """The file at a path, as a process sees it: links lead within its root. None if that may not be seen, or if the
    file system might not answer."""
    kind = _find_kind(pid, path)
    if kind not in _LOCAL:
        return None
    place = -1
    try:
        root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_CLOEXEC | os.O_DIRECTORY)
        try:
            how = _open_how.pack(os.O_PATH | os.O_CLOEXEC, 0, _RESOLVE_IN_ROOT)
            place = _libc.syscall(_OPENAT2, root, os.fsencode(path), how, len(how))
            code = ctypes.get_errno()
        finally:
            os.close(root)
        if place < 0:
            return _NOTHING if code in (2, 20) else None  # ENOENT, ENOTDIR
        found = os.fstat(place)
    except (OSError, ValueError):
        return None
    finally:
        if place >= 0:
            os.close(place)
    return _File((found.st_ino & 0xFFFFFFFF, found.st_dev), found.st_ctime, kind in _EXACT)


def _find_kind(pid: int, path: str) -> str:
    """The type of the file system of a path, as of proc_pid_mountinfo(5); empty if unknown."""
    longest, kind = "", ""
    with suppress(OSError, ValueError):
        for line in procfs.read_text(f"/proc/{pid}/mountinfo").splitlines():
            words = line.split()
            mount = words[4].replace("\\040", " ")
            if len(mount) >= len(longest) and f"{path}/".startswith(mount.rstrip("/") + "/"):
                longest, kind = mount, words[words.index("-") + 1]
    return kind


def _list_ancestors(pid: int) -> Iterator[int]:
    """This process, and those from the parent of another one on."""
    yield os.getpid()
    for _ in range(_MOST_ANCESTORS):
        found = procfs.read_process_stat(pid)
        if found is None or found.parent < 1:
            return
        pid = found.parent
        yield pid


def _list_processes() -> list[int]:
    with suppress(OSError):
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()][-_MOST_PROCESSES:]
    return []


@lru_cache(maxsize=4)
def _list_named(name: str, _period: int) -> tuple[int, ...]:
    """The processes of a name, for all servers of one moment."""
    found = list[int]()
    for pid in _list_processes():
        with suppress(OSError):
            if procfs.read_name(pid) == name:
                found.append(pid)
    return tuple(found)


def _find_named(name: str) -> tuple[int, ...]:
    return _list_named(name, int(time.monotonic() // LOOK_SECONDS))


def _find_holder(inode: int, met: Sequence[int]) -> Rival | None:
    """A process that holds a socket, the newest first; None if none is visible in time."""
    end = time.monotonic() + _SEARCH_SECONDS
    for pid in (*met, *reversed(_list_processes())):
        with suppress(OSError):
            if any(target == f"socket:[{inode}]" for _, target in procfs.list_descriptors(pid, _MOST_DESCRIPTORS)):
                return _describe(pid)
        if time.monotonic() > end:
            return None
    return None


def _describe(pid: int) -> Rival:
    return Rival(pid, procfs.read_name(pid), procfs.read_start(pid))


def _serves(pid: int, names: Sequence[str]) -> bool:
    """Whether a process holds a connection that it has accepted from a socket of these names, at any of some looks."""
    for look in range(_LOOKS):
        time.sleep(0.002 * bool(look))
        with suppress(OSError):
            if any(list_accepted([pid], names)):
                return True
    return False


def _find_left_over(master_pid: int, held: frozenset[int]) -> Iterator[Rival]:
    """Processes of an earlier master that still wait for requests at the sockets that this one holds."""
    with suppress(OSError):
        name = procfs.read_name(master_pid)
        others = [pid for pid in _find_named(name) if pid != master_pid and _is_left_over(pid, name)]
        for pid, found in zip(others[:_MOST_RIVALS], find_sets(others[:_MOST_RIVALS]), strict=True):
            if found.waits & held:
                names = [name for _, name in found.names]
                yield _describe(pid)._replace(serves=_serves(pid, names))


def _is_left_over(pid: int, name: str) -> bool:
    """Whether a process has lost its parent, and the leader of its group: the master that had started it."""
    with suppress(OSError, ValueError, IndexError):
        _, parent, group, *_ = procfs.read_stat_fields(f"/proc/{pid}/stat")
        is_orphan = int(parent) <= 1 or procfs.read_name(int(parent)) != name
        return is_orphan and int(group) != pid and procfs.read_state(int(group)) in (b"", b"Z", b"X")
    return False


def _ask_web_server(path: str) -> Refusal | None:
    """What keeps the web server of this host from connecting, or its name alone if nothing does; None if unknown.
    It takes root. Only a web server that root has started is asked about, and none of a container."""
    refusals = list[Refusal]()
    if os.geteuid() == 0:
        for pid, ids in {ids: (pid, ids) for pid, ids in _list_workers(_WEB_SERVER)}.values():
            user = _name(ids.uid, "passwd")
            group = _name(ids.gid, "group")
            said = ask_as(ids, partial(_refuse, Path(path)), _ASK_SECONDS, mounts_of=pid).split("\0")
            if said == [_MAY]:
                return Refusal(_WEB_SERVER, user, group)
            if len(said) == 4:
                where, mode, uid, gid = said
                owner = f"{_name(int(uid), 'passwd')}:{_name(int(gid), 'group')}"
                refusals.append(Refusal(_WEB_SERVER, user, group, where, int(mode) & 0o7777, owner))
            elif said == [_ABSENT]:
                refusals.append(Refusal(_WEB_SERVER, user, group, path))
    return next(iter(refusals), None)


def _list_workers(name: str) -> Iterator[tuple[int, Ids]]:
    """The workers of a web server whose master is root's, in the PID and user namespaces of this process."""
    for pid in _find_named(name):
        with suppress(OSError, ValueError):
            found = procfs.read_process_stat(pid)
            uids, gids, groups, rights = (
                procfs.read_status(each, f"/proc/{pid}/status") for each in ("Uid", "Gid", "Groups", "CapEff")
            )
            if not found or not uids or not gids or groups is None or not rights or int(rights[0], 16):
                continue
            is_here = len(read_pid_numbers(pid)) == 1
            same_user = os.readlink(f"/proc/{pid}/ns/user") == os.readlink("/proc/self/ns/user")
            of_parent = procfs.read_status("Uid", f"/proc/{found.parent}/status") or ()
            is_roots = {*of_parent} == {b"0"} and procfs.read_name(found.parent) == name
            if is_here and same_user and is_roots:
                yield pid, Ids(int(uids[0]), int(gids[0]), tuple(map(int, groups)))


_MAY, _ABSENT = "may", "absent"


def _refuse(path: Path) -> str:
    """What keeps this process from connecting to a socket: path, mode, user and group of the first that refuses."""
    for each in (*reversed(path.parents), path):
        if not os.access(each, os.W_OK if each == path else os.X_OK):
            try:
                found = os.lstat(each)
            except FileNotFoundError:
                return _ABSENT
            if stat.S_ISLNK(found.st_mode):
                return "a link leads there"
            return f"{each}\0{found.st_mode}\0{found.st_uid}\0{found.st_gid}"
    return _MAY


def _name(number: int, table: str) -> str:
    """The name of a user or a group of this host; its number if it has none. No directory service is asked."""
    with suppress(OSError, ValueError):
        for line in procfs.read_text("/etc", table).splitlines():
            if line.split(":")[2:3] == [str(number)]:
                return line.partition(":")[0]
    return str(number)
