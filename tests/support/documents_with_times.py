"""Documents of servers whose waits, percentiles of response times and objective are known."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from uwsgi_headroom.analysis.objective import Burn, Objective
from uwsgi_headroom.analysis.percentiles import Percentile, ResponseTimes
from uwsgi_headroom.analysis.wait_states import Backend, WaitFigures, WaitState
from uwsgi_headroom.documents.schema import ServerDocument, Unknown
from uwsgi_headroom.documents.subjects import CodeLine, CodeState
from uwsgi_headroom.record import State

SHORT = Percentile(share=0.5, seconds=None, low=0.0, high=0.16, under=0.16)
UNSHARP = Percentile(share=0.9, seconds=0.3, low=0.25, high=0.33)
LONG = Percentile(share=0.95, seconds=0.483, low=0.451, high=0.52)
LONGEST = Percentile(share=0.99, seconds=0.91, low=0.8, high=1.2)

RESPONSE_TIMES = ResponseTimes(requests=2400, interval=0.2, percentiles=(SHORT, UNSHARP, LONG, LONGEST))


def percentiles(*known: Percentile, requests: int = 2400) -> ResponseTimes:
    """The section with these percentiles."""
    return ResponseTimes(requests=requests, interval=0.2, percentiles=known)


def burn(seconds: float, share: float | None, lost: int = 0, requests: int = 10_000) -> Burn:
    """The burn of an objective of 99 %."""
    slow = (share or 0.0) * requests - lost
    rate = None if share is None else share / 0.01
    return Burn(seconds=seconds, requests=requests, slow=slow, lost=lost, share=share, rate=rate)


def objective(*windows: Burn, **others: object) -> Objective:
    """An objective of 99 % within a second, by default with 1.8 % missed in the last hour."""
    whole = Objective(
        threshold=1.0,
        objective=0.99,
        windows=windows or (burn(300.0, 0.002), burn(3600.0, 0.018)),
        level=None,
        unjudged=None,
        queue_wait=0.002,
        load_multiple=None,
        load_multiple_reached=None,
    )
    return replace(whole, **others)


def with_response_times(server: ServerDocument, section: ResponseTimes | None = RESPONSE_TIMES) -> ServerDocument:
    """A copy of a document with this section."""
    return replace(server, response_times=section)


def with_objective(server: ServerDocument, section: Objective) -> ServerDocument:
    """A copy of a document with this objective."""
    return replace(server, objective=section)


def waits(
    threads: Mapping[State, float], backends: Mapping[str, float] | None = None, throughput: float | None = 100.0
) -> WaitFigures:
    """The section with these mean threads, and with requests per second; None: no request was completed."""

    def per_request(number: float) -> float | None:
        return number / throughput if throughput else None

    return WaitFigures(
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


KNOWN_WAITS = waits(
    {"cpu": 1.8, "cpu_wait": 0.5, "interpreter_lock": 2.2, "backend": 4.1, "disk": 0.2, "client": 0.1},
    {"postgres": 4.1},
)
"""89 ms per request, of which 41 ms are for the backend postgres."""


def with_waits(
    server: ServerDocument, section: WaitFigures = KNOWN_WAITS, lock_waiters: Sequence[float | None] = ()
) -> ServerDocument:
    """A copy of a document with this section, and with these threads for the interpreter lock, by worker."""
    workers = [
        replace(worker, lock_waiters=waiters) for worker, waiters in zip(server.workers, lock_waiters, strict=False)
    ]
    return replace(server, waits=section, workers=(*workers, *server.workers[len(workers) :]))


def code_line(**changes: object) -> CodeLine:
    """A line of code that waits for a backend."""
    line = CodeLine(
        function="query_orders",
        file="/srv/shop/orders.py",
        line=3,
        callee="execute",
        samples=60,
        share=0.6,
        per_request=0.12,
        states=(CodeState(state="backend", share=0.6),),
        addresses=("10.0.0.5:5432",),
    )
    return replace(line, **changes)


def with_reason(server: ServerDocument, why: str) -> ServerDocument:
    """A copy of a document whose waits are not known, for this reason."""
    others = tuple(unknown for unknown in server.unknown if unknown.what != "waits")
    reason = Unknown(what="waits", why=why, socket=None)
    return replace(server, waits=None, unknown=(*others, reason))
