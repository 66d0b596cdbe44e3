"""Proves which process here is the master whose pid is in a stats document.

A pid has a meaning only within one PID namespace, and the document has those of uWSGI's own. Without a proof, a host
fact might be about another process, so there are no host facts; the reason says why and what to do. The page and the
log show the reason to the operator.

There are two proofs. For a UNIX socket, the kernel gives the pid of the peer (SO_PEERCRED, in the reader's own
namespace), and `NSpid` its pid in its own namespace. For TCP on an address of this machine, the process must hold the
listening socket. Either way, a uWSGI in a PID namespace below ours has another pid here than in its document.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Callable, Collection
from dataclasses import dataclass

from uwsgi_headroom.kernel import sock_diag
from uwsgi_headroom.kernel.descriptors import WHO_MAY_KNOW, read_socket_inodes
from uwsgi_headroom.kernel.namespaces import read_pid_numbers

Search = Callable[[int, Collection[int]], "int | None"]
"""Finds the process that holds one of these socket inodes and has this pid in its own PID namespace."""


@dataclass(frozen=True, slots=True)
class Proof:
    """The proven pid of the master here; or None, with the `reason` and what to do about it. depth: how many PID
    namespaces the master is in, as seen from here; 1 if its pids are ours."""

    pid: int | None
    reason: str | None
    depth: int = 1


def prove_master_pid(
    document_pid: int,
    *,
    peer_pid: int | None,
    listener: tuple[str, int] | None,
    search: Search = lambda _pid, _inodes: None,
) -> Proof:
    """Try to prove which process here has `document_pid`, the pid in uWSGI's stats, in its own PID namespace.

    `peer_pid` is the pid of SO_PEERCRED if the stats came from a UNIX socket; `listener` is the remote address of the
    connection (getpeername(2)) if they came over TCP. `search` looks for a master in another PID namespace, which
    takes long; only for TCP.
    """
    pid: int | None = document_pid
    if read_pid_numbers("self") != (os.getpid(),):
        return Proof(None, _OTHER_PROC)
    if listener is not None:
        pid, reason = _find_listener(document_pid, *listener, search)
    elif peer_pid is not None:
        pid, reason = peer_pid, _doubt_peer(document_pid, peer_pid)
    else:
        reason = "the stats did not come from a socket: read them from uWSGI's own stats server"
    if reason or pid is None:
        return Proof(None, reason)
    numbers = read_pid_numbers(pid)
    reason = _doubt_numbers(document_pid, pid, numbers)
    return Proof(None, reason) if reason else Proof(pid, None, len(numbers))


_OTHER_PROC = "/proc belongs to another PID namespace than the exporter: mount the exporter's own procfs on /proc"


def _doubt_peer(document_pid: int, peer_pid: int) -> str | None:
    if peer_pid == 0:
        return (
            "uWSGI runs in a PID namespace that the exporter cannot see: share the namespace (Docker --pid, "
            "Kubernetes shareProcessNamespace), or run the exporter where uWSGI runs"
        )
    numbers = read_pid_numbers(peer_pid)
    if peer_pid == document_pid or not numbers or numbers[-1] == document_pid:
        return None
    return (
        f"the stats are those of process {document_pid}, but process {peer_pid} listens on their socket: read "
        "uWSGI's own stats socket, not a proxy's"
    )


def _find_listener(document_pid: int, host: str, port: int, search: Search) -> tuple[int | None, str | None]:
    """The process that listens on this address of this machine; or None and the reason."""
    try:
        inodes = _find_inodes(host.partition("%")[0], port)  # without an IPv6 scope
    except OSError as error:
        return None, str(error)
    held = read_socket_inodes(document_pid)
    if held is not None and not inodes.isdisjoint(held) and len(read_pid_numbers(document_pid)) == 1:
        return document_pid, None
    if found := search(document_pid, inodes):
        return found, None
    if held is None and os.path.exists(f"/proc/{document_pid}"):
        return None, (
            f"this user may not see whether process {document_pid} is the stats server: let uWSGI serve "
            f"its stats on a UNIX socket, which needs no privilege, or {WHO_MAY_KNOW}"
        )
    return None, (
        f"the stats are those of process {document_pid}, but here that process does not listen on port {port}: "
        "uWSGI is behind a proxy, or in another PID namespace (read its stats from a UNIX socket)"
    )


def _find_inodes(host: str, port: int) -> set[int]:
    """The listening sockets of an address of this machine. Raises OSError with the reason if there is none here."""
    if not _is_here(host):
        raise OSError(
            f"the stats server is on another host ({host}): run an exporter there, beside uWSGI; if it is a container "
            "of this host, read its stats from a UNIX socket on a shared volume"
        )
    names = {sock_diag.inet_name(host, port), f"0.0.0.0:{port}", f"[::]:{port}"}
    listening = sock_diag.list_listeners("inet") + sock_diag.list_listeners("inet6")
    inodes = {listener.inode for listener in listening if listener.name in names}
    if not inodes:
        raise OSError(
            f"nothing listens on {host} port {port} in this network namespace, so uWSGI runs in another one: "
            "run the exporter there, or read the stats from a UNIX socket"
        )
    return inodes


def _is_here(host: str) -> bool:
    """Whether a numeric address belongs to this machine: only then is it also the source address of a connection to it.

    Sends nothing. Binding to the address would prove nothing: net.ipv4.ip_nonlocal_bind allows any address.
    """
    try:
        address = ipaddress.ip_address(host)
        if address.is_loopback:
            return True
        family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((host, 9))
            return ipaddress.ip_address(probe.getsockname()[0].partition("%")[0]) == address
    except (OSError, ValueError):
        return False


def _doubt_numbers(document_pid: int, pid: int, numbers: tuple[int, ...]) -> str | None:
    """Why `pid` here may be another process than the one in the document; `numbers` are its pids (NSpid)."""
    if not numbers:
        return f"/proc hides process {pid} from this user: add the exporter to the group of the mount option gid="
    if numbers[-1] != document_pid:
        return (
            f"process {pid} runs in another PID namespace, where its pid is {numbers[-1]}, so it is not the uWSGI "
            f"whose stats say {document_pid}: read uWSGI's own stats socket, not a proxy's"
        )
    return None
