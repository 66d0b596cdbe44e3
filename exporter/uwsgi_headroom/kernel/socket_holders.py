"""Determines which workers take requests from which sockets. With `map-socket`, uWSGI replaces a worker's other sockets
by /dev/null; without it, every worker has all sockets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from uwsgi_headroom.kernel.backlogs import find_inodes
from uwsgi_headroom.kernel.descriptors import read_socket_inodes
from uwsgi_headroom.record.options import Options
from uwsgi_headroom.record.setup import SocketHolders


def find_socket_holders(master_pid: int, names: Sequence[str], workers: Mapping[int, int]) -> SocketHolders | None:
    """The ids of the workers that hold each socket, ascending, by socket name. workers: worker ids by pid. None if the
    descriptors of a worker are hidden or the worker has just ended; a socket that is not found is left out."""
    held: dict[int, frozenset[int]] = {}
    for pid, worker_id in workers.items():
        inodes = read_socket_inodes(pid)
        if inodes is None:
            return None
        held[worker_id] = inodes
    if not held:
        return None
    return {
        name: tuple(sorted(worker_id for worker_id, inodes in held.items() if inodes & listening))
        for name, listening in find_inodes(master_pid, names).items()
    }


def are_mapped(options: Options, holders: SocketHolders | None, workers: int) -> bool | None:
    """Whether some worker lacks a socket: from the descriptors, or from the options if the descriptors are unknown."""
    if holders:
        return any(len(having) < workers for having in holders.values())
    if options.map_socket or options.complete:
        return bool(options.map_socket)
    return None
