"""The result of one read of a stats server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Answer:
    """One document.

    transfer_seconds: time from the first byte of the document to its last.
    peer_pid: the listening process, in this process's PID namespace (UNIX sockets only).
    peer: IP address and port of the server (TCP only).
    """

    body: bytes
    transfer_seconds: float = 0.0
    peer_pid: int | None = None
    peer: tuple[str, int] | None = None
