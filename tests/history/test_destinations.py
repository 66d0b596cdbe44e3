"""An hour of what threads waited for outside of the server, by address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.support.simulated_server import Server
from tests.support.windows import window
from uwsgi_headroom.history import named_hours
from uwsgi_headroom.history.named_hours import OTHERS, DestinationHour
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.record import Destination, Waits

POSTGRES, REDIS = Destination("backend", ("10.0.0.5:5432",)), Destination("backend", ("10.0.0.6:6379",))


def reading(at: float, levels: Mapping[Destination, float] | None) -> Reading:
    waits = Waits(off="not permitted") if levels is None else Waits(destinations=levels)
    read = Server(processes=1, threads=8).read(at)
    return replace(read, host=replace(read.host, waits=waits))


def hour(*levels: Mapping[Destination, float] | None, step: float = 1.0) -> DestinationHour:
    """A sample every `step` seconds, from 0 on."""
    found = DestinationHour()
    for number, level in enumerate(levels):
        found.add(reading(number * step, level), 2.0)
    return found


def seconds(of: DestinationHour, start: float, until: float) -> dict[Destination, float]:
    return of.of(replace(window(until - start), until=until))


def test_the_integral_is_linear_between_samples() -> None:
    """2 and then 4 threads in a second are 3 thread seconds."""
    found = hour({POSTGRES: 2.0}, {POSTGRES: 4.0, REDIS: 1.0}, {POSTGRES: 4.0})
    assert seconds(found, 0, 2) == {POSTGRES: 7.0, REDIS: 1.0}


def test_windows_are_exact_to_within_five_seconds() -> None:
    """What is older does not count, and neither does what is in between two waits."""
    levels: list[Mapping[Destination, float]] = [{POSTGRES: 1.0}] * 31 + [{}] * 100 + [{REDIS: 1.0}] * 31
    found = hour(*levels)
    assert seconds(found, 0, 161) == {POSTGRES: pytest.approx(30.5), REDIS: pytest.approx(30.5)}
    assert seconds(found, 100, 161) == {REDIS: pytest.approx(30.5)}
    assert seconds(found, 0, 30)[POSTGRES] == pytest.approx(30, abs=5)
    assert seconds(found, 150, 161)[REDIS] == pytest.approx(11, abs=5)
    assert seconds(found, 160.5, 161)[REDIS] > 0


def test_gaps_and_unknown_times_do_not_count() -> None:
    """Between samples that are too far apart, and while waits are off, nothing is known."""
    assert seconds(hour({POSTGRES: 1.0}, {POSTGRES: 1.0}, step=9.0), 0, 9) == {}
    assert seconds(hour({POSTGRES: 1.0}, None, {POSTGRES: 1.0}), 0, 2) == {}
    assert seconds(hour(), 0, 2) == {}
    assert seconds(hour({}, {}, {}), 0, 2) == {}


def test_a_server_at_rest_takes_no_memory() -> None:
    """Rows are kept of times with a wait only."""
    found = hour(*[{}] * 200, {POSTGRES: 1.0}, *[{}] * 200)
    assert len(found._rows) == 1


def test_any_number_of_servers() -> None:
    """Of an application that asks thousands, the first 63 have a place, and the others are one. After an hour without a
    wait, a place is given to another one."""
    found = DestinationHour()
    for number in range(1000):
        found.add(reading(float(number), {Destination("backend", (f"10.0.{number % 256}.1:80",)): 1.0}), 2.0)
    assert len(found._totals) == named_hours.MOST_DESTINATIONS
    sums = seconds(found, 0, 1000)
    assert sum(sums.values()) == pytest.approx(999)
    assert sums[OTHERS] > 500
    for number in range(1000, 5000):
        found.add(reading(float(number), {POSTGRES: 1.0}), 2.0)
    for number in range(5000, 5010):
        found.add(reading(float(number), {REDIS: 2.0}), 2.0)
    sums = seconds(found, 4000, 5010)
    assert sums[REDIS] == pytest.approx(19, abs=0.1)
    assert sum(sums.values()) == pytest.approx(1019, abs=12)
