"""Whether a pid in a stats document is that process on this machine, as this process counts pids.

A pid means something only within one PID namespace. Without proof every host fact about it would be a fact
about somebody else's process, so there are none; the reason says why and what to do. It is for the
operator: it stands on the page and in the log.

Two proofs exist. The peer of a UNIX socket is named by the kernel itself (SO_PEERCRED, in the reader's own
namespace). Behind TCP on an address of this machine stands the process that holds the listening socket.
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
    """The master's pid as this process may use it; or None, and `reason`: why it may not, and what to do."""

    pid: int | None
    reason: str | None


def prove_master_pid(document_pid: int, *, peer_pid: int | None, listener: tuple[str, int] | None) -> Proof:
    """Try to prove that `document_pid`, the pid uWSGI gives itself, is that process here.

    `peer_pid` is the pid of SO_PEERCRED if the stats were read from a UNIX socket; `listener` is the remote
    end of the connection, as getpeername(2) gives it, if they were read over TCP.
    """
    if listener is not None:
        reason = _doubt_listener(document_pid, *listener)
    elif peer_pid is not None:
        reason = _doubt_peer(document_pid, peer_pid)
    else:
        reason = "the stats were not read from a socket of uWSGI's: read them from its own stats server"
    reason = reason or _doubt_numbering(document_pid)
    return Proof(None, reason) if reason else Proof(document_pid, None)


def _doubt_peer(document_pid: int, peer_pid: int) -> str | None:
    if peer_pid == 0:
        return (
            "uWSGI runs in a PID namespace that the exporter cannot see into: share it (Docker --pid, "
            "Kubernetes shareProcessNamespace), or run the exporter where uWSGI runs"
        )
    if peer_pid == document_pid:
        return None
    numbers = read_pid_numbers(peer_pid)
    if len(numbers) > 1 and numbers[-1] == document_pid:
        return (
            f"uWSGI runs in another PID namespace (its master calls itself {document_pid}, here it is "
            f"{peer_pid}): share the PID namespace or run the exporter in it"
        )
    return (
        f"the stats are of a process {document_pid}, but on their socket listens process {peer_pid}: read "
        "uWSGI's own stats socket, not one that passes its stats on"
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
            "run the exporter in it, or read the stats from a UNIX socket"
        )
    held = read_socket_inodes(document_pid)
    if held is None and os.path.exists(f"/proc/{document_pid}"):
        return (
            f"whether process {document_pid} is the stats server is hidden from this user: let uWSGI serve "
            f"its stats on a UNIX socket, which needs no privilege, or {WHO_MAY_KNOW}"
        )
    if held is None or inodes.isdisjoint(held):
        return (
            f"the stats are of a process {document_pid}, and here that is not who listens on port {port}: "
            "uWSGI is behind a proxy, or in another PID namespace (share it, or run the exporter in it)"
        )
    return None


def _is_here(host: str) -> bool:
    """Whether a numeric address is one of this machine's: connecting to one's own address, one comes from it.

    Nothing is sent. Binding to it would prove nothing: net.ipv4.ip_nonlocal_bind lets one bind to any
    address.
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
    """Equal numbers may be chance: the process must count as we do, and so must `/proc`."""
    if read_pid_numbers("self") != (os.getpid(),):
        return "/proc here belongs to another PID namespace than the exporter: mount its own procfs on /proc"
    numbers = read_pid_numbers(pid)
    if not numbers:
        return f"/proc hides process {pid} from this user: give the exporter the group of its mount option gid="
    if numbers != (pid,):
        return (
            f"process {pid} runs in another PID namespace, where it is {numbers[-1]}, so it is not the uWSGI "
            f"that calls itself {pid}: share the PID namespace or run the exporter in it"
        )
    return None
