"""Reads what leads clients to the sockets of an application: whether a path is that of uWSGI's socket, who else listens
there, and whether the web server of this host may connect.

sock_diag says to which file a UNIX socket was bound, by inode and device; stat(2), which file is at its path now, as
the master sees it. An inherited socket may have been bound where other mounts are, as by systemd: there the file is no
less its own. On file systems that say one device to stat(2) and another to sock_diag (overlayfs, Btrfs), a file that
differs proves nothing.

All of this is a question for `aside`: an odd file system, or another process, may never answer.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from uwsgi_headroom.kernel import procfs, sock_diag
from uwsgi_headroom.kernel.as_user import Ids, ask_as
from uwsgi_headroom.kernel.aside import DIRECT, Asks, NotYetError
from uwsgi_headroom.kernel.namespaces import ask_in_network_of, read_pid_numbers
from uwsgi_headroom.kernel.processes import WorkerProcess
from uwsgi_headroom.kernel.request_sets import find_sets, list_accepted, list_connections, name_listening
from uwsgi_headroom.kernel.waits.programs import NAME
from uwsgi_headroom.kernel.waits.system_calls import CALLS, parse_system_call, read_system_call
from uwsgi_headroom.kernel.web_servers import find_errors, find_lines, find_refused, find_web_servers
from uwsgi_headroom.record import UNKNOWN, Options, is_tcp
from uwsgi_headroom.stats.server import Snapshot
from uwsgi_headroom.surroundings import Keeper, Refusal, Rival, SharedSocket, Sharer, Unserved, Way, WaysIn

LOOK_SECONDS, FIRST_SECONDS, PAUSE_SECONDS = 10.0, 4.0, 600.0
"""The shortest time between two looks at one server, 0.4 ms each; between the first two, which show whether requests
come, and where files are read; and after one without an answer: a file system that hangs costs the server's other facts
a minute."""

_MOST_SOCKETS, _MOST_DESCRIPTORS = 16, 256
_SEARCH_SECONDS, _ASK_SECONDS, _KEEPER_SECONDS = 0.1, 0.2, 1.0
_LOOKS = 20  # at a process that may take requests, 2 ms apart: whether it holds a connection
_MOST_USERS = 8
_STALE_SECONDS, _STILL_SECONDS = 60.0, 0.1


class WaysInReader:
    """Looks at one server again and again. reads_files: 1 searches web servers' files, 2 their error logs as well."""

    def __init__(self, asks: Asks = DIRECT) -> None:
        self._asks = asks
        self.reads_files = 0
        self._not_before, self._keep = float("-inf"), FIRST_SECONDS
        self._requests = 0
        self._known: frozenset[str] = frozenset()
        self._latest = WaysIn()

    def read(
        self,
        master_pid: int,
        snapshot: Snapshot,
        workers: Iterable[WorkerProcess],
        now: float,
        options: Options = UNKNOWN.options,
    ) -> WaysIn:
        """What the last look saw, the same object until the next one. now: monotonic seconds; options: name http
        routers, and the addresses to which they pass requests. Never raises."""
        if now < self._not_before:
            return self._latest
        requests = sum([worker.requests or 0 for worker in snapshot.workers])
        if snapshot.source == "kernel":  # an idle thread wakes only for a request
            requests = sum([each.voluntary_context_switches or 0 for each in workers])
        came = requests != self._requests
        sockets = [(socket.name, socket.protocol) for socket in snapshot.sockets[:_MOST_SOCKETS]]
        served = tuple([each.pid for each in workers]), tuple([name for name, _ in sockets])
        sockets += [(name, "http") for name in options.http or ()]
        of_look = tuple(sockets), self._known, came, self.reads_files, options.http_to or (), served
        try:
            latest = self._asks.ask(read_ways, master_pid, *of_look)
        except NotYetError:
            return self._latest
        except OSError:
            latest, self._keep = WaysIn(), PAUSE_SECONDS
        self._not_before, self._keep = now + self._keep, (LOOK_SECONDS, FIRST_SECONDS)[self.reads_files > 0]
        self._requests, self._latest = requests, latest
        self._known |= {way.name for way in latest.ways if way.state == "clear"}
        return latest


def read_ways(
    master_pid: int,
    sockets: Sequence[tuple[str, str]],
    known: frozenset[str],
    came: bool,
    reads_files: int = 0,
    routed_to: Sequence[str] = (),
    served: tuple[Sequence[int], Sequence[str]] = ((), ()),  # the workers, and the names of their sockets
) -> WaysIn:
    """The ways in to a uWSGI with sockets of these names and protocols; a question for `aside`. known: those that were
    clear before; came: whether requests came since. None are known if the master's descriptors are hidden."""
    held = procfs.read_socket_inodes(master_pid) or frozenset()
    bound = ask_in_network_of(master_pid, _list_bound)
    own, ways = {each.name: each for each in bound if each.inode in held}, list[Way]()
    is_here = len(read_pid_numbers(master_pid)) == 1  # in no container
    for name, _ in sockets:
        if name in own and not is_tcp(name) and not name.startswith("@"):
            way = _look(master_pid, own[name], bound, is_known=name in known)
            if way.state == "clear" and is_here and not came:
                way = way._replace(refusal=_ask_web_server(Path(way.path), own[name].file))
            ways.append(way)
    paths = {way.name: way.path for way in ways}
    named = tuple([(name, paths.get(name, name), protocol) for name, protocol in sockets])
    lines = reads_files > 0 and find_lines(named, tuple(filter(_is_trusted, find_web_servers())))
    errors = reads_files > 1 and find_errors(named, find_web_servers(), master_pid, lines or ())
    lost = {way.name for way in ways if way.state in ("gone", "replaced")}
    names = [name for name, _ in sockets if name not in lost]
    listening = ask_in_network_of(master_pid, partial(name_listening, None)) if reads_files else {}
    sharers = tuple(_find_sharers(master_pid, names, held, listening)) if listening else ()
    if listening:
        sharers += ask_in_network_of(master_pid, lambda: tuple(_find_left(held, procfs.read_name(master_pid))))
    every = {_key(name) for name in listening.values() if is_tcp(name)}
    dead = [each for each in routed_to if every and _is_dead(master_pid, each, every)]
    keepers = tuple(_find_keepers(master_pid, *served, held))
    return WaysIn(tuple(ways), came, lines or (), errors or (), sharers, tuple(dead), keepers)


def find_unserved() -> tuple[Unserved, ...]:
    """Where web servers of this host expect a uWSGI, and nobody listens; a question for `aside`."""
    own, web_servers, found = os.getpid(), find_web_servers(), list[Unserved]()
    if refused := find_refused(web_servers, own):
        bound, ports = _list_bound(), {_key(name) for name in name_listening(None).values() if is_tcp(name)}
        listening = {each.name for each in bound} | {(each.file or (0, 0))[0] for each in bound}
    for (program, address, reason), number in refused.most_common(_MOST_SOCKETS):
        file, holder = address.startswith("/") and _find_file(own, address), None
        if file == _NOTHING:
            holder = next((_find_holder(each, own) for each in bound if each.name == address), None)
        is_stale = file and reason == os.strerror(errno.ECONNREFUSED) and not listening & {address, file[0]}
        # A uWSGI with a network of its own may have started again since: then the file is new.
        is_stale = is_stale and file and time.time() - file[2] > _STALE_SECONDS
        if is_stale or _is_dead(own, address, ports):
            is_down = number > 2 * len(web_servers)
            found.append(Unserved(address, program, reason, number, getattr(holder, "pid", 0), is_down))
    return tuple(found)


class _Bound(NamedTuple):
    """A listening UNIX socket: its name, and the inode and the device of its file, None if unknown."""

    inode: int
    name: str
    file: tuple[int, int] | None


def _list_bound() -> list[_Bound]:
    request = sock_diag.unix_request(sock_diag.UDIAG_SHOW_NAME | sock_diag.UDIAG_SHOW_VFS)
    found = list[_Bound]()
    for payload in sock_diag.ask(request, seconds=_SEARCH_SECONDS)[0]:
        parts = sock_diag.attributes(payload, sock_diag.unix_diag_msg)
        name = sock_diag.unix_name(parts.get(sock_diag.UNIX_DIAG_NAME, b""))
        file = sock_diag.unix_file(parts.get(sock_diag.UNIX_DIAG_VFS, b""))
        found.append(_Bound(sock_diag.unix_diag_msg.unpack_from(payload)[4], name, file))
    return found


def _look(pid: int, own: _Bound, bound: Sequence[_Bound], *, is_known: bool) -> Way:
    """Where the path of a socket leads. A relative one that never led to it may be relative to another directory."""
    path = own.name
    with suppress(OSError):
        path = os.path.normpath(os.path.join(os.readlink(f"/proc/{pid}/cwd"), path))
    found = _find_file(pid, path)
    for file in (found, _find_file(os.getpid(), path), _find_file(1, path)):
        if file and file[:2] == own.file:
            return Way(own.name, path, "clear")
    if own.file is None or found is None or not (is_known or own.name.startswith("/")):
        return Way(own.name, path, "unknown")
    if found == _NOTHING:
        return Way(own.name, path, "gone")
    inode, device, changed = found
    if device != own.file[1]:
        return Way(own.name, path, "unknown")
    there = [each for each in bound if each.file == (inode, device)]
    # Anybody can link a path to any socket. A rival has bound the same name, in the same mounts.
    rivals = (_find_holder(each, pid) for each in there if each.name == own.name and own.name.startswith("/"))
    return Way(own.name, path, "replaced", changed, not there, next(rivals, None))


_NOTHING = 0, 0, 0.0


def _find_file(pid: int, path: str) -> tuple[int, int, float] | None:
    """The inode, as far as sock_diag has it, the device, and the last change of the file at a path as a process sees
    it; None if that is unknown. An absolute link would lead out of the root of another process."""
    try:
        found = os.stat(f"/proc/{pid}/root{path}")
    except FileNotFoundError:
        is_linked = any(os.path.islink(f"/proc/{pid}/root{each}") for each in (path, *Path(path).parents))
        return None if is_linked or not os.path.isdir(f"/proc/{pid}/root") else _NOTHING
    except (OSError, ValueError):
        return None
    return found.st_ino & 0xFFFFFFFF, found.st_dev, found.st_ctime


def _is_trusted(pid: int) -> bool:
    """Whether all ids of a process are those of root, or of this user: anybody may give a process any name."""
    uids = procfs.read_status("Uid", f"/proc/{pid}/status") or ()
    return {*map(int, uids)} in ({0}, {os.geteuid()})


def _find_holder(of: _Bound, master_pid: int) -> Rival | None:
    """A process that holds a socket, in the mounts of the master; None if none is visible in time."""
    mounts = os.readlink(f"/proc/{master_pid}/ns/mnt")
    for pid in procfs.list_processes(_SEARCH_SECONDS):
        with suppress(OSError):
            if mounts != os.readlink(f"/proc/{pid}/ns/mnt"):
                continue
            if any(target == f"socket:[{of.inode}]" for _, target in procfs.list_descriptors(pid, _MOST_DESCRIPTORS)):
                return Rival(pid, procfs.read_name(pid), any(_hold_connection(pid, of.name)))
    return None


def _is_dead(pid: int, address: str, ports: Collection[str]) -> bool:
    """Whether nobody listens at an address of this host, as a process sees it."""
    if is_tcp(address):
        return address.rpartition(":")[0] in ("", "127.0.0.1", "localhost") and _key(address) not in ports
    return address.startswith("/") and _find_file(pid, address) == _NOTHING


def _find_sharers(
    master_pid: int, names: Iterable[str], held: frozenset[int], listening: Mapping[int, str]
) -> Iterator[Sharer]:
    """Other processes of this program that wait for requests at sockets of these names: one of each master, and one of
    all that workers forked. listening: all names in its network, by inode."""
    keys, program = {*map(_key, names)}, procfs.read_name(master_pid)
    named = {f"socket:[{inode}]": (name, inode) for inode, name in listening.items() if _key(name) in keys}
    mounts, own_start = os.readlink(f"/proc/{master_pid}/ns/mnt"), procfs.read_start(master_pid) or 0.0
    leaders, forks = {master_pid}, list[Sharer]()
    for pid in procfs.list_processes(_SEARCH_SECONDS):
        with suppress(OSError):
            stat = _is_of(program, pid) and procfs.read_process_stat(pid)
            leader = stat.parent if stat and procfs.read_name(stat.parent) == program else pid
            if not stat or not leaders.isdisjoint((pid, leader)) or mounts != os.readlink(f"/proc/{pid}/ns/mnt"):
                continue
            targets = {target for _, target in procfs.list_descriptors(pid, _MOST_DESCRIPTORS)}
            for name, inode in (named[target] for target in targets & named.keys()):
                if inode in held and _is_forked(pid, leader, master_pid, inode):
                    fork = Sharer(name, pid, procfs.read_start(pid) or 0.0, "fork", parent=stat.parent)
                    forks += [fork] * _takes_requests(pid)
                elif leader not in leaders and inode in find_sets([pid])[0].waits:
                    leaders.add(leader)
                    start = procfs.read_start(leader) or 0.0
                    kind: SharedSocket = "same" if inode in held else "port" if is_tcp(name) else "older"
                    is_stopped, is_older = stat.state in "Tt", start < own_start
                    yield Sharer(name, leader, max(start, own_start), kind, is_stopped, is_older)
    yield from [fork._replace(number=len({each.pid for each in forks})) for fork in forks[-1:]]


def _find_left(held: frozenset[int], program: str) -> Iterator[Sharer]:
    """Sockets of the same addresses as these, where connections wait, and no process of this program does: another has
    inherited them from an earlier uWSGI with `reuse-port`."""
    listeners = sock_diag.list_listeners("inet", seconds=_SEARCH_SECONDS)
    own = {each.name for each in listeners if each.inode in held}
    found = [each for each in listeners if each.name in own and each.queue and each.inode not in held]
    time.sleep(_STILL_SECONDS * bool(found))  # who accepts shortens its queue, or serves what it has accepted
    later = {each.inode: each.queue or 0 for each in sock_diag.list_listeners("inet", seconds=_SEARCH_SECONDS) if found}
    for each in [each for each in found if later.get(each.inode, 0) >= (each.queue or 0)]:
        holders = list[int]()
        for pid in procfs.list_processes(_SEARCH_SECONDS):
            with suppress(OSError):
                holders += [pid] * (each.inode in (procfs.read_socket_inodes(pid) or ()))
        with suppress(OSError):  # it has ended
            is_ours = 1 in holders or any(_is_of(program, pid) for pid in holders)
            if holders and not is_ours and not any(list_accepted(holders, [each.name])):
                yield Sharer(each.name, min(holders), 0.0, "left", number=each.queue)


def _is_of(program: str, pid: int) -> bool:
    """Whether a process has the name of a master or, since Python 3.14, of a worker."""
    name = procfs.read_name(pid)
    return name == program or name.startswith("uWSGIWorker")


def _is_forked(pid: int, parent: int, master_pid: int, inode: int) -> bool:
    """Whether a worker forked a process, at any depth: its parent waits at a socket of this master's, which no master
    does. One whose parent has ended, and so is its own here, stays in their group and session."""
    own, of_master = (procfs.read_stat_fields(f"/proc/{each}/stat")[2:4] for each in (pid, master_pid))
    return inode in find_sets([parent])[0].waits and (pid != parent or own == of_master)


def _takes_requests(pid: int) -> bool:
    """Whether a forked process waits for the next request: one that does something else has the epoll sets as well."""
    call = parse_system_call(read_system_call(pid, pid))
    return isinstance(call, tuple) and CALLS.get(call[0]) == "epoll" and call[1][0] in find_sets([pid])[0].sets


def _find_keepers(master: int, workers: Sequence[int], names: Sequence[str], held: frozenset[int]) -> Iterator[Keeper]:
    """The programs that hold connections that no worker holds, and a socket of the master's: requests started them."""
    connections = ask_in_network_of(master, partial(list_connections, names, False))
    served = workers[: len(workers) * bool(connections)]
    of_workers, program = [procfs.read_socket_inodes(pid) for pid in served], procfs.read_name(master)
    known = frozenset({0}).union(*filter(None, of_workers))
    lost, own = ({f"socket:[{inode}]" for inode in each} for each in (connections.keys() - known, held))
    found = list[Keeper]()
    for pid in procfs.list_processes(_SEARCH_SECONDS * (bool(lost and served) and None not in of_workers)):
        with suppress(OSError):
            targets = {target for _, target in procfs.list_descriptors(pid, _MOST_DESCRIPTORS)}
            age, name = time.time() - (procfs.read_start(pid) or time.time()), procfs.read_name(pid)
            if targets & lost and targets & own and not _is_of(program, pid) and age >= _KEEPER_SECONDS:
                found.append(Keeper(age, "".join(NAME.findall(name)[:1]), len(targets & lost)))
                lost -= targets
    yield from [each._replace(connections=sum([one.connections for one in found])) for each in sorted(found)[-1:]]


def _key(name: str) -> str:
    """What two names of one socket share: uWSGI's and the kernel's."""
    return name.rpartition(":")[2] if is_tcp(name) else name


def _hold_connection(pid: int, name: str) -> Iterator[bool]:
    """Whether a process holds a connection that it has accepted from a socket of this name, at each of some looks."""
    for _ in range(_LOOKS):
        yield any(list_accepted([pid], [name]))
        time.sleep(0.002)


def _ask_web_server(path: Path, file: tuple[int, int] | None) -> Refusal | None:
    """What keeps the web server of this host from connecting; without a path if nothing does, None if unknown. It takes
    root. Each of its users is asked, with all groups and mounts: where its path leads to another file than that of the
    socket, uWSGI has other mounts."""
    refusals = list[Refusal]()
    for (program, ids), mounts_of in [*dict.fromkeys(_list_users() if os.geteuid() == 0 else ())][:_MOST_USERS]:
        found = _find_file(mounts_of or os.getpid(), str(path))
        said = ["absent"]
        if found and found[:2] == file:
            said = ask_as(ids, partial(_refuse, path), _ASK_SECONDS, mounts_of).split("\0")
        user, group = _name(ids.uid, "passwd"), _name(ids.gid, "group")
        match said:
            case ["may"]:
                return Refusal(program, user, group)
            case ["absent"]:
                refusals.append(Refusal(program, user, group, str(path)))
            case [where, mode, uid, gid]:
                owner = f"{_name(int(uid), 'passwd')}:{_name(int(gid), 'group')}"
                refusals.append(Refusal(program, user, group, where, mode, owner))
    return max(refusals, key=lambda each: bool(each.mode), default=None)


def _list_users() -> Iterator[tuple[tuple[str, Ids], int]]:
    """The name and the ids of the workers of web servers whose master is root's, in the PID and user namespaces of this
    process, and that master if it has other mounts, else 0. Anybody may give such a name, or have a user namespace."""
    for pid in find_web_servers():
        with suppress(OSError):
            parent = getattr(procfs.read_process_stat(pid), "parent", 0)
            uids, gids, groups = (procfs.read_status(each, f"/proc/{pid}/status") for each in ("Uid", "Gid", "Groups"))
            if not uids or not gids or not _is_trusted(parent) or procfs.read_name(parent) != procfs.read_name(pid):
                continue
            users, mounts = (os.readlink(f"/proc/{parent}/ns/{each}") for each in ("user", "mnt"))
            if users == os.readlink("/proc/self/ns/user") and len(read_pid_numbers(pid)) == 1:
                ids = Ids(int(uids[0]), int(gids[0]), tuple(map(int, groups or ())))
                yield (procfs.read_name(pid), ids), parent * (mounts != os.readlink("/proc/self/ns/mnt"))


def _refuse(path: Path) -> str:
    """What keeps this process from connecting to a socket: path, mode, user and group of the first that refuses."""
    for each in (*reversed(path.parents), path):
        if not os.access(each, (os.X_OK, os.W_OK)[each == path]):
            try:
                found = os.stat(each)  # it fails if a link leads to what refuses
            except FileNotFoundError:
                return "absent"
            return f"{each}\0{found.st_mode & 0o7777:o}\0{found.st_uid}\0{found.st_gid}"
    return "may"


def _name(number: int, table: str) -> str:
    """The name of a user or a group of this host; its number if it has none. No directory service is asked."""
    with suppress(OSError, ValueError):
        for line in procfs.read_text("/etc", table).splitlines():
            if line.split(":")[2:3] == [str(number)]:
                return line.partition(":")[0]
    return str(number)
