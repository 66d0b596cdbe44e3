"""What a read of a stats server brings back."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Answer:
    """One document. `peer_pid` is the process that listens, as this process sees it (UNIX sockets only);
    `peer` the address it was reached at (TCP only)."""

    body: bytes
    peer_pid: int | None = None
    peer: tuple[str, int] | None = None
