"""Finds the uWSGI masters on this machine and their stats servers, without connecting to any other listener.

A trial connection to an application socket would occupy one of its threads. So discovery uses the kernel instead:
uWSGI's master waits on its stats socket in its own epoll, while its workers wait on application sockets, and
`/proc/<pid>/fdinfo` (proc(5)) lists the members of an epoll. Discovery reads only sockets that the master itself waits
on, and each of them once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import psutil

from uwsgi_headroom import source, stats
from uwsgi_headroom.config.defaults import SIZE_CAP
from uwsgi_headroom.errors import AddressError, ReadError
from uwsgi_headroom.kernel import sock_diag
from uwsgi_headroom.kernel.namespaces import ask_in_network_of, read_pid_numbers, shares_network_namespace
from uwsgi_headroom.kernel.options import MasterFiles, read_options
from uwsgi_headroom.kernel.setup import find_systemd_unit, read_working_directory
from uwsgi_headroom.source import Address, Http, Tcp
from uwsgi_headroom.words.formats import counted

_READ_SECONDS = 3.0
_NO_MASTER = (
    "it runs without a master, or has no workers, and only a master has stats: set `master = true`, restart it when "
    "that suits you, and run `discover` again"
)
_NOT_ALLOWED = (
    "this user may not inspect its sockets: run `sudo $(command -v uwsgi-headroom) discover`, or run it as uWSGI's "
    "user, or give --stats"
)
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
_UNIX = "unix://"
_NAME = re.compile(r"uwsgi(-core|_(?!exporter)\w+)?|uWSGIWorker\d+\w*")
"""Names of uWSGI's program from pip and Debian (`uwsgi_python3`), but not of exporters such as `uwsgi-headroom`. Since
Python 3.14, a worker's first thread, and so its process, has the name that uWSGI gives to the thread in Python:
`uWSGIWorker1Core0`, of which the kernel keeps 15 bytes."""

_EPOLL_SOCKET = re.compile(r"^tfd:.*\bino:([0-9a-f]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FoundMaster:
    """A uWSGI master or emperor; role is "process" for a uWSGI that runs without a master.

    address: of its stats server, None if none is visible; what: a summary of the stats. trouble: why the stats cannot
    be read, and what to do; silent: the stats server does not answer in time, so uWSGI may hang. configuration and
    directory: its own configuration file, as its command line has it, and its working directory; unit: its systemd
    service; empty if unknown. emperor: PID of the emperor of this vassal.
    """

    pid: int
    user: str
    role: Literal["master", "process"] = "master"
    address: Address | None = None
    trouble: str = ""
    silent: bool = False
    what: str = ""
    configuration: str = ""
    directory: str = ""
    unit: str = ""
    emperor: int | None = None


def sees_all_processes() -> bool:
    """Whether this user sees other users' processes, and not only its own (proc(5), `hidepid`)."""
    try:
        Path("/proc/1/stat").read_text()
    except OSError:
        return False
    return True


async def find_masters() -> list[FoundMaster]:
    """Find every uWSGI master in this PID namespace, and read each stats server once."""
    return list(await asyncio.gather(*map(_read_once, list(_list_masters()))))


def _list_masters() -> Iterator[FoundMaster]:
    processes = {
        process.pid: process
        for process in psutil.process_iter(["name", "ppid", "username"])
        if _NAME.fullmatch(process.info["name"] or "")
    }
    parents = {process.info["ppid"] for process in processes.values()}
    listening = _listening_addresses()
    for pid, process in sorted(processes.items()):
        parent = process.info["ppid"]
        if pid not in parents:
            if parent not in processes:
                yield FoundMaster(pid, process.info["username"], "process", trouble=_NO_MASTER)
            continue  # a worker, or a router, whose public port must not be read
        words = read_command_line(pid)
        master = FoundMaster(
            pid,
            process.info["username"],
            configuration=read_options(pid).configuration_file,
            directory=read_working_directory(pid) or "",
            unit=find_systemd_unit(pid) or "",
            # A vassal has a command line of its own; a process that uWSGI forks keeps its parent's.
            emperor=parent if parent in processes and read_command_line(parent) != words else None,
        )
        yield from _list_stats_servers(master, listening)


def read_command_line(pid: int) -> list[str]:
    """Read the words of a process's command line; empty if the process has ended or has overwritten it (`procname`)."""
    try:
        return MasterFiles(pid).read_command_line()
    except OSError:
        return []


def _list_stats_servers(master: FoundMaster, listening: Mapping[int, str]) -> Iterator[FoundMaster]:
    """Return the master once for each of its stats servers, or with the reason why they are not visible; nothing if the
    master has ended. listening: addresses by inode."""
    try:
        inodes = _epoll_inodes(Path(f"/proc/{master.pid}/fdinfo"))
    except PermissionError:
        yield replace(master, trouble=_NOT_ALLOWED)
        return
    except OSError:
        return
    is_here = shares_network_namespace(master.pid)
    if not is_here:
        try:
            listening = ask_in_network_of(master.pid, _listening_addresses)
        except OSError:
            yield replace(master, trouble=_OTHER_NETWORK)
            return
    addresses = [listening[inode] for inode in sorted(inodes) if inode in listening]
    if not addresses:
        yield master
    for address in addresses:
        path = os.path.join(master.directory, address.removeprefix(_UNIX)) if address.startswith(_UNIX) else ""
        leads_here = _leads_to_the_same_file(master.pid, path) if path else is_here
        if path and not os.path.isabs(path):
            yield replace(master, trouble=_NOT_ALLOWED)
        elif leads_here is False or (leads_here is None and not is_here):
            yield replace(master, trouble=_NOT_HERE)
        else:
            try:
                yield replace(master, address=source.parse_address(f"{_UNIX}{path}" if path else address))
            except AddressError as error:
                yield replace(master, trouble=str(error))


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
    return None if here is there is None else here == there


def _epoll_inodes(fdinfo: Path) -> set[int]:
    """Read the inodes of the sockets in a process's epolls. Raises OSError if the process is gone or access denied."""
    inodes: set[int] = set()
    for entry in fdinfo.iterdir():
        with contextlib.suppress(FileNotFoundError):  # the descriptor was closed meanwhile
            inodes.update(int(inode, 16) for inode in _EPOLL_SOCKET.findall(entry.read_text()))
    return inodes


def _listening_addresses() -> dict[int, str]:
    """List the addresses of all listening sockets in this network namespace, by inode, for `parse_address`."""
    addresses: dict[int, str] = {}
    for family in ("unix", "inet", "inet6"):
        try:
            listeners = sock_diag.list_listeners(family)
        except OSError:
            continue
        for listener in listeners:
            name = listener.name if family != "unix" or listener.name.startswith("@") else f"{_UNIX}{listener.name}"
            addresses[listener.inode] = name.replace("0.0.0.0:", "127.0.0.1:").replace("[::]:", "[::1]:")
    return addresses


async def _read_once(master: FoundMaster) -> FoundMaster:
    """Read a stats server once; over TCP, first as HTTP. A raw stats server answers an HTTP request without delay, but
    a stats-http server that receives no request blocks its master."""
    if master.address is None or master.trouble:
        return master
    address = master.address
    try:
        if isinstance(address, Tcp):
            web = Http(address.host, address.port)
            try:
                found = await _summarize_answer(master, web)
                return found if found.trouble else replace(found, address=web)
            except ReadError:
                pass
        return await _summarize_answer(master, address)
    except ReadError as error:
        return replace(master, trouble=str(error), silent=error.reason == "timeout")


async def _summarize_answer(master: FoundMaster, address: Address) -> FoundMaster:
    """The master with a summary of the stats at an address, or with the reason why they are not its own: another uWSGI
    has bound its socket to the same path later. Raises ReadError."""
    answer = await source.read_document(
        address, timeout=_READ_SECONDS, size_cap=SIZE_CAP, find_master=lambda: master.pid
    )
    snapshot = stats.decode(answer.body)
    pids = read_pid_numbers(master.pid)
    if pids and snapshot.pid not in (None, *pids):
        return replace(master, address=None, trouble=_REPLACED.format(snapshot.pid, address))
    return replace(master, what=_summarize(snapshot))


def _summarize(snapshot: stats.AnySnapshot) -> str:
    if isinstance(snapshot, stats.Snapshot):
        threads = {worker.threads for worker in snapshot.workers}
        alike = threads.pop() if len(threads) == 1 else None
        each = "" if alike is None else f" of {counted(alike, 'thread')}"
        return f"uWSGI {snapshot.version}, {counted(len(snapshot.workers), 'worker')}{each}"
    return f"uWSGI {snapshot.version}, {snapshot.kind}"
