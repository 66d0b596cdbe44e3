"""Figures over the repetitions of a setup, and comparisons of them that go beyond their ranges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

from app.lab.results import Outcome, Spread, spread

Figure = Callable[[Outcome], float | None]
Verdict = Literal["agrees", "differs", "open", "beside"]

DISTURBED = 0.3
"""CPUs of other programs with which a run counts as disturbed."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A comparison of the report. open: the runs do not decide it. beside: it was not
    published. subject: what is compared, as a noun phrase."""

    verdict: Verdict
    subject: str
    text: str


@dataclass(frozen=True, slots=True)
class Runs:
    """The outcomes of one experiment."""

    outcomes: Sequence[Outcome]

    def of(self, setup: str, load: str) -> list[Outcome]:
        """The runs of a setup under a load that have a result."""
        return [run for run in self.outcomes if (run.setup, run.load) == (setup, load) and run.answers]

    def spread(self, setup: str, load: str, figure: Figure) -> Spread | None:
        """The median and range of a figure; None if no run has it."""
        values = [value for run in self.of(setup, load) if (value := figure(run)) is not None]
        return spread(values) if values else None

    def error(self, setup: str, load: str) -> str | None:
        """Returns why a setup has no result under a load; None if it has one, or was not run."""
        if self.of(setup, load):
            return None
        return next((run.error for run in self.outcomes if (run.setup, run.load) == (setup, load)), None)


def throughput(run: Outcome) -> float | None:
    """Answers per second."""
    return run.answers.throughput if run.answers else None


def mean_ms(run: Outcome) -> float | None:
    return run.answers.mean * 1000 if run.answers and run.answers.mean is not None else None


def p99_ms(run: Outcome) -> float | None:
    return run.answers.p99 * 1000 if run.answers and run.answers.p99 is not None else None


def error_rate(run: Outcome) -> float | None:
    """The part of the requests that failed, 0 to 1."""
    if run.answers is None:
        return None
    failed = sum(run.answers.errors.values())
    return failed / (failed + run.answers.answered) if failed + run.answers.answered else None


def server_cpus(run: Outcome) -> float | None:
    return run.server_cpu


def machine_cpus(run: Outcome) -> float | None:
    """The CPUs of the machine that were busy."""
    return sum(run.cpus) or None


def clients_cpus(run: Outcome) -> float | None:
    return run.clients_cpu


def memory_mb(run: Outcome) -> float | None:
    return run.memory / 1e6 if run.memory is not None else None


def replies_per_cpu(run: Outcome) -> float | None:
    """Answers for each second of CPU that the server's processes used."""
    if not run.answers or not run.server_cpu:
        return None
    return run.answers.throughput / run.server_cpu


def hot_ratio(run: Outcome) -> float | None:
    return run.observed.hot_ratio if run.observed else None


def cost(run: Outcome) -> float | None:
    """The cost of unevenness, 0 to 1."""
    return run.observed.cost if run.observed else None


def interpreter_load(run: Outcome) -> float | None:
    """Of the busiest worker."""
    return run.observed.interpreter_load if run.observed else None


def interpreter_wait(run: Outcome) -> float | None:
    """Threads that wait for an interpreter lock, over all workers."""
    if run.observed is None or not run.observed.waits:
        return None
    return run.observed.waits.get("interpreter_lock", 0.0)


def wait_of_hottest(run: Outcome) -> float | None:
    """Threads that wait for the interpreter lock of the worker with the most of them."""
    return max(run.observed.interpreter_waits.values(), default=None) if run.observed else None


def response_ms(run: Outcome) -> float | None:
    """Mean response time in uWSGI, without the time in the listen queue."""
    found = run.observed.response_time if run.observed else None
    return found * 1000 if found is not None else None


def other_cpus(run: Outcome) -> float | None:
    """CPUs that programs besides the server and its clients used."""
    if not run.cpus or run.server_cpu is None or run.clients_cpu is None:
        return None
    return max(0.0, sum(run.cpus) - run.server_cpu - run.clients_cpu)


def concurrency(run: Outcome) -> float | None:
    return run.observed.concurrency if run.observed else None


def least_share(run: Outcome) -> float | None:
    return min(run.observed.shares.values(), default=None) if run.observed else None


def largest_share(run: Outcome) -> float | None:
    return max(run.observed.shares.values(), default=None) if run.observed else None


def verdict_of(sign: int, agreeing: int) -> Verdict:
    """The verdict on an order that was published as `agreeing`, 1 or -1."""
    if sign == 0:
        return "open"
    return "agrees" if sign == agreeing else "differs"


def order(first: Spread, second: Spread) -> int:
    """Returns 1 if the second is above the whole range of the first, -1 if below, 0 if the ranges overlap.

    Also 0 if one of them is a single run, whose range is unknown.
    """
    if min(first.number, second.number) < 2:
        return 0
    if second.low > first.high:
        return 1
    return -1 if second.high < first.low else 0


def ratio(second: Spread, first: Spread) -> Spread:
    """Returns second / first: of the medians, and the least and greatest that the ranges allow; inf for x / 0."""
    return Spread(
        _divide(second.median, first.median),
        _divide(second.low, first.high),
        _divide(second.high, first.low),
        min(first.number, second.number),
    )


def _divide(above: float, below: float) -> float:
    return above / below if below else inf


def relative(found: Mapping[str, Spread], first: str) -> dict[str, Spread]:
    """The figures as multiples of the median of the first; empty if it is missing or 0."""
    one = found[first].median if first in found else 0.0
    if not one:
        return {}
    return {
        name: Spread(value.median / one, value.low / one, value.high / one, value.number)
        for name, value in found.items()
    }


def compare_change(subject: str, published: float, before: Spread, after: Spread) -> Finding:
    """Compares the effect of a change with the published one: figure after / before."""
    if before.low <= 0 or after.low <= 0:
        return Finding("open", subject, "A run had no answers.")
    found = ratio(after, before)
    shown = f"{times(found)}; published {published:.2f}x."
    direction = order(before, after)
    if direction == 0:
        fits = found.low <= published <= found.high
        text = f"No difference beyond the ranges of the runs: {shown}"
        return Finding("open" if fits else "differs", subject, text + " The published effect would be inside." * fits)
    words = "It rose" if direction > 0 else "It fell"
    if direction == (1 if published > 1 else -1):
        return Finding("agrees", subject, f"{words}: {shown}")
    return Finding("differs", subject, f"{words}, the other way: {shown}")


def times(found: Spread) -> str:
    """Returns a ratio as text, with its range."""
    return f"{found.median:.2f}x ({found.low:.2f} to {found.high:.2f})"


def change_words(sign: int, figure: str) -> str:
    """What a change did to a figure, as the end of a sentence that begins with the change."""
    words = {1: "raised", -1: "lowered"}
    return f"{words[sign]} the {figure}" if sign else f"did not change the {figure} beyond the ranges of the runs"
