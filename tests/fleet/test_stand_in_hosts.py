"""Stand-in hosts grow as planned, in the format of the real exporter."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.fleet import exposition, growth, hosts, plan
from tools.fleet.exposition import Series

CAPTURED = Path(__file__).parent / "captured"
START = 1_790_000_000.0
HOURS = 3600.0


@pytest.fixture(scope="module")
def captured() -> list[Series]:
    """The series of a real 8x8, and their growth in a minute."""
    return exposition.read(
        (CAPTURED / "8x8_a_minute_before.metrics").read_text(), (CAPTURED / "8x8.metrics").read_text()
    )


def values(text: str) -> dict[str, float]:
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if line[0] != "#"}


def test_an_answering_host_has_the_series_of_four_servers(captured: list[Series]) -> None:
    """And those of one exporter."""
    text = hosts.build(captured, plan.Fleet(1), 0).text(START, START + 60)
    ours = sum("server" not in series.labels for series in captured)
    assert len(values(text)) == 4 * (len(captured) - ours) + ours


def test_counters_never_fall(captured: list[Series]) -> None:
    """Whichever moments two scrapers choose."""
    host = hosts.build(captured, plan.Fleet(1), 0)
    counters = {series.name for series in captured if series.grows}
    before: dict[str, float] = {}
    for second in range(0, 300, 7):
        found = {
            name: value
            for name, value in values(host.text(START, START + second)).items()
            if name.partition("{")[0] in counters
        }
        assert all(value >= before.get(name, 0.0) for name, value in found.items())
        before = found


def test_requests_grow_with_the_load_of_the_plan(captured: list[Series]) -> None:
    """In an hour, by the captured rate times the load."""
    fleet = plan.Fleet(1)
    host = hosts.build(captured, fleet, 0)
    first, last = (values(host.text(START, START + at)) for at in (0.0, HOURS))
    name = "uwsgi_worker_requests_total"
    rate = sum(series.second - series.first for series in captured if series.name == name)
    rate /= exposition.observed_seconds(captured)
    for server in fleet.of_host(0):
        grown = sum(last[key] - first[key] for key in last if key.startswith(name) and f'server="{server.name}"' in key)
        assert grown == pytest.approx(rate * server.load * HOURS, rel=0.01)


def test_an_uneven_server_has_one_hot_worker(captured: list[Series]) -> None:
    """With the same requests in all."""
    (uneven,) = [server for server in plan.Fleet(20).answering() if server.trouble == "uneven"]
    even = plan.Server(uneven.host, uneven.slot, uneven.name, uneven.load, "")
    rates, others = (
        [line.load_rate for line in growth.lines(captured, server) if line.name == "uwsgi_worker_requests_total"]
        for server in (uneven, even)
    )
    assert sum(rates) == pytest.approx(sum(others))
    assert max(rates) / (sum(rates) / len(rates)) == pytest.approx(plan.HOT_WORKER)


def test_a_server_that_is_down_says_so(captured: list[Series]) -> None:
    """And has no figures."""
    (down,) = [server for server in plan.Fleet(20).servers() if server.trouble == "down"]
    lines = growth.lines(captured, down)
    assert [line.base for line in lines if line.name == "uwsgi_up"] == [0.0]
    assert {line.name for line in lines} == {"uwsgi_up", *growth.DOWN}
