"""Documents of servers whose waits are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from uwsgi_headroom.documents.schema import Server, Unknown
from uwsgi_headroom.documents.waits import Backend, Waits, WaitState
from uwsgi_headroom.record import State


def waits(
    threads: Mapping[State, float], backends: Mapping[str, float] | None = None, throughput: float | None = 100.0
) -> Waits:
    """The section with these mean threads, and with requests per second; None: no request was completed."""

    def per_request(number: float) -> float | None:
        return number / throughput if throughput else None

    return Waits(
        states=tuple(
            WaitState(state=state, threads=number, per_request=per_request(number)) for state, number in threads.items()
        ),
        backends=tuple(
            Backend(name=name, address="10.0.0.5:5432", threads=number, per_request=per_request(number))
            for name, number in (backends or {}).items()
        ),
        total=sum(threads.values()),
        disagreement=0.0,
    )


EXAMPLE = waits(
    {"cpu": 1.8, "cpu_wait": 0.5, "interpreter_lock": 2.2, "backend": 4.1, "disk": 0.2, "client": 0.1},
    {"postgres": 4.1},
)
"""89 ms per request, of which 41 ms are for the backend postgres."""


def with_waits(server: Server, section: Waits = EXAMPLE, lock_waiters: Sequence[float | None] = ()) -> Server:
    """A copy of a document with this section, and with these threads for the interpreter lock, by worker."""
    workers = [
        msgspec.structs.replace(worker, lock_waiters=waiters)
        for worker, waiters in zip(server.workers, lock_waiters, strict=False)
    ]
    return msgspec.structs.replace(server, waits=section, workers=(*workers, *server.workers[len(workers) :]))


def with_reason(server: Server, why: str) -> Server:
    """A copy of a document whose waits are not known, for this reason."""
    others = tuple(unknown for unknown in server.unknown if unknown.what != "waits")
    reason = Unknown(what="waits", why=why, socket=None)
    return msgspec.structs.replace(server, waits=None, unknown=(*others, reason))
