"""Finds the uWSGI masters on this machine and their stats servers, without connecting to any other listener.

A trial connection to an application socket would occupy one of its threads. So discovery uses the kernel instead:
uWSGI's master waits on its stats socket in its own epoll, while its workers wait on application sockets, and
`/proc/<pid>/fdinfo` (proc(5)) lists the members of an epoll. Discovery reads only sockets that the master itself waits
on, and each of them once.

Every local user can run a program named `uwsgi`, and fill its descriptors, command line and memory as it likes. So
whatever costs more than a line is read in the reader process (`kernel.aside`), within bounds. Users take turns: the
first master of each, then the second.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import Any, Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from uwsgi_headroom import source, stats
from uwsgi_headroom.config.defaults import SIZE_CAP
from uwsgi_headroom.config.servers import default_name
from uwsgi_headroom.errors import AddressError, ReadError
from uwsgi_headroom.kernel import aside, procfs, sock_diag
from uwsgi_headroom.kernel.namespaces import ask_in_network_of, read_pid_numbers, shares_network_namespace
from uwsgi_headroom.kernel.options import MasterFiles, read_options
from uwsgi_headroom.kernel.setup import find_systemd_unit, read_working_directory
from uwsgi_headroom.source import Address, Http, ProcessOfApp, SocketOfApp, Tcp, Unix
from uwsgi_headroom.words.formats import counted
from uwsgi_headroom.words.template import fill

T = TypeVar("T")

EACH_SECONDS = 1.0
"""For one question about one master: a few milliseconds are usual."""

_FACTS_SECONDS, _SOCKETS_SECONDS, _ALL_SECONDS = 3.0, 5.0, 7.0
"""When the last question for facts of a master ends, for its sockets, and when the last reading of stats begins:
`discover` takes 10 s in all."""

_READ_SECONDS = 3.0
_READ_AT_ONCE = 4
_MOST_SOCKETS = 8
"""How many stats servers of one master are read: it has one. In `cheap` mode it also waits on the application's."""

_MOST_DESCRIPTORS = 4096
_MOST_EPOLLS = 16
_MOST_EPOLL_BYTES = 256 << 10
"""Of one master: it has one epoll, of a few dozen members, each a line of some 70 bytes."""

_MOST_WORDS = 64 << 10

NO_TIME = "it was not looked at: other processes took all the time that there is. Try again, or give --stats"
TOO_SLOW = (
    "its files in /proc were not readable within 1 s: its own user can cause that, or the machine is very busy. Try "
    "again, or give --stats"
)
_NO_MASTER = (
    "it runs without a master, or has no workers, and only a master has stats: set `master = true`, restart it when "
    "that suits you, and run `discover` again"
)
NOT_ALLOWED = (
    "this user may not inspect its sockets: run `sudo $(command -v uwsgi-headroom) discover`, or run it as uWSGI's "
    "user, or give --stats"
)
_CUT = "it may have stats: the kernel's list of sockets took too long. Try again, or give --stats"
_OTHER_NETWORK = (
    "it runs in a network namespace of its own, whose sockets this user may not see: run "
    "`sudo $(command -v uwsgi-headroom) discover`"
)
_NOT_HERE = (
    "its stats server is in a network namespace of its own, or among mounts of its own: run the exporter there, or "
    "give both a directory for the socket that they share (deploy/container/README.md)"
)
_REPLACED = (
    "the uWSGI with PID {} answers at {}, so nobody can reach this stats server: give each uWSGI an address of its "
    "own, and restart this one when that suits you"
)
_SUBORDINATE_IDS = Path("/etc/subuid")
_UNIX = "unix://"
_NAME = re.compile(r"uwsgi(-core|_(?!exporter)\w+)?|uWSGIWorker\d+\w*")
"""Names of uWSGI's program from pip and Debian (`uwsgi_python3`), but not of exporters such as `uwsgi-headroom`. Since
Python 3.14, a worker's first thread, and so its process, has the name that uWSGI gives to the thread in Python:
`uWSGIWorker1Core0`, of which the kernel keeps 15 bytes."""

_EPOLL_SOCKET = re.compile(rb"^tfd:.*\bino:([0-9a-f]+)", re.MULTILINE)


class FoundMaster(Struct, frozen=True):
    """A uWSGI master or emperor; role is "process" for one that runs without a master, "emperor" if it has no requests.

    address: of its stats server, None if none is visible; what: a summary of the stats. trouble: why the stats cannot
    be read, and what to do; silent: the stats server does not answer in time, so uWSGI may hang. configuration and
    directory: its own configuration file, as its command line has it, and its working directory; unit: its systemd
    service; empty if unknown. emperor: PID of the emperor of this vassal. place: where it can be watched without stats;
    enabled_unit: its service, if systemd starts it at each boot, and says that this is its main process.
    """

    pid: int
    user: str
    role: Literal["master", "process", "emperor"] = "master"
    address: Address | None = None
    trouble: str = ""
    silent: bool = False
    what: str = ""
    configuration: str = ""
    directory: str = ""
    unit: str = ""
    emperor: int | None = None
    place: ProcessOfApp | SocketOfApp | None = None
    enabled_unit: str = ""


def sees_all_processes() -> bool:
    """Whether this user sees other users' processes, and not only its own (proc(5), `hidepid`)."""
    try:
        Path("/proc/1/stat").read_text()
    except OSError:
        return False
    return True


_IDENTIFIER = re.compile(r"\w[\w.-]*")
"""Names that `--stats NAME=ADDRESS` accepts, and that a directory can have: never `..`, which a local user could choose
for a file."""

_GENERAL = frozenset(
    ("app", "conf", "config", "run", "server", "sock", "socket", "stats", "tmp", "uwsgi", "vassal", "www")
)
"""Names of files and directories that do not identify an application."""


def list_names(master: FoundMaster) -> tuple[str, ...]:
    """Candidates for the name of a uWSGI, best first; empty texts for those that do not identify an application."""
    socket = beside = ""
    if master.address:
        socket = default_name(master.address)
    if isinstance(master.address, Unix) and socket in _GENERAL:
        beside = PurePath(master.address.path).parent.name
    file = PurePath(master.configuration)
    unit = master.unit.removesuffix(".service")
    names = (file.stem, socket, beside, file.parent.name, PurePath(master.directory).name, unit)
    return tuple(name * bool(_IDENTIFIER.fullmatch(name) and name.lower() not in _GENERAL) for name in names)


def find_emperors(masters: Iterable[FoundMaster]) -> set[int | None]:
    """The PIDs of those that only run vassals."""
    listed = list(masters)
    return {each.emperor for each in listed} | {each.pid for each in listed if each.role == "emperor"}


async def find_masters(read_seconds: float = _ALL_SECONDS) -> list[FoundMaster]:
    """Find every uWSGI master in this PID namespace, and read each stats server once, in some 7 s at most, beside the
    start of the reader process. read_seconds: for the stats of all; some are not read then if one does not answer."""
    start_reader()
    begin = time.monotonic()
    masters = list_masters(list_uwsgis())
    return await read_stats(masters, min(begin + _ALL_SECONDS, time.monotonic() + read_seconds))


async def read_stats(masters: Sequence[FoundMaster], end: float) -> list[FoundMaster]:
    """Read each stats server once. end: when the last reading begins (monotonic)."""
    turns = asyncio.Semaphore(_READ_AT_ONCE)
    own = [[entry for entry in masters if entry.pid == pid] for pid in dict.fromkeys(entry.pid for entry in masters)]
    read = await asyncio.gather(*(_read_in_turn(entries, turns, end) for entries in own))
    return [entry for entries in read for entry in entries]


def start_reader(of: aside.Aside = aside.SAMPLES) -> None:
    """Start the reader process, and wait until it can answer."""
    aside.ask(_load, seconds=EACH_SECONDS, of=of)


def _load() -> None:
    """A question whose answer says that the reader process has loaded this module: a slow machine needs seconds."""


def ask_in_time(end: float, question: Callable[..., T], *args: Any, of: aside.Aside = aside.SAMPLES) -> T:
    """Ask the reader process. Raises what the question raises, or TimeoutError with the reason if there is no answer
    within a second, or if it is later than `end`."""
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError(NO_TIME)
    try:
        return aside.ask(question, *args, seconds=min(EACH_SECONDS, left), of=of)
    except TimeoutError:
        raise TimeoutError(TOO_SLOW) from None


Uwsgis = Iterable[tuple[FoundMaster, int | None]]
"""What names and parents of processes say: masters, and uWSGIs without one, each with the PID of a parent that is a
uWSGI."""


def list_masters(uwsgis: Uwsgis, of: aside.Aside = aside.SAMPLES) -> list[FoundMaster]:
    """The facts of these, each once for each of its stats servers, which are not read, in 5 s at most."""
    begin = time.monotonic()
    looked_at: list[tuple[FoundMaster, frozenset[int]]] = []
    for master, parent in uwsgis:
        try:
            looked_at.append(ask_in_time(begin + _FACTS_SECONDS, _look_at, master, parent, of=of))
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        except Exception as error:  # noqa: BLE001 - the others are to be found
            looked_at.append((replace(master, trouble=explain(error)), frozenset()))
    inodes = frozenset().union(*(inodes for _, inodes in looked_at))
    listening, trouble = dict[int, str](), _CUT
    for _ in range(2):  # for the first one, the kernel loads a module
        with contextlib.suppress(OSError, TimeoutError):
            listening, trouble = aside.ask(_listening_addresses, inodes, seconds=EACH_SECONDS, of=of)
            if not trouble:
                break
    end = begin + _SOCKETS_SECONDS
    entries = [entry for master, own in looked_at for entry in _list_entries(master, own, listening, end, of)]
    return [each if each.address else replace(each, trouble=each.trouble or trouble) for each in entries]


def _list_entries(
    master: FoundMaster, inodes: frozenset[int], listening: Mapping[int, str], end: float, of: aside.Aside
) -> Sequence[FoundMaster]:
    if master.trouble or master.role == "process":
        return [master]
    try:
        here = {inode: listening[inode] for inode in inodes if inode in listening}
        return ask_in_time(end, _list_stats_servers, master, inodes, here, of=of)
    except Exception as error:  # noqa: BLE001 - as above
        return [replace(master, trouble=explain(error))]


def explain(error: Exception) -> str:
    """Why nothing is known of a master: the time was over, or what its user or a fault of `discover` caused."""
    return str(error) if isinstance(error, TimeoutError) else f"it could not be looked at ({error!r})"


def list_uwsgis() -> Iterator[tuple[FoundMaster, int | None]]:
    """List the uWSGIs of this PID namespace; users take turns. Reads nothing but files of a line: every process may
    have any size, and any of these names."""
    found: dict[int, tuple[int, str]] = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            if _NAME.fullmatch(procfs.read_name(pid := int(name))) and (user := find_user(pid)):
                found[pid] = int(procfs.read_stat_fields(f"/proc/{pid}/stat")[1]), user
        except (OSError, ValueError, IndexError):
            continue  # it has ended
    parents = {parent for parent, _ in found.values()}
    counts: Counter[str] = Counter()
    turns: list[tuple[int, int]] = []
    for pid, (parent, user) in sorted(found.items()):
        if pid in parents or parent not in found:  # else a worker, or a router, whose public port must not be read
            turns.append((counts[user], pid))
            counts[user] += 1
    for _, pid in sorted(turns):
        parent, user = found[pid]
        if pid in parents:
            yield FoundMaster(pid, user), parent if parent in found else None
        else:
            yield FoundMaster(pid, user, "process", trouble=_NO_MASTER), None


def find_user(pid: int) -> str | None:
    """The user who has started a process, also a set-user-ID program; None if it has ended, or is hidden. The name ends
    with `~` if its id is a subordinate one (subuid(5)): a user can have processes with 65,536 of these."""
    words = procfs.read_status("Uid", f"/proc/{pid}/status")
    if not words:
        return None
    with contextlib.suppress(OSError, ValueError):
        for line in _SUBORDINATE_IDS.read_text().splitlines():
            owner, first, number = line.split(":")
            if 0 <= int(words[0]) - int(first) < int(number):
                return f"{owner}~"
    return user_name(int(words[0]))


def user_name(uid: int) -> str:
    """The name of a user, or the number of one without a name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _look_at(master: FoundMaster, parent: int | None) -> tuple[FoundMaster, frozenset[int]]:
    """A master with its facts, and the inodes of the sockets that it waits on. Raises OSError if it has ended."""
    pid = master.pid
    # A vassal has a command line of its own; a process that uWSGI forks keeps its parent's.
    is_vassal = parent is not None and _read_words(parent) != _read_words(pid)
    options = read_options(pid)
    if options.emperor and not options.names_application:  # also one without a child, as its vassals rest
        master = replace(master, role="emperor", trouble="")
    master = replace(
        master,
        configuration=options.configuration_file,
        directory=read_working_directory(pid) or "",
        unit=find_systemd_unit(pid) or "",
        emperor=parent if is_vassal else None,
    )
    try:
        return master, epoll_sockets(Path(f"/proc/{pid}"))
    except PermissionError:
        return replace(master, trouble=master.trouble or NOT_ALLOWED), frozenset()


def _read_words(pid: int) -> bytes:
    try:
        return procfs.read_begin(_MOST_WORDS, f"/proc/{pid}/cmdline")
    except OSError:
        return b""


def epoll_sockets(process: Path) -> frozenset[int]:
    """The inodes of the sockets in a process's epolls, of the first ones of a process with many. Raises OSError if the
    process is gone or access denied."""
    inodes: set[int] = set()
    epolls, most = 0, _MOST_EPOLL_BYTES
    for descriptor in sorted(map(int, os.listdir(process / "fd")))[:_MOST_DESCRIPTORS]:
        try:
            if os.readlink(process / "fd" / str(descriptor)) != "anon_inode:[eventpoll]":
                continue
            text = procfs.read_begin(most, process / "fdinfo" / str(descriptor))
        except FileNotFoundError:  # it was closed meanwhile
            continue
        inodes.update(int(inode, 16) for inode in _EPOLL_SOCKET.findall(text))
        epolls, most = epolls + 1, most - len(text)
        if epolls == _MOST_EPOLLS or most <= 0:
            break
    return frozenset(inodes)


def _list_stats_servers(
    master: FoundMaster, inodes: frozenset[int], listening: Mapping[int, str]
) -> Sequence[FoundMaster]:
    """The master once for each of its stats servers, or with the reason why they are not visible. listening: addresses
    in this network namespace by inode. An Emperor also listens for vassals: to connect starts one."""
    is_here = shares_network_namespace(master.pid)
    if not is_here:
        try:
            listening, _ = ask_in_network_of(master.pid, partial(_listening_addresses, inodes))
        except OSError:
            return [replace(master, trouble=_OTHER_NETWORK)]
    addresses = [listening[inode] for inode in sorted(inodes) if inode in listening]
    options = read_options(master.pid)
    if options.emperor:
        own = tuple(filter(None, (options.stats, options.emperor_stats)))
        addresses = [address for address in addresses if address.endswith(own)]
    return [_judge_address(master, address, is_here) for address in addresses[:_MOST_SOCKETS]] or [master]


def _judge_address(master: FoundMaster, address: str, is_here: bool | None) -> FoundMaster:
    leads_here = is_here
    if address.startswith(_UNIX):
        path = os.path.join(master.directory, address.removeprefix(_UNIX))
        if not os.path.isabs(path):
            return replace(master, trouble=NOT_ALLOWED)
        address, leads_here = f"{_UNIX}{path}", _leads_to_the_same_file(master.pid, path)
    if leads_here is False or (leads_here is None and not is_here):
        return replace(master, trouble=_NOT_HERE)
    try:
        return replace(master, address=source.parse_address(address))
    except AddressError as error:
        return replace(master, trouble=str(error))


def _leads_to_the_same_file(pid: int, path: str) -> bool | None:
    """Whether a path leads this process to the same file as another process; None if this user may not see it, or if it
    leads neither to a file."""
    found = list[tuple[int, int] | None]()
    for process in (os.getpid(), pid):
        try:
            found.append(MasterFiles(process).identify(path))
        except FileNotFoundError:
            found.append(None)
        except (OSError, ValueError):
            return None
    here, there = found
    return here == there if here or there else None


def _listening_addresses(inodes: Collection[int]) -> tuple[dict[int, str], str]:
    """The addresses, for `parse_address`, of those of these sockets that listen in this network namespace, by inode;
    and why there may be more."""
    addresses: dict[int, str] = {}
    trouble, end = "", time.monotonic() + 0.75 * EACH_SECONDS
    for family in ("unix", "inet", "inet6"):
        try:
            listeners = sock_diag.list_listeners(family, inodes, seconds=max(0.0, end - time.monotonic()))
        except OSError:
            continue
        if time.monotonic() >= end:
            trouble = _CUT
        for listener in listeners:
            prefix = _UNIX * (family == "unix" and not listener.name.startswith("@"))
            name = listener.name.replace("0.0.0.0:", "127.0.0.1:").replace("[::]:", "[::1]:")
            addresses[listener.inode] = f"{prefix}{name}"
    return addresses, trouble


async def _read_in_turn(entries: Sequence[FoundMaster], turns: asyncio.Semaphore, end: float) -> list[FoundMaster]:
    """Read the stats servers of one master, one after another: a document may have 6 MB."""
    read = []
    for master in entries:
        async with turns:
            read.append(await _read_once(master, end))
    return read


async def _read_once(master: FoundMaster, end: float) -> FoundMaster:
    """Read a stats server once; over TCP, first as HTTP. A raw stats server answers an HTTP request without delay, but
    a stats-http server that receives no request blocks its master."""
    address = master.address
    if address is None or master.trouble:
        return master
    if time.monotonic() >= end:
        return replace(master, trouble=NO_TIME)
    try:
        if isinstance(address, Tcp):
            web = Http(address.host, address.port)
            try:
                found = await _summarize_answer(master, web, end)
                return found if found.trouble else replace(found, address=web)
            except ReadError:
                pass
        return await _summarize_answer(master, address, end)
    except ReadError as error:
        return replace(master, trouble=str(error), silent=error.reason == "timeout")
    except Exception as error:  # noqa: BLE001 - the others are to be found
        return replace(master, address=None, trouble=explain(error))


async def _summarize_answer(master: FoundMaster, address: Address, end: float) -> FoundMaster:
    """The master with a summary of the stats at an address, or with the reason why they are not its own: another uWSGI
    has bound its socket to the same path later. Raises ReadError."""
    seconds = min(_READ_SECONDS, max(0.1, end - time.monotonic()))
    answer = await source.read_document(address, timeout=seconds, size_cap=SIZE_CAP, find_master=lambda: master.pid)
    snapshot = stats.decode(answer.body)
    pids = read_pid_numbers(master.pid)
    if pids and snapshot.pid not in (None, *pids):
        return replace(master, address=None, trouble=_REPLACED.format(snapshot.pid, address))
    return replace(master, what=_summarize(snapshot))


def common_threads(snapshot: stats.Snapshot) -> int | None:
    """The number of threads of every worker; None if they differ, or if it is not known."""
    first, *others = {worker.threads for worker in snapshot.workers} or {None}
    return None if others else first


def _summarize(snapshot: stats.AnySnapshot) -> str:
    if isinstance(snapshot, stats.Snapshot):
        each = fill("[threads?  of {threads:thread}]", {"threads": common_threads(snapshot)})
        return f"uWSGI {snapshot.version}, {counted(len(snapshot.workers), 'worker')}{each}"
    return f"uWSGI {snapshot.version}, {snapshot.kind}"
