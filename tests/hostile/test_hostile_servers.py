"""The exporter reports the state of over two hundred hostile stats servers at once, and keeps serving."""

import contextlib
import re
import selectors
import socket
import tempfile
import threading
import time
from itertools import pairwise

import pytest

from tests.hostile.run import GOOD, failures, is_up, run_beside_all, was_read, was_up
from tests.support.bad_servers import counted_server
from tests.support.exporter import exporter, peak_resident_bytes
from tests.support.hostile.cases import CASES
from tests.support.real_uwsgi import wait_until
from uwsgi_headroom.stats.bounds import MOST
from uwsgi_headroom.watch.pace import LONGEST_INTERVAL
from uwsgi_headroom.watch.reader import LINES, SECONDS
from uwsgi_headroom.web.bounds import DESCRIPTORS_PER_SERVER, OWN_DESCRIPTORS

pytestmark = pytest.mark.integration

RESIDENT_BYTES = 200_000_000
"""45 MB for the exporter; documents of the default cap, 6 MB each and twice that while it is assembled, as many as are
read at once; rows of 1,024 workers; a scrape of 50,000 series as text. About 110 MB."""

REQUESTS = "uwsgi_worker_requests_total"

GROWING = (
    "uwsgi_exporter_read_errors_total",
    "uwsgi_exporter_samples_total",
    "uwsgi_exporter_observed_seconds_total",
    "uwsgi_exporter_sample_gap_seconds_total",
    "uwsgi_exporter_restarted_tasks_total",
    "uwsgi_server_reloads_total",
    "uwsgi_full_occupancy_seconds_total",
    "process_cpu_seconds_total",
)
"""Counters of the exporter itself. Counters of a server are whatever that server reports."""


@pytest.fixture(scope="module")
def run():
    return run_beside_all()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_state(run, case):
    """A server is read, or is down for the right reason; a server that is down has a series, and its verdict."""
    failed = failures(case.name, run.scrapes[-1])
    assert was_read(case.name, run.scrapes) == case.expected.read, failed
    assert failed <= set(case.expected.reasons)
    assert bool(failed) == bool(case.expected.reasons)
    if not case.expected.reasons:
        assert was_up(case.name, run.scrapes)
    elif not case.expected.read:
        own = {name for name, labels in run.scrapes[-1] if ("server", case.name) in labels}
        own = {name for name in own if not name.startswith(("uwsgi_exporter_", "uwsgi_verdict_"))}
        assert own == {"uwsgi_up", "uwsgi_events_total"}


def test_names_are_unique():
    assert len({case.name for case in CASES}) == len(CASES) > 200


def test_sampling_goes_on(run):
    """No hostile server takes the good one's turn: none is read more than twice as often, however busy the machine is,
    and between its reads is on average no more than the longest interval and as much again."""
    samples = {
        dict(labels)["server"]: value
        for (name, labels), value in run.scrapes[-1].items()
        if name == "uwsgi_exporter_samples_total"
    }
    assert samples[GOOD] >= 0.5 * max(samples.values())
    assert run.reads >= run.reading_seconds / (2 * LONGEST_INTERVAL)


def test_the_good_server_is_itself(run):
    for series in [*run.scrapes, run.openmetrics]:
        assert is_up(series, GOOD)
        assert not failures(GOOD, series)
        requests = [
            value for (name, labels), value in series.items() if name == REQUESTS and ("server", GOOD) in labels
        ]
        assert requests == [5, 5]


def test_servers_are_those_of_the_configuration(run):
    for series in [*run.scrapes, run.openmetrics]:
        servers = {value for _, labels in series for name, value in labels if name == "server"}
        assert servers == {GOOD, *(case.name for case in CASES)}


def test_counters_grow(run):
    """No counter of the exporter itself, and none of the good server, ever decreases."""
    scrapes = [*run.scrapes, run.openmetrics]
    for before, after in pairwise(scrapes):
        for (name, labels), value in before.items():
            if name in GROWING or (name.endswith(("_total", "_bucket", "_count")) and ("server", GOOD) in labels):
                assert after.get((name, labels), value) >= value, (name, labels)


def test_log_is_bounded(run):
    """A server causes five lines a minute at most, each one record; none reports a fault of the exporter."""
    minutes = 1 + run.seconds // SECONDS
    for line in run.log:
        assert re.match(r"ts=\S+ level=(info|warning) msg=", line), line
    for case in CASES:
        lines = [line for line in run.log if f'server="{case.name}"' in line or f"server={case.name} " in line]
        assert len(lines) <= LINES * minutes
    assert len(run.log) <= LINES * minutes * len(CASES) / 2


def test_memory_is_bounded(run):
    assert MOST["workers"] == 1024
    assert run.resident_bytes < RESIDENT_BYTES


def test_descriptors_are_bounded(run):
    """No connection stays open, and no file descriptor that a server has passed."""
    assert run.descriptors <= len(CASES) * DESCRIPTORS_PER_SERVER + OWN_DESCRIPTORS


def test_it_ends(run):
    """SIGTERM ends the exporter in the middle of its reads, with the status of that signal, and no process is left."""
    assert run.status == -15
    assert not run.left_over


SOCKETS = 40
DOCUMENT = b'{"version":"2.0.31","workers":[' + b" " * 5_900_000
BYTES_PER_SECOND = 1_210_000  # the whole document within the timeout of a read

SLOW_RESIDENT_BYTES = 100_000_000
"""45 MB for the exporter, 16 MB for documents in transfer and 2 MB for the first bytes of each, and a document of 6 MB
while it is decoded. 60 of these documents at once took 728 MB."""


@contextlib.contextmanager
def dripping(folder):
    """Serves the document slowly at SOCKETS sockets; the list has one entry for each connection."""
    ended, asked = threading.Event(), list[int]()
    with selectors.DefaultSelector() as selector, contextlib.ExitStack() as stack:
        for place in range(SOCKETS):
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(f"{folder}/{place}.stats")
            listener.listen()
            listener.setblocking(False)
            selector.register(listener, selectors.EVENT_READ)

        def drip():
            clients = {}
            while not ended.is_set():
                for key, _ in selector.select(0.05):
                    with contextlib.suppress(OSError):
                        client, _ = key.fileobj.accept()
                        client.setblocking(False)
                        clients[client] = 0, time.monotonic()
                        asked.append(1)
                for client, (sent, began) in list(clients.items()):
                    due = min(int((time.monotonic() - began) * BYTES_PER_SECOND), len(DOCUMENT))
                    try:
                        clients[client] = sent + client.send(DOCUMENT[sent:due]), began
                    except BlockingIOError:
                        continue
                    except OSError:
                        clients[client] = len(DOCUMENT), began
                    if clients[client][0] >= len(DOCUMENT):
                        client.close()
                        del clients[client]
            for client in clients:
                client.close()

        thread = threading.Thread(target=drip, name="drip")
        thread.start()
        try:
            yield asked
        finally:
            ended.set()
            thread.join(60)


def test_slow_documents_fill_no_memory():
    """Whatever all sockets send, the exporter keeps to its bounds, and the good server is read as always."""
    with tempfile.TemporaryDirectory(prefix="slow-") as folder, dripping(folder) as asked, counted_server() as good:
        with exporter("--stats", f"good={good.address}", "--stats", f"{folder}/*.stats") as running:
            wait_until(lambda: len(asked) >= 2 * SOCKETS, what="two reads of each slow server")
            scrape = running.metrics()
            assert peak_resident_bytes(running.pid) < SLOW_RESIDENT_BYTES
        assert 'uwsgi_up{server="good"} 1.0' in scrape
        assert 'uwsgi_exporter_read_errors_total{server="good"' not in scrape
