"""Outcomes of runs that never took place."""

from collections.abc import Mapping
from pathlib import Path

from app.lab.clients import Answers
from app.lab.experiment import Results
from app.lab.figures import Runs
from app.lab.programs import Machine
from app.lab.results import Observed, Outcome


def outcome(
    setup: str, load: str, number: int = 0, *, rate: float = 100.0, mean: float = 0.1, **rest: object
) -> Outcome:
    """A run of 10 s."""
    answers = Answers(seconds=10.0, answered=round(rate * 10), mean=mean, p99=2 * mean)
    figures = {"server_cpu": 1.0, "clients_cpu": 0.1, "cpus": (0.6, 0.6), "memory": 50_000_000} | rest
    return Outcome(setup=setup, load=load, number=number, answers=answers, **figures)


def observed(shares: Mapping[int, float] | None = None, **rest: object) -> Observed:
    """The figures of a uWSGI with these shares."""
    shares = shares or {1: 0.5, 2: 0.5}
    figures = {
        "throughput": 40.0,
        "response_time": 0.15,
        "concurrency": 6.0,
        "hot_ratio": max(shares.values()) * len(shares),
        "cost": 0.0,
        "interpreter_load": 0.5,
        "waits": {"interpreter_lock": 0.1},
        "interpreter_waits": dict.fromkeys(shares, 0.1),
    } | rest
    return Observed(shares=shares, **figures)


def machine(**changed: object) -> Machine:
    described: dict[str, object] = {
        "cpus": 2,
        "system": "Linux 6.1",
        "python": "CPython 3.11.7",
        "versions": {"uWSGI": "2.0.31"},
        "missing": {},
        "fibonacci": {"interpreted": 2e-6, "compiled": 0.5e-6},
        "fib_n": 30,
        "fib_seconds": 0.1,
    }
    return Machine(**(described | changed))


def results(directory: Path, *outcomes: Outcome, **changed: object) -> Results:
    return Results(runs=Runs(outcomes), machine=machine(**changed), directory=directory)
