"""Colours that judge a figure, at the same thresholds as the rules of `alerts`."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import ThresholdsConfig
from grafana_foundation_sdk.models.dashboard import Threshold, ThresholdsMode

from dashboards import signal
from uwsgi_headroom.analysis.findings.evenness import COSTLY

FINE, WARNING, CRITICAL, PLAIN = "green", "orange", "red", "text"


def _steps(first: str, *more: tuple[float, str]) -> ThresholdsConfig:
    """`first` below all values, then each colour from its value on."""
    steps = [Threshold(None, first), *(Threshold(round(value, 4), colour) for value, colour in more)]
    return ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)


def none() -> ThresholdsConfig:
    """No verdict: a figure that is neither good nor bad."""
    return _steps(PLAIN)


def headroom() -> ThresholdsConfig:
    """Critical at the use of a limit that pages once requests wait; a warning where headroom is low."""
    return _steps(CRITICAL, (1 / signal.NEAR_CAPACITY, WARNING), (signal.HEADROOM_LOW, FINE))


def headroom_low() -> ThresholdsConfig:
    """Low headroom, as lines in a graph."""
    return _steps("transparent", (1 / signal.NEAR_CAPACITY, CRITICAL), (signal.HEADROOM_LOW, WARNING))


def utilization() -> ThresholdsConfig:
    """The thresholds of `headroom`, for the used part of a limit."""
    return _steps(FINE, (1 / signal.HEADROOM_LOW, WARNING), (signal.NEAR_CAPACITY, CRITICAL))


def near_capacity() -> ThresholdsConfig:
    """The utilization that pages once requests wait, as a line in a graph."""
    return _steps("transparent", (signal.NEAR_CAPACITY, CRITICAL))


def interpreter() -> ThresholdsConfig:
    """A warning where threads begin to wait for an interpreter's lock, critical where they mostly wait for it."""
    return _steps(FINE, (signal.INTERPRETER_BUSY, WARNING), (signal.INTERPRETER_FULL, CRITICAL))


def interpreter_full() -> ThresholdsConfig:
    """Saturation of an interpreter, as a line in a graph."""
    return _steps("transparent", (signal.INTERPRETER_FULL, CRITICAL))


def uneven() -> ThresholdsConfig:
    """The hot ratio that is a ticket under load, as a line in a graph."""
    return _steps("transparent", (signal.UNEVEN, CRITICAL))


def hot() -> ThresholdsConfig:
    """The hot ratio as a verdict: never critical, because unevenness alone does no harm."""
    return _steps(FINE, (signal.UNEVEN, WARNING))


def costly() -> ThresholdsConfig:
    """A warning from the cost at which the exporter reports a finding."""
    return _steps(FINE, (COSTLY, WARNING))


def costly_line() -> ThresholdsConfig:
    """The cost of `costly`, as a line in a graph."""
    return _steps("transparent", (COSTLY, WARNING))


def burning() -> ThresholdsConfig:
    """Burn rates that are a page over an hour and over six hours, and one that uses up the budget, as lines in a
    graph."""
    return _steps("transparent", (1, WARNING), (signal.BURNS_HOURS, CRITICAL), (signal.BURNS_AN_HOUR, CRITICAL))


def burns() -> ThresholdsConfig:
    """A warning where the budget is used up before its time, critical where it is a page."""
    return _steps(FINE, (1, WARNING), (signal.BURNS_AN_HOUR, CRITICAL))


def used_up() -> ThresholdsConfig:
    """The burn rate that uses up the budget in its time, as a line in a graph."""
    return _steps("transparent", (1, WARNING))


def budget() -> ThresholdsConfig:
    """Critical where more was bad than the objective permits."""
    return _steps(CRITICAL, (0, FINE))


def spent() -> ThresholdsConfig:
    """A budget of which nothing is left, as a line in a graph."""
    return _steps("transparent", (0, CRITICAL))


def ever_full() -> ThresholdsConfig:
    """The part of the time with a full queue: a ticket if there is any, a page from `queue_full` on. No verdict at 0:
    requests may wait in a queue that is never full."""
    return _steps(PLAIN, (0.0001, WARNING), (signal.QUEUE_FULL, CRITICAL))


def refused() -> ThresholdsConfig:
    """Refused connections: each is a client without an answer, or with a late one."""
    return _steps(PLAIN, (0.0001, CRITICAL))


def queue_wait() -> ThresholdsConfig:
    """The wait in the listen queue: a warning where users notice it however long a request takes, critical where it may
    be a page."""
    return _steps(PLAIN, (signal.QUEUE_WAIT, WARNING), (signal.QUEUE_WAIT_SEVERE, CRITICAL))


def cpu() -> ThresholdsConfig:
    """A warning where the use of CPUs is a ticket."""
    return _steps(FINE, (signal.CPU_FULL, WARNING))


def at_least_one() -> ThresholdsConfig:
    """0 is a warning, 1 and more are fine."""
    return _steps(WARNING, (1, FINE))


def any_is(colour: str) -> ThresholdsConfig:
    """0 is fine, 1 and more have the given colour."""
    return _steps(FINE, (1, colour))
