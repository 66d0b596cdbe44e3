"""What a read of a stats server brings back."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Answer:
    """One document. `transfer_seconds` passed from its first byte to its last; `peer_pid` is the process that listens,
    as this process sees it (UNIX sockets only); `peer` the address it was reached at (TCP only)."""

    body: bytes
    transfer_seconds: float = 0.0
    peer_pid: int | None = None
    peer: tuple[str, int] | None = None
