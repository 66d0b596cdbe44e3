"""Proves that a pid in a stats document is the pid of that process on this machine, in our own PID namespace.

A pid has a meaning only within one PID namespace. Without a proof, a host fact might be about another process, so
there are no host facts; the reason says why and what to do. The page and the log show the reason to the operator.

There are two proofs. For a UNIX socket, the kernel gives the pid of the peer (SO_PEERCRED, in the reader's own
namespace). For TCP on an address of this machine, the master must hold the listening socket.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from dataclasses import dataclass

from uwsgi_headroom.kernel import sock_diag
from uwsgi_headroom.kernel.descriptors import WHO_MAY_KNOW, read_socket_inodes
from uwsgi_headroom.kernel.namespaces import read_pid_numbers


@dataclass(frozen=True, slots=True)
class Proof:
    """The proven pid of the master; or None, with the `reason` and what to do about it."""

    pid: int | None
    reason: str | None


def prove_master_pid(document_pid: int, *, peer_pid: int | None, listener: tuple[str, int] | None) -> Proof:
    """Try to prove that `document_pid`, the pid in uWSGI's stats, is the same process here.

    `peer_pid` is the pid of SO_PEERCRED if the stats came from a UNIX socket; `listener` is the remote address of the
    connection (getpeername(2)) if they came over TCP.
    """
    if listener is not None:
        reason = _doubt_listener(document_pid, *listener)
    elif peer_pid is not None:
        reason = _doubt_peer(document_pid, peer_pid)
    else:
        reason = "the stats did not come from a socket: read them from uWSGI's own stats server"
    reason = reason or _doubt_numbering(document_pid)
    return Proof(None, reason) if reason else Proof(document_pid, None)


def _doubt_peer(document_pid: int, peer_pid: int) -> str | None:
    if peer_pid == 0:
        return (
            "uWSGI runs in a PID namespace that the exporter cannot see: share the namespace (Docker --pid, "
            "Kubernetes shareProcessNamespace), or run the exporter where uWSGI runs"
        )
    if peer_pid == document_pid:
        return None
    numbers = read_pid_numbers(peer_pid)
    if len(numbers) > 1 and numbers[-1] == document_pid:
        return (
            f"uWSGI runs in another PID namespace (its master is process {document_pid} there and "
            f"{peer_pid} here): share the PID namespace or run the exporter in it"
        )
    return (
        f"the stats are those of process {document_pid}, but process {peer_pid} listens on their socket: read "
        "uWSGI's own stats socket, not a proxy's"
    )


def _doubt_listener(document_pid: int, host: str, port: int) -> str | None:
    host = host.partition("%")[0]  # an IPv6 scope
    if not _is_here(host):
        return f"the stats server is on another host ({host}): run an exporter there, beside uWSGI"
    names = {sock_diag.inet_name(host, port), f"0.0.0.0:{port}", f"[::]:{port}"}
    try:
        listening = sock_diag.list_listeners("inet") + sock_diag.list_listeners("inet6")
    except OSError as error:
        return str(error)
    inodes = {listener.inode for listener in listening if listener.name in names}
    if not inodes:
        return (
            f"nothing listens on {host} port {port} in this network namespace, so uWSGI runs in another one: "
            "run the exporter there, or read the stats from a UNIX socket"
        )
    held = read_socket_inodes(document_pid)
    if held is None and os.path.exists(f"/proc/{document_pid}"):
        return (
            f"this user may not see whether process {document_pid} is the stats server: let uWSGI serve "
            f"its stats on a UNIX socket, which needs no privilege, or {WHO_MAY_KNOW}"
        )
    if held is None or inodes.isdisjoint(held):
        return (
            f"the stats are those of process {document_pid}, but here that process does not listen on port {port}: "
            "uWSGI is behind a proxy, or in another PID namespace (share it, or run the exporter in it)"
        )
    return None


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


def _doubt_numbering(pid: int) -> str | None:
    """Why equal pids may be a coincidence: the process or `/proc` belongs to another PID namespace. None if neither
    does."""
    if read_pid_numbers("self") != (os.getpid(),):
        return "/proc belongs to another PID namespace than the exporter: mount the exporter's own procfs on /proc"
    numbers = read_pid_numbers(pid)
    if not numbers:
        return f"/proc hides process {pid} from this user: add the exporter to the group of the mount option gid="
    if numbers != (pid,):
        return (
            f"process {pid} runs in another PID namespace, where its pid is {numbers[-1]}, so it is not the uWSGI "
            f"whose stats say {pid}: share the PID namespace or run the exporter in it"
        )
    return None
