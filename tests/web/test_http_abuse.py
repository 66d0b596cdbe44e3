"""The real exporter with abusive clients: scrapes are answered, sampling continues, and memory stays bounded."""

from __future__ import annotations

import contextlib
import resource
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest
from msgspec import Struct

from tests.support.abusive_clients import HEAD, endless, many, slow
from tests.support.bad_servers import CountedServer, counted_server
from tests.support.exporter import Exporter, exporter, run_queue_seconds
from tests.support.real_uwsgi import wait_until
from uwsgi_headroom.web import bounds

pytestmark = pytest.mark.integration

GROWTH_BYTES = 24_000_000
"""256 connections with a head, a received piece (256 kB, for a few at a time) and a response each."""

SHORT = ("REQUEST_SECONDS=1", "STALLED_SECONDS=1", "LINGER_SECONDS=0.2")


_SCRAPE = """
import contextlib, os, socket, sys
from tests.support.exporter import run_queue_seconds
text, waited = b"", run_queue_seconds(os.getpid())
with socket.socket() as client, contextlib.suppress(ConnectionError):
    client.settimeout(10)
    try:
        client.connect(("127.0.0.1", int(sys.argv[1])))
        client.sendall(b"GET /metrics HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n")
    finally:
        waited = run_queue_seconds(os.getpid()) - waited
    text = b"".join(iter(lambda: client.recv(65536), b""))
print(waited, text.decode(), sep="\\n", end="")
"""
"""A scrape; prints how long it waited for a CPU until its request was sent (seconds), and the answer."""


class Target(Struct, frozen=True):
    """An exporter that is the only client of a stats server."""

    exporter: Exporter
    server: CountedServer

    def sampling_beside(self, control: Target) -> float:
        """Its samples as a share of the control's, for the time in which it could run. Abuse costs CPU: if others use
        the CPUs, the abused exporter waits for them, and one that needs little CPU does not."""
        began, waited = time.monotonic(), run_queue_seconds(self.exporter.pid)
        samples = self.server.sampling_beside(control.server)
        waited = run_queue_seconds(self.exporter.pid) - waited
        return samples / max(1 - waited / (time.monotonic() - began), 0.05)

    @property
    def scraped(self) -> str:
        """What a scrape returns whose client is a process of its own, as Prometheus is: the abusers keep this one's
        interpreter busy. In a crowd, a client loses its connection if it sends nothing for some milliseconds after the
        connection, so one that had to wait for a CPU just then tries again."""
        for _ in range(20):
            command = (sys.executable, "-c", _SCRAPE, str(self.exporter.port))
            run = subprocess.run(command, check=True, capture_output=True, text=True)
            waited, text = run.stdout.split("\n", 1)
            if text or float(waited) < 0.005:
                return text
        raise AssertionError("no client sent its request at once")

    @property
    def rss(self) -> int:
        return int(psutil.Process(self.exporter.pid).memory_info().rss)


@contextlib.contextmanager
def target(*settings: str) -> Iterator[Target]:
    """An exporter with these bounds that samples."""
    command = (sys.executable, "-m", "tests.support.stoppable_exporter", *settings, "--")
    with (
        counted_server() as server,
        exporter("--stats", f"shop={server.address}", "--samples-per-second", "10", command=command) as running,
    ):
        wait_until(lambda: 'uwsgi_up{server="shop"} 1.0' in running.metrics(), what="the first reading")
        yield Target(running, server)


@pytest.fixture(scope="module")
def control():
    """An exporter without abuse."""
    with target() as made:
        yield made


@pytest.fixture(scope="module")
def abused():
    """An exporter with short deadlines."""
    with target(*SHORT) as made:
        yield made


ABUSES = {
    "an endless request line": endless(b"GET /", b"a"),
    "an endless header name": endless(HEAD, b"a"),
    "an endless header value": endless(HEAD + b"X: ", b"a"),
    "endless headers": endless(HEAD, b"X: %b\r\n" % (b"a" * 900)),
    "endless empty lines": endless(b"", b"\r\n"),
    "an endless body": endless(HEAD + b"Content-Length: 1000000000000\r\n\r\n", b"a"),
    "an endless chunked body": endless(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n"),
    "pipelined requests": endless(b"", HEAD + b"\r\n"),
    "slow heads": many(HEAD, b"a"),
    "half heads": many(HEAD),
    "silence": many(b""),
    "answers that nobody takes": many(HEAD + b"\r\n", count=100),
    "streams that nobody takes": many(
        b"GET /api/v2/servers/shop/events HTTP/1.1\r\nHost: localhost\r\n\r\n", count=100
    ),
}


@pytest.fixture(scope="module", autouse=True)
def _descriptors():
    """Descriptors for a thousand clients."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("name", ABUSES)
def test_abuse(abused, control, name):
    """Other clients are answered, sampling continues at half its pace or more, and memory stays bounded."""
    before = abused.rss
    with ABUSES[name](abused.exporter.port):
        assert abused.sampling_beside(control) >= 0.5
        assert "uwsgi_up" in abused.scraped
        assert abused.rss - before < GROWTH_BYTES


def test_slow_readers_shut_out_no_scrape():
    """They take all places, and read on. Each scrape is answered in a Prometheus' time, with the bounds as they are."""
    with target() as made, slow((HEAD + b"\r\n") * 40)(made.exporter.port):
        wait_until(lambda: len(psutil.Process(made.exporter.pid).net_connections()) > 250, what="the readers")
        time.sleep(0.5)  # by then they are slow (bounds.SLOW_SECONDS)
        for _ in range(8):
            assert "uwsgi_up" in made.exporter.metrics(timeout=10)
            time.sleep(1)


@pytest.mark.parametrize("descriptors", [64, 256])
def test_few_descriptors(control, descriptors):
    """A thousand clients leave descriptors for sampling and the log: nothing fails, and the log does not fill."""
    with target(f"DESCRIPTORS={descriptors}") as made:
        with many(HEAD, b"a")(made.exporter.port):
            assert made.sampling_beside(control) >= 0.5
            assert "uwsgi_up" in made.scraped
        assert len(made.exporter.lines("few descriptors")) == 1
        assert not made.exporter.lines("out of system resource")
        assert made.exporter.log.stat().st_size < 4096


def test_bounds_are_those_of_the_module():
    """The allowed growth is the sum of the bounds, which is more than that of the heads alone."""
    assert bounds.MOST_CONNECTIONS * bounds.HEAD_BYTES < GROWTH_BYTES
