"""What a variant must keep to, and what makes one better than another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from uwsgi_headroom.tune.experiment.outcome import Outcome
from uwsgi_headroom.tune.loads.load import Answers
from uwsgi_headroom.words.formats import byte_size, duration, figure, percent

SUSTAINED = 0.95
"""The part of the rate that a variant has to answer."""

MORE_ERRORS = 0.01
"""A variant may fail this part of the requests more often than the present one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """memory: bytes of all processes. p99: seconds, as the clients see it. rate: requests per second that arrive; 0 in
    a closed loop. failed: the part of the requests that fails in the present variant. None: no limit."""

    memory: float | None = None
    p99: float | None = None
    rate: float = 0.0
    failed: float = 0.0


def find_score(outcome: Outcome, limits: Limits) -> float | None:
    """How good an outcome is: in a closed loop, answers per second; at a rate, 1 / the mean response time in seconds.
    None: nothing was answered."""
    answers = outcome.answers
    if answers is None or not answers.answered:
        return None
    if not limits.rate:
        return answers.throughput
    return 1 / answers.mean if answers.mean else None


def find_fault(outcome: Outcome, limits: Limits) -> str | None:
    """Why an outcome is beyond the limits, as the second half of a sentence; None if it is within all of them."""
    answers = outcome.answers
    if answers is None:
        return f"it did not run: {summarise_error(outcome)}"
    if not answers.answered:
        return f"no request was answered{describe_errors(answers.errors)}"
    faults = (
        (
            find_failed(answers) > limits.failed + MORE_ERRORS,
            f"{percent(find_failed(answers))} of the requests failed{describe_errors(answers.errors)}",
        ),
        (
            answers.throughput < SUSTAINED * limits.rate,
            f"it answered {figure(answers.throughput)} of {figure(limits.rate, 6)} requests/s",
        ),
        (
            (outcome.memory or 0) > (limits.memory or inf),
            f"it took {byte_size(outcome.memory or 0)} of memory, and {byte_size(limits.memory or 0)} are allowed",
        ),
        (
            (answers.p99 or 0) > (limits.p99 or inf),
            f"its p99 was {duration(answers.p99 or 0)}, and {duration(limits.p99 or 0)} are allowed",
        ),
    )
    return next((sentence for applies, sentence in faults if applies), None)


def summarise_error(outcome: Outcome) -> str:
    """Why a run has no result, without the end of the server's log, which follows in further lines."""
    first, *_ = (outcome.error or "the reason is not known").splitlines()
    return first.rstrip(".:")


def find_failed(answers: Answers) -> float:
    """The part of the requests that failed, 0 to 1."""
    errors = sum(answers.errors.values())
    return errors / (errors + answers.answered) if errors else 0.0


def describe_errors(errors: Mapping[str, int]) -> str:
    """The kinds of errors, most frequent first: ` (status 500: 12, timeout: 3)`."""
    if not errors:
        return ""
    kinds = sorted(errors.items(), key=lambda kind: (-kind[1], kind[0]))
    return f" ({', '.join(f'{name}: {count:,}' for name, count in kinds)})"
