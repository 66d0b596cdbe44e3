"""An outage ends a window, and the figures say when it was."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from tests.support.scripted_watch import ScriptedWatch
from tests.support.simulated_server import EPOCH, Server
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.errors import ReadError, Reason
from uwsgi_headroom.reading import Reading


def of_master(reading: Reading, pid: int) -> Reading:
    snapshot = msgspec.structs.replace(reading.snapshot, pid=pid)
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
def test_the_rate_is_that_since_the_outage(seconds: float) -> None:
    """Down for 20 s, until ten seconds ago: the rate is ten a second, as before it, and no reload is in the window."""
    restarted = Restarted()
    figures = restarted.figures(seconds)
    assert figures.outage
    assert figures.outage.seconds == pytest.approx(20, abs=0.51)
    assert figures.outage.until == EPOCH + 80.5
    assert figures.window.seconds == pytest.approx(9.5)
    assert figures.flow.throughput == pytest.approx(10)
    assert (figures.window.reloads, figures.window.gap_seconds) == (0, 0)


def test_an_outage_before_the_window_is_none_of_it() -> None:
    """A minute later the last minute is one as any other, and the last five minutes still have it."""
    restarted = Restarted(up=70)
    short, long = restarted.figures(60.0), restarted.figures(300.0)
    assert short.outage is None
    assert short.window.seconds == pytest.approx(60, abs=0.51)  # of the nearest row
    assert long.outage
    assert long.window.seconds == pytest.approx(69.5)


def test_right_after_an_outage_nothing_is_known() -> None:
    """No figures come of one sample, and none of the time before."""
    restarted = Restarted(up=0)
    restarted.scripted.read(of_master(restarted.server.read(restarted.scripted.now + 0.5), 900))
    watch = restarted.scripted.watch
    assert watch.reading
    assert watch.figures(watch.reading, [60.0]) == []


@pytest.mark.parametrize(
    ("down", "reason", "pid"), [(20, "refused", 1), (2, "timeout", 900), (0, "refused", 900), (20, "timeout", 1)]
)
def test_what_is_no_outage(down: int, reason: Reason, pid: int) -> None:
    """Only the stats of the same master could not be read; or uWSGI was silent for a moment, as in a reload."""
    figures = Restarted(down, reason=reason, pid=pid).figures(60.0)
    assert figures.outage is None
    assert figures.window.seconds == pytest.approx(60, abs=0.51)  # of the nearest row


def test_the_last_of_two_outages() -> None:
    """It is the one that counts."""
    restarted = Restarted()
    for _ in range(6):
        restarted.scripted.read(ReadError("not_found", "gone"), restarted.scripted.now + 0.5)
    restarted.server.reload(restarted.scripted.now)
    restarted.run(5, pid=901)
    outage = restarted.figures().outage
    assert outage
    assert outage.seconds == pytest.approx(3, abs=0.51)
    assert restarted.figures().window.seconds == pytest.approx(4.5)


def test_a_wall_clock_that_is_set() -> None:
    """The length is that of the monotonic clock."""
    restarted = Restarted(up=0)
    reading = of_master(restarted.server.read(restarted.scripted.now + 0.5), 900)
    restarted.scripted.read(replace(reading, time=reading.time - 7200))
    restarted.run(5, pid=900)
    outage = restarted.figures().outage
    assert outage
    assert outage.seconds == pytest.approx(20.5, abs=0.51)
