"""What one run of an experiment found: kept as one line of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from uwsgi_headroom.tune.loads.load import Answers
from uwsgi_headroom.words.formats import duration, figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """This project's figures of a uWSGI in the measured time, from its stats server; all as the API defines them.

    shares: of the requests, by worker id. residency: CPU seconds of each worker on each CPU, by worker id; empty if
    unknown. waits: threads in each wait state, on average. interpreter_waits: threads that wait for the interpreter
    lock, by worker id. interpreter_load: the busiest worker's. cost: of unevenness, 0 to 1.
    """

    throughput: float
    response_time: float | None
    concurrency: float
    shares: Mapping[int, float]
    hot_ratio: float | None
    cost: float | None
    interpreter_load: float | None
    interpreter_waits: Mapping[int, float] = field(default_factory=dict)
    waits: Mapping[str, float] = field(default_factory=dict)
    residency: Mapping[int, Mapping[int, float]] = field(default_factory=dict)
    headroom: float | None = None
    limit: str | None = None
    verdict: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One run of one setup under one load.

    number: of the repetition, from 0. cpus: the part of each CPU of the machine that was busy, 0 to 1, in order.
    server_cpu, clients_cpu: CPUs that the server's processes and the load's clients used. memory: the most bytes that
    all processes of the server took together, shared pages counted once (PSS). observed: None for other servers.
    error: why there is no result, as a sentence; then `answers` is None.
    """

    setup: str
    load: str
    number: int
    answers: Answers | None
    cpus: tuple[float, ...] = ()
    server_cpu: float | None = None
    clients_cpu: float | None = None
    memory: int | None = None
    observed: Observed | None = None
    error: str | None = None

    def sum_up(self) -> str:
        """Return the result in one line."""
        answers = self.answers
        if answers is None:
            return f"failed: {self.error.splitlines()[0] if self.error else 'no answer'}"
        times = (("mean", answers.mean), ("p99", answers.p99))
        shown = "".join(f", {name} {duration(value)}" for name, value in times if value is not None)
        failed, unsuccessful = sum(answers.errors.values()), sum(answers.statuses.values())
        if unsuccessful:
            shown += f", {unsuccessful:,} redirects or errors below 500"
        return f"{figure(answers.throughput, 4)} requests/s{shown}{f', {failed:,} failed' if failed else ''}"
