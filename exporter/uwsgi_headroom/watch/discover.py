"""Finding the stats servers of this machine without touching anything else that listens.

A connection to a socket that is no stats server would hold one of its threads, so nothing is tried out. uWSGI's
master waits on its stats socket in its own epoll, while application sockets are waited on by its workers; the kernel
tells what an epoll holds (`/proc/<pid>/fdinfo`, proc(5)). Only what the master itself waits on is then read, once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import psutil

from uwsgi_headroom import source, stats
from uwsgi_headroom.config.model import ServerConfig
from uwsgi_headroom.config.names import address_name
from uwsgi_headroom.errors import AddressError, HeadroomError, ReadError
from uwsgi_headroom.kernel import sock_diag
from uwsgi_headroom.source import Address, Http, Tcp
from uwsgi_headroom.terminal_text import print_lines

_READ_SECONDS = 3.0
_NO_MASTER = "it runs without a master, or has no worker now; only a master has stats: set `master = true` and `stats`"
_NAME = re.compile(r"uwsgi(-core|_(?!exporter)\w+)?")
"""As pip and Debian install it (`uwsgi_python3`); not its exporters, this one (`uwsgi-headroom`) among them."""

_EPOLL_SOCKET = re.compile(r"^tfd:.*\bino:([0-9a-f]+)", re.MULTILINE)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FoundMaster:
    """A uWSGI master, or an emperor; role is "process" for a uWSGI that runs without one.
    `address` is its stats server's, None if it has none that can be seen;
    `trouble` says why it cannot be read, and what to do; `what` is what was read there."""

    pid: int
    user: str
    role: Literal["master", "process"] = "master"
    address: Address | None = None
    trouble: str = ""
    what: str = ""


def discover_servers() -> tuple[ServerConfig, ...]:
    """The servers of this machine that can be read. Raises HeadroomError with advice where there is none."""
    masters = asyncio.run(find_masters())
    pids = {master.address: master.pid for master in masters if master.address and not master.trouble}
    if not pids:
        raise HeadroomError("no --stats given, and none found.", render_report(masters))
    names = {address: address_name(address) for address in pids}
    for address, name in names.items():
        _log.info("found", extra={"fields": {"server": name, "address": str(address)}})
    return tuple(ServerConfig(name, address, where=f"uWSGI master {pids[address]}") for address, name in names.items())


def run() -> int:
    """Print what runs here, and return the exit status: 1 where there is no stats server."""
    masters = asyncio.run(find_masters())
    print_lines(render_report(masters))
    return 0 if any(master.address for master in masters) else 1


async def find_masters() -> list[FoundMaster]:
    """Every uWSGI master of this PID namespace, each stats server read once."""
    return [await _read_once(master) for master in _masters()]


def render_report(masters: list[FoundMaster]) -> list[str]:
    """What was found, as lines for a person, with what to do where something is missing."""
    if not masters:
        return [
            "No uWSGI master runs here (in this PID namespace). Where it runs elsewhere, give its stats server's "
            "address: uwsgi-headroom --stats tcp://HOST:PORT"
        ]
    lines = []
    for master in masters:
        what = f": {master.what}" if master.what else ""
        lines.append(f"uWSGI {master.role} {master.pid} of user {master.user}{what}")
        if master.address and not master.trouble:
            lines.append(f"  uwsgi-headroom --stats {master.address}")
        elif master.trouble:
            lines.append(f"  {master.address or 'stats server'}: {master.trouble}")
        else:
            lines.append("  It has no stats server. Turn it on in its configuration, and reload it:")
            lines.append("      stats = /run/uwsgi/NAME.stats")
    return lines


def _masters() -> Iterator[FoundMaster]:
    processes = {
        process.pid: process
        for process in psutil.process_iter(["name", "ppid", "username"])
        if _NAME.fullmatch(process.info["name"] or "")
    }
    parents = {process.info["ppid"] for process in processes.values()}
    listening = _listening_addresses()
    for pid, process in sorted(processes.items()):
        if pid not in parents:
            if process.info["ppid"] not in processes:
                yield FoundMaster(pid, process.info["username"], "process", trouble=_NO_MASTER)
            continue  # else a worker, or a router, whose public port is none of our business
        master = FoundMaster(pid, process.info["username"])
        try:
            inodes = _epoll_inodes(Path(f"/proc/{pid}/fdinfo"))
        except PermissionError:
            yield replace(
                master,
                trouble="this user may not look at its sockets: run as that user or as root, or give --stats",
            )
            continue
        except OSError:
            continue  # the process has ended meanwhile
        addresses = [listening[inode] for inode in sorted(inodes) if inode in listening]
        if not addresses:
            yield master
        for address in addresses:
            try:
                yield replace(master, address=source.parse_address(address))
            except AddressError as error:
                yield replace(master, trouble=str(error))


def _epoll_inodes(fdinfo: Path) -> set[int]:
    """Inodes of what a process waits on in its epolls. Raises OSError if it has ended or this user may not know."""
    inodes: set[int] = set()
    for entry in fdinfo.iterdir():
        with contextlib.suppress(FileNotFoundError):  # the descriptor was closed meanwhile
            inodes.update(int(inode, 16) for inode in _EPOLL_SOCKET.findall(entry.read_text()))
    return inodes


def _listening_addresses() -> dict[int, str]:
    """Addresses, as `source.parse` takes them, of every listening socket of this network namespace, by inode."""
    addresses: dict[int, str] = {}
    for family in ("unix", "inet", "inet6"):
        try:
            listeners = sock_diag.list_listeners(family)
        except OSError:
            continue
        for listener in listeners:
            name = listener.name if family != "unix" or listener.name.startswith("@") else f"unix://{listener.name}"
            addresses[listener.inode] = name.replace("0.0.0.0:", "127.0.0.1:").replace("[::]:", "[::1]:")
    return addresses


async def _read_once(master: FoundMaster) -> FoundMaster:
    """Read it once. Over TCP as HTTP first: a raw server answers that as well, and is not held up by it, while a
    stats-http server that is sent nothing holds up its master."""
    if master.address is None or master.trouble:
        return master
    address = master.address
    try:
        if isinstance(address, Tcp):
            web = Http(address.host, address.port)
            try:
                return replace(master, address=web, what=await _summarize_answer(web))
            except ReadError:
                pass
        return replace(master, what=await _summarize_answer(address))
    except ReadError as error:
        return replace(master, trouble=str(error))


async def _summarize_answer(address: Address) -> str:
    answer = await source.read_document(address, timeout=_READ_SECONDS)
    snapshot = stats.decode(answer.body)
    if isinstance(snapshot, stats.Snapshot):
        threads = {worker.threads for worker in snapshot.workers}
        each = f" of {threads.pop()} threads" if len(threads) == 1 and None not in threads else ""
        return f"uWSGI {snapshot.version}, {len(snapshot.workers)} workers{each}"
    return f"uWSGI {snapshot.version}, {snapshot.kind}"
