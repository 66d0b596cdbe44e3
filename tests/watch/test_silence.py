"""Stats that do not answer although the master runs: the kernel's figures take their place while uWSGI serves."""

import asyncio
import os
import signal
import socket
import threading
import urllib.request
from collections.abc import Callable, Coroutine
from contextlib import suppress

import pytest
from msgspec.structs import replace

from tests.kernel.waits.test_sampler import needs_known_calls
from tests.support.real_uwsgi import uwsgi
from tests.support.scripted_watch import ScriptedWatch
from tests.support.simulated_server import EPOCH, Server
from tests.watch.sampling import sampling, until
from uwsgi_headroom.analysis.findings import Held
from uwsgi_headroom.config.servers import ServerConfig
from uwsgi_headroom.config.settings import Settings
from uwsgi_headroom.documents.build import build_server
from uwsgi_headroom.errors import BlindError, ReadError
from uwsgi_headroom.metrics import families
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.source import ProcessOfApp, parse_address
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.pace import GAP_SECONDS
from uwsgi_headroom.watch.reader import Reader
from uwsgi_headroom.watch.watch import Watch

MASTER = 100
"""The PID of the master that served the stats."""


class Silent:
    """A server that was read for ten seconds, and how the kernel shows it."""

    def __init__(self) -> None:
        self.server, self.scripted = Server(2, 2), ScriptedWatch()
        self.watch = self.scripted.watch
        self.master: int | None = MASTER
        self.asked: list[ProcessOfApp] = []
        self.watch.reader.find_master = lambda: self.master
        self.watch._make_other = self.make
        self.watch._is_sampled = True
        self.scripted.seconds(self.server, 10)

    def make(self, process: ProcessOfApp) -> tuple[Watch, Callable[[], Coroutine[None, None, bool]]]:
        self.asked.append(process)
        other = Watch("shop", process, clock=self.scripted.clock)
        return other, asyncio.Event().wait

    def fail(self, at: float, reason: str = "timeout") -> Watch:
        self.scripted.read(ReadError(reason, "no answer"), at)
        return self.watch.shown

    def see(self, at: float, *busy: int) -> Watch:
        """The kernel shows so many busy threads of each worker at this second."""
        self.server.busy(*busy)
        self.scripted.now = at
        self.watch.silent.watch._record(at, self.of_kernel(at))
        self.watch.silent.watch.reader.outcome = None
        return self.watch.shown

    def of_kernel(self, at: float) -> Reading:
        reading = self.server.read(at)
        return replace(reading, snapshot=replace(reading.snapshot, source="kernel"))

    def scrape(self) -> dict[str, list[tuple[dict[str, str], float]]]:
        scraped: dict[str, list[tuple[dict[str, str], float]]] = {}
        for family in families([self.watch.observe([60.0])]):
            for line in family.samples:
                scraped.setdefault(line.name, []).append((line.labels, line.value))
        return scraped


async def test_the_kernel_takes_their_place_and_gives_it_back():
    """Five seconds after the last document; each source has a history of its own, and totals have no series, except
    those of the log, which is read on."""
    silent = Silent()
    silent.watch.set_log("/run/shop.log")
    assert silent.fail(14.0) is silent.watch
    assert silent.watch.silent is None
    silent.fail(15.5)
    assert silent.asked == [ProcessOfApp(MASTER)]
    for at, busy in [(16.0, 1), (17.0, 1), (18.0, 2)]:
        assert silent.see(at, busy, 0) is silent.watch
    assert silent.fail(18.5) is silent.watch
    other = silent.see(19.0, 1, 0)
    assert other.address == ProcessOfApp(MASTER)

    scraped = silent.scrape()
    (up,), (source,) = scraped["uwsgi_up"], scraped["uwsgi_source_info"]
    assert (up[1], source[0]["source"]) == (0, "kernel")
    totals = {name for name in scraped if name.endswith("_seconds_total") and name.startswith("uwsgi_")}
    assert totals == {"uwsgi_exporter_observed_seconds_total", "uwsgi_exporter_sample_gap_seconds_total"}
    assert scraped.keys().isdisjoint({"uwsgi_worker_requests_total", "uwsgi_response_time_seconds_count"})
    assert "uwsgi_log_lines_total" in scraped
    ((_, observed),) = scraped["uwsgi_exporter_observed_seconds_total"]
    assert observed == 10

    document = build_server(silent.watch, silent.scripted.clock, 60.0, (60.0,))
    assert (document.address, document.source) == ("unix:///run/shop.stats", "kernel")
    assert document.silent_since == EPOCH + 10
    assert (document.window.seconds, document.flow.requests) == (3, None)
    assert [event.kind for event in document.events][:1] == ["server_down"]
    (line,) = [line.text for line in document.lines if line.code == "source"]
    assert line.startswith("the kernel: stats have not answered since ")

    silent.scripted.read(silent.server.read(20.0))
    silent.scripted.read(silent.server.read(21.0))
    assert silent.watch.shown is silent.watch
    assert silent.watch.silent is None
    assert [each.window.is_counted for each in silent.watch.figures(silent.watch.reading, (60.0,))] == [True]
    assert silent.watch.integrals.totals.observed_seconds == 11
    assert silent.scrape()["uwsgi_up"][0][1] == 1


@pytest.mark.parametrize(
    ("reason", "master"), [("refused", MASTER), ("not_found", MASTER), ("permission", MASTER), ("timeout", None)]
)
async def test_a_server_that_is_only_down(reason, master):
    """Nothing listens, we may not connect, or the master has ended: the kernel is not asked."""
    silent = Silent()
    silent.master = master
    assert silent.fail(16.0, reason) is silent.watch
    assert silent.asked == []


async def test_a_master_that_ends_while_it_is_silent_is_down_at_the_next_read():
    silent = Silent()
    silent.fail(16.0)
    for second in range(4):
        shown = silent.see(16.0 + second, second % 2, 0)
    assert shown is not silent.watch
    silent.master = None
    assert silent.fail(20.0) is silent.watch
    assert silent.watch.observe([60.0]).reading is None


async def test_a_server_whose_threads_all_hang_is_down():
    silent = Silent()
    silent.fail(16.0)
    assert all(silent.see(16.0 + second, 2, 2) is silent.watch for second in range(5))
    for second in range(3):
        shown = silent.see(21.0 + second, 2, second % 2)
    assert shown is not silent.watch
    assert silent.see(60.0, 2, 0) is not silent.watch
    assert silent.see(125.0, 2, 0) is silent.watch


async def test_short_requests_show_by_the_main_thread():
    """Between two samples it has woken, and is idle again; while threads are busy, that may be the same request."""
    silent = Silent()
    silent.fail(16.0)

    def wake(at: float, switches: int, busy: int) -> Watch:
        silent.server.busy(busy, busy)
        reading = silent.of_kernel(at)
        processes = {
            pid: replace(each, voluntary_context_switches=switches) for pid, each in reading.host.processes.items()
        }
        silent.scripted.now = at
        silent.watch.silent.watch._record(at, replace(reading, host=replace(reading.host, processes=processes)))
        return silent.watch.shown

    assert all(wake(16.0 + number, number, 1) is silent.watch for number in range(5))
    wake(21.0, 5, 0)
    assert wake(22.0, 6, 0) is not silent.watch


async def test_a_full_server_shows_by_later_requests():
    """All threads stay busy, with requests that begin later; a clock that is set by a second is none."""
    silent = Silent()
    silent.fail(16.0)
    begins = [0, 1, 2, 3, 10]
    for number, began in enumerate(begins):
        for slot in silent.server.slots:
            slot.request_starts = (EPOCH + began,)
        shown = silent.see(16.0 + number, 2, 2)
        assert (shown is not silent.watch) == (began == 10)


def alerts(watch: Watch) -> dict[str, Held]:
    return {held.named.code: held for held in watch.observe([60.0]).alerts}


@pytest.mark.integration
@needs_known_calls
async def test_a_master_that_is_stopped():
    """Of a real uWSGI: while its workers serve, a finding; as before once it goes on."""
    ended = threading.Event()
    with uwsgi("--processes", "2", "--threads", "2") as server:

        def load() -> None:
            while not ended.is_set():
                with suppress(OSError):
                    urllib.request.urlopen(f"http://127.0.0.1:{server.http}/?io_ms=200", timeout=20).read()

        client = threading.Thread(target=load)
        client.start()
        config = ServerConfig("shop", parse_address(f"unix://{server.stats}"), timeout=0.5)
        fleet = Fleet([config], Settings())
        (watch,) = fleet.watches()
        try:
            async with sampling(fleet):
                await until(lambda: watch.reading and watch.reading.host.master_pid)
                os.kill(server.pid, signal.SIGSTOP)
                await until(lambda: "master_silent" in alerts(watch))
                held = alerts(watch)["master_silent"]
                assert not held.is_page
                assert f"`kill -CONT {server.pid}`" in held.finding.change
                observation = watch.observe([60.0])
                assert (observation.is_silent, observation.reading.snapshot.source) == (True, "kernel")
                lines = [line.name for family in families([observation]) for line in family.samples]
                assert not [name for name in lines if "requests" in name]
                assert build_server(watch, fleet.clock, 60.0, (60.0,)).source == "kernel"
                os.kill(server.pid, signal.SIGCONT)
                await until(lambda: watch.state == "up")
                assert watch.observe([60.0]).reading.snapshot.source == "stats"
        finally:
            os.kill(server.pid, signal.SIGCONT)
            ended.set()
            client.join()


@pytest.mark.integration
async def test_a_head_that_uwsgi_cannot_parse():
    """HTTP at a socket of the uwsgi protocol empties stats, which are read again soon; not the application's socket."""
    with uwsgi("--processes", "2", "--buffer-size", "32768", "--socket-timeout", "60") as server:
        readers = [Reader("shop", parse_address(f"unix://{path}")) for path in (server.stats, server.socket)]
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(server.socket)
            client.sendall(b"GET / HTTP/1.1\r\nHost: shop\r\n\r\n")
            await until(lambda: server.document() == b"")
            errors = [await reader.read() for reader in readers]
            assert [error.reason for error in errors] == ["empty", "empty"]
            assert [getattr(error, "pid", None) for error in errors] == [server.pid, None]
        await until(lambda: server.document() != b"")
        assert isinstance(await readers[0].read(), Reading)


async def test_stats_that_are_empty_from_the_start():
    """A proven master is watched by the kernel. Of a server that answers at times, failures are counted."""
    silent = Silent()
    silent.watch.reading, silent.master = None, None
    silent.scripted.read(BlindError(MASTER), 30.0)
    assert silent.asked == [ProcessOfApp(MASTER)]
    silent.scripted.read(silent.server.read(31.0))
    silent.scripted.read(silent.server.read(32.0))
    (figures,) = silent.watch.figures(silent.watch.reading, (60.0,))
    assert (silent.watch.silent, figures.server.silence) == (None, None)
    assert figures.server.empty_seconds == pytest.approx(GAP_SECONDS)
