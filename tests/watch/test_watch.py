"""Outcomes become totals, history and figures of one server."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.captured_documents import path
from tests.support.clock import MovableClock
from tests.support.simulated_server import Server, emperor, router
from uwsgi_headroom.errors import ReadError, Reason
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.source import Unix
from uwsgi_headroom.source.address import File
from uwsgi_headroom.watch.watch import Watch


def watch_of(*outcomes: Reading | tuple[float, ReadError]) -> Watch:
    watch = Watch("shop", Unix("/run/shop.stats"))
    for outcome in outcomes:
        if isinstance(outcome, Reading):
            watch._record(outcome.at, outcome)
        else:
            watch._record(*outcome)
    return watch


def test_windows_begin_with_the_second_row() -> None:
    """There are no figures after the first reading, and those of every window after the second one, a second later."""
    server = Server()
    first, second = server.read(10.0), server.read(11.0)
    assert watch_of(first).figures(first, (60, 300)) == []
    assert [figures.window.asked for figures in watch_of(first, second).figures(second, (60, 300))] == [60, 300]


def test_failure_is_a_gap() -> None:
    """A failed read goes into the totals as a gap and makes no row."""
    server = Server()
    watch = watch_of(server.read(10.0), (10.5, ReadError("timeout", "no answer")), server.read(11.0))
    assert watch.integrals.totals.gap_seconds == 1.0
    assert len(watch.history._rows) == 2


@pytest.mark.parametrize("other", [emperor, router])
class TestOtherDocuments:
    def test_have_no_figures(self, other) -> None:
        """An emperor or a router has no figures, however long it is watched."""
        watch = watch_of(*(other(float(at)) for at in range(10)))
        assert watch.figures(other(10.0), (60,)) == []
        assert watch.integrals.totals.samples == 0

    def test_in_the_place_of_a_server(self, other) -> None:
        """An address that changes from a server to an emperor has no figures, even with a history."""
        server = Server()
        watch = watch_of(*(server.read(float(at)) for at in range(5)), other(5.0), other(6.0))
        assert watch.figures(other(6.0), (60,)) == []

    def test_before_a_server(self, other) -> None:
        """A server that takes over the address starts with its first reading."""
        server = Server()
        watch = watch_of(other(0.0), other(5.0), server.read(10.0), server.read(11.0))
        (figures,) = watch.figures(server.read(11.0), (60,))
        assert (figures.window.seconds, figures.window.gap_seconds) == (1, 0)


def test_long_step_is_by_the_pace() -> None:
    """If the budget has stretched the interval, samples that far apart are no gap; beyond five seconds they are."""
    server = Server()
    watch = watch_of(server.read(0.0))
    for _ in range(20):
        watch.pace.pause(server.read(0.0, read_seconds=0.05))
    watch._record(4.9, server.read(4.9))
    watch._record(10.0, server.read(10.0))
    assert watch.integrals.totals.observed_seconds == 4.9
    assert watch.integrals.totals.gap_seconds == pytest.approx(5.1)


def test_reader_feeds_it() -> None:
    """Each reading goes into the totals once, and so does each failure."""

    async def run() -> None:
        hands = MovableClock()
        watch = Watch("shop", File(str(path("threads_4x8_busy"))), clock=hands.clock)
        for _ in range(3):
            first = await watch.reader.read()
            hands.move(0.5)
        assert watch.integrals.totals.samples == 3
        assert watch.integrals.totals.observed_seconds == 1.0
        assert isinstance(first, Reading)
        assert len(watch.figures(first, (60,))) == 1
        watch.reader.address = File("/there_is_none.json")
        hands.move(2.0)
        assert isinstance(await watch.reader.read(), ReadError)
        assert watch.integrals.totals.gap_seconds == 2.5

    asyncio.run(run())


class TestState:
    """The state of a server, as in the metric `uwsgi_up`, the page, the API and top."""

    def watch(self) -> tuple[Watch, MovableClock]:
        hands = MovableClock()
        return Watch("shop", Unix("/run/shop.stats"), clock=hands.clock), hands

    def outcome(self, watch: Watch, outcome: Reading | ReadError, at: float) -> None:
        watch._record(at, outcome)
        watch.reader.outcome = outcome

    def test_before_the_first_read(self) -> None:
        """A server that was never read is not up, without a reason."""
        watch, _ = self.watch()
        assert (watch.state, watch.error) == ("stale", None)

    @pytest.mark.parametrize("reason", ["timeout", "truncated", "empty", "not_json", "internal"])
    def test_a_failure_now_and_then_is_normal(self, reason: Reason) -> None:
        """uWSGI's master is normally silent for 1 to 3 s at times: a server is up for 5 s after a successful read."""
        watch, hands = self.watch()
        self.outcome(watch, Server().read(1000.0), 1000.0)
        self.outcome(watch, ReadError(reason, "what happened"), 1001.0)
        hands.move(4.9)
        assert (watch.state, watch.error) == ("up", None)
        assert watch.observe((60.0,)).reading is watch.reading
        hands.move(0.2)
        assert watch.state == "down"
        assert watch.observe((60.0,)).outcome is watch.error is watch.reader.outcome

    @pytest.mark.parametrize("reason", ["refused", "not_found"])
    def test_gone_is_down_at_once(self, reason: Reason) -> None:
        """If nothing listens there, the server is down at once."""
        watch, _ = self.watch()
        self.outcome(watch, Server().read(1000.0), 1000.0)
        self.outcome(watch, ReadError(reason, "gone"), 1000.2)
        assert watch.state == "down"
        assert watch.observe((60.0,)).reading is None
        self.outcome(watch, Server().read(1000.4), 1000.4)
        assert watch.state == "up"

    def test_a_slow_pace_is_no_failure(self) -> None:
        """If samples are 4 s apart, three of them may be missing."""
        watch, hands = self.watch()
        reading = Server().read(1000.0, read_seconds=1.0)
        self.outcome(watch, reading, 1000.0)
        for _ in range(5):
            watch.pace.pause(reading)
        hands.move(11.9)
        assert watch.state == "up"
        hands.move(0.2)
        assert watch.state == "stale"

    def test_a_fault_of_ours_is_that_servers_failure(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Figures that cannot be computed make only this server's observation a failure."""
        watch, _ = self.watch()
        self.outcome(watch, Server().read(1000.0), 1000.0)

        def broken(*_arguments: object) -> list[object]:
            raise ZeroDivisionError("hunter2")

        monkeypatch.setattr(watch, "figures", broken)
        outcome = watch.observe((60.0,)).outcome
        assert isinstance(outcome, ReadError)
        assert outcome.reason == "internal"
        assert "hunter2" not in str(outcome)
