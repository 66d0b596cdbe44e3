"""Outcomes become totals, history and figures of one server, and an outage ends a window."""

import msgspec
import pytest
from msgspec.structs import replace

from tests.support.captured_documents import path
from tests.support.scripted_watch import ScriptedWatch
from tests.support.simulated_server import EPOCH, MovableClock, Server, emperor, router
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.errors import ReadError, Reason
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.record import UNKNOWN, Options
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


def test_windows_begin_with_the_second_row():
    server = Server()
    first, second = server.read(10.0), server.read(11.0)
    assert watch_of(first).figures(first, (60, 300)) == []
    assert [figures.window.asked for figures in watch_of(first, second).figures(second, (60, 300))] == [60, 300]
    # A failure is a gap, and makes no row.
    server = Server()
    watch = watch_of(server.read(10.0), (10.5, ReadError("timeout", "no answer")), server.read(11.0))
    assert watch.integrals.totals.gap_seconds == 1.0
    assert len(watch.history._rows) == 2


@pytest.mark.parametrize("other", [emperor, router])
class TestOtherDocuments:
    def test_have_no_figures(self, other):
        watch = watch_of(*(other(float(at)) for at in range(10)))
        assert watch.figures(other(10.0), (60,)) == []
        assert watch.integrals.totals.samples == 0

    def test_in_the_place_of_a_server(self, other):
        server = Server()
        watch = watch_of(*(server.read(float(at)) for at in range(5)), other(5.0), other(6.0))
        assert watch.figures(other(6.0), (60,)) == []

    def test_before_a_server(self, other):
        server = Server()
        watch = watch_of(other(0.0), other(5.0), server.read(10.0), server.read(11.0))
        (figures,) = watch.figures(server.read(11.0), (60,))
        assert (figures.window.seconds, figures.window.gap_seconds) == (1, 0)


def test_long_step_is_by_the_pace():
    server = Server()
    watch = watch_of(server.read(0.0))
    for _ in range(20):
        watch.pace.pause(server.read(0.0, read_seconds=0.05))
    watch._record(4.9, server.read(4.9))
    watch._record(10.0, server.read(10.0))
    assert watch.integrals.totals.observed_seconds == 4.9
    assert watch.integrals.totals.gap_seconds == pytest.approx(5.1)


async def test_reader_feeds_it():
    """Each reading goes into the totals once, and so does each failure."""
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


class TestState:
    def watch(self) -> tuple[Watch, MovableClock]:
        hands = MovableClock()
        return Watch("shop", Unix("/run/shop.stats"), clock=hands.clock), hands

    def outcome(self, watch: Watch, outcome: Reading | ReadError, at: float) -> None:
        watch._record(at, outcome)
        watch.reader.outcome = outcome

    def test_before_the_first_read(self):
        watch, _ = self.watch()
        assert (watch.state, watch.error) == ("stale", None)

    @pytest.mark.parametrize("reason", ["timeout", "truncated", "empty", "not_json", "internal"])
    def test_a_failure_now_and_then_is_normal(self, reason):
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
    def test_gone_is_down_at_once(self, reason):
        watch, _ = self.watch()
        self.outcome(watch, Server().read(1000.0), 1000.0)
        self.outcome(watch, ReadError(reason, "gone"), 1000.2)
        assert watch.state == "down"
        assert watch.observe((60.0,)).reading is None
        self.outcome(watch, Server().read(1000.4), 1000.4)
        assert watch.state == "up"

    def test_a_slow_pace_is_no_failure(self):
        watch, hands = self.watch()
        reading = Server().read(1000.0, read_seconds=1.0)
        self.outcome(watch, reading, 1000.0)
        for _ in range(5):
            watch.pace.pause(reading)
        hands.move(11.9)
        assert watch.state == "up"
        hands.move(0.2)
        assert watch.state == "stale"

    def test_a_fault_of_ours_is_that_servers_failure(self, monkeypatch):
        watch, _ = self.watch()
        self.outcome(watch, Server().read(1000.0), 1000.0)

        def broken(*_arguments: object) -> list[object]:
            raise ZeroDivisionError("hunter2")

        monkeypatch.setattr(watch, "figures", broken)
        outcome = watch.observe((60.0,)).outcome
        assert outcome.reason == "internal"
        assert "hunter2" not in str(outcome)


def of_master(reading: Reading, pid: int) -> Reading:
    snapshot = replace(reading.snapshot, pid=pid)
    return replace(reading, snapshot=snapshot, host=replace(reading.host, master_pid=pid))


class Restarted:
    """A server with ten requests a second for a minute that is then down for a while, and comes back with a master."""

    def __init__(self, down: int = 20, *, reason: Reason = "refused", pid: int = 900, up: int = 10) -> None:
        self.server, self.scripted = Server(2, 8), ScriptedWatch()
        self.run(60, pid=1)
        for _ in range(2 * down):
            self.scripted.read(ReadError(reason, "gone"), self.scripted.now + 0.5)
        if pid != 1:
            self.server.reload(self.scripted.now)
        self.run(up, pid=pid)

    def run(self, seconds: int, pid: int) -> None:
        for _ in range(2 * seconds):
            self.server.serve(1, 5)
            self.scripted.read(of_master(self.server.read(self.scripted.now + 0.5), pid))

    def figures(self, seconds: float = 60.0) -> Figures:
        watch = self.scripted.watch
        assert watch.reading
        (figures,) = watch.figures(watch.reading, [seconds])
        return figures


@pytest.mark.parametrize("seconds", [60.0, 300.0])
def test_the_rate_is_that_since_the_outage(seconds):
    """Down for 20 s, until ten seconds ago: the rate is ten a second, as before it, and no reload is in the window."""
    restarted = Restarted()
    figures = restarted.figures(seconds)
    assert figures.outage.seconds == pytest.approx(20, abs=0.51)
    assert figures.outage.until == EPOCH + 80.5
    assert figures.window.seconds == pytest.approx(9.5)
    assert figures.flow.throughput == pytest.approx(10)
    assert (figures.window.reloads, figures.window.gap_seconds) == (0, 0)


def test_an_outage_before_the_window_is_none_of_it():
    restarted = Restarted(up=70)
    short, long = restarted.figures(60.0), restarted.figures(300.0)
    assert short.outage is None
    assert short.window.seconds == pytest.approx(60, abs=0.51)  # of the nearest row
    assert long.outage
    assert long.window.seconds == pytest.approx(69.5)
    # Right after an outage nothing is known.
    restarted = Restarted(up=0)
    restarted.scripted.read(of_master(restarted.server.read(restarted.scripted.now + 0.5), 900))
    watch = restarted.scripted.watch
    assert watch.reading
    assert watch.figures(watch.reading, [60.0]) == []


@pytest.mark.parametrize(
    ("down", "reason", "pid"), [(20, "refused", 1), (2, "timeout", 900), (0, "refused", 900), (20, "timeout", 1)]
)
def test_what_is_no_outage(down, reason, pid):
    """Only the stats of the same master could not be read; or uWSGI was silent for a moment, as in a reload."""
    figures = Restarted(down, reason=reason, pid=pid).figures(60.0)
    assert figures.outage is None
    assert figures.window.seconds == pytest.approx(60, abs=0.51)  # of the nearest row


def test_a_rest_is_no_outage():
    """With `die-on-idle`, uWSGI ends when it is idle, and a request starts another master."""
    restarted = Restarted(up=0)
    setup = replace(UNKNOWN, options=Options(die_on_idle=True))
    reading = of_master(restarted.server.read(restarted.scripted.now + 0.5), 900)
    restarted.scripted.read(replace(reading, host=replace(reading.host, setup=setup)))
    restarted.scripted.read(ReadError("refused", "gone"), restarted.scripted.now + 0.5)
    restarted.server.reload(restarted.scripted.now)
    restarted.run(5, pid=901)
    assert restarted.figures().outage.seconds == pytest.approx(20.5, abs=0.51)  # the one before


def test_the_last_of_two_outages_counts():
    restarted = Restarted()
    for _ in range(6):
        restarted.scripted.read(ReadError("not_found", "gone"), restarted.scripted.now + 0.5)
    restarted.server.reload(restarted.scripted.now)
    restarted.run(5, pid=901)
    assert restarted.figures().outage.seconds == pytest.approx(3, abs=0.51)
    assert restarted.figures().window.seconds == pytest.approx(4.5)


def test_the_length_of_an_outage_is_that_of_the_monotonic_clock():
    restarted = Restarted(up=0)
    reading = of_master(restarted.server.read(restarted.scripted.now + 0.5), 900)
    restarted.scripted.read(replace(reading, time=reading.time - 7200))
    restarted.run(5, pid=900)
    assert restarted.figures().outage.seconds == pytest.approx(20.5, abs=0.51)


def test_equal_readings_are_added_as_one():
    """What is known is the same as if each had been added; a server whose threads serve has no equal readings."""
    server, plain, folded = Server(processes=2, threads=2), ScriptedWatch(), ScriptedWatch()
    added: list[int] = []
    integrals = folded.watch._integrals
    add = integrals.add
    integrals.add = lambda *of: added.append(of[-1]) or add(*of)  # type: ignore[method-assign]
    last = server.read(0.0)
    for sample in range(1, 400):
        if sample % 60 == 0:
            server.serve(1, 3, each=0.05)
        if sample % 100 == 0:
            server.busy(2, sample // 100 % 2)
        reading = server.read(sample / 5)
        same = reading.snapshot == last.snapshot
        last = replace(reading, snapshot=last.snapshot, host=last.host) if same else reading
        plain.read(replace(last, host=replace(last.host)))
        folded.read(last)
    assert max(added) == 6
    assert sum(added) == 399
    ones, others = plain.watch.integrals.totals, folded.watch.integrals.totals
    assert ones.samples == others.samples == 399
    for name in ("occupancy", "workers", "observed_seconds", "gap_seconds", "queue_seconds"):
        assert msgspec.to_builtins(getattr(ones, name)) == approx_all(msgspec.to_builtins(getattr(others, name)))
    times, other_times = ones.response_times, others.response_times
    assert (times.requests, times.lost) == (other_times.requests, other_times.lost)
    assert times.expected == pytest.approx(other_times.expected, abs=1e-6)
    assert times.seconds == pytest.approx(other_times.seconds)
    one, other = plain.watch.history.window(60.0), folded.watch.history.window(60.0)
    assert one.until == other.until
    assert one.seconds == pytest.approx(other.seconds, abs=1.2), "it begins with a row of the history"


def approx_all(value: object) -> object:
    """The same, with each number of it as about this one."""
    if isinstance(value, dict):
        return {key: approx_all(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [approx_all(each) for each in value]
    return pytest.approx(value, abs=1e-9) if isinstance(value, float) else value


def test_a_fault_in_equal_readings_fails_nobody_who_asks(monkeypatch):
    server, watch = Server(processes=1), ScriptedWatch()
    first = server.read(0.0)
    watch.read(first)
    for at in (0.2, 0.4):
        watch.read(replace(first, at=at))
    monkeypatch.setattr(watch.watch._integrals, "add", lambda *_: 1 / 0)
    assert watch.watch.observe([60.0]).totals.samples == 1
    assert len(watch.watch.reader.faults) == 1
