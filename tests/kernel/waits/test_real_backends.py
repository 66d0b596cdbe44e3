"""How long the threads of a real uWSGI wait for each of two servers, against the application's own record."""

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.kernel.waits.test_sampler import needs_known_calls, of_x86_64
from tests.support.real_uwsgi import Uwsgi, uwsgi, wait_until
from tools.scenarios.rows.waits import APP
from tools.scenarios.servers import standing_in
from uwsgi_headroom import stats
from uwsgi_headroom.kernel.host import Host
from uwsgi_headroom.kernel.waits.sampler import WaitSetting
from uwsgi_headroom.record import Destination, Waits
from uwsgi_headroom.source import Answer

pytestmark = [pytest.mark.integration, needs_known_calls]

SECONDS = 12.0


_ASK = """
import sys, threading
from socket import create_connection

def ask(port, path):
    while True:
        try:
            with create_connection(("127.0.0.1", port), 20) as client:
                client.sendall(f"GET {path} HTTP/1.0\\r\\n\\r\\n".encode())
                while client.recv(4096):
                    pass
        except OSError:
            pass

for path in sys.argv[2:]:
    threading.Thread(target=ask, args=(int(sys.argv[1]), path), daemon=True).start()
sys.stdin.read()
"""


@contextmanager
def asking(server: Uwsgi, paths: tuple[str, ...]) -> Iterator[None]:
    """Clients that ask for another path each time until the block ends, in a process beside this one, which samples."""
    command = [sys.executable, "-c", _ASK, str(server.http), *paths]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as clients:
        try:
            yield
        finally:
            clients.kill()


def sample(host: Host, server: Uwsgi) -> Waits:
    snapshot = stats.decode(server.document())
    waits = host.read_facts(snapshot, Answer(b"", peer_pid=server.pid)).waits
    assert waits.off is None
    return waits


def record(server: Uwsgi) -> tuple[float, ...]:
    """The application's own record: for how many seconds it asked each of two servers, and how often."""
    totals = [0.0] * 4
    for file in server.directory.glob("asked-*"):
        for number, (seconds, times) in enumerate(json.loads(file.read_text())):
            totals[number] += seconds
            totals[2 + number] += times
    return tuple(totals)


def measure(host: Host, server: Uwsgi) -> tuple[Counter[Destination], tuple[float, ...]]:
    """Mean threads by destination, each sample by its time, and what the record grew by in each second."""
    last = sample(host, server).destinations
    found: Counter[Destination] = Counter()
    before, begin = record(server), time.monotonic()
    at = begin
    while at - begin < SECONDS:
        time.sleep(0.05)
        now, then = sample(host, server).destinations, at
        at = time.monotonic()
        for destination in {*last, *now}:
            threads = (last.get(destination, 0.0) + now.get(destination, 0.0)) / 2
            found[destination] += threads * (at - then)
        last = now
    length = time.monotonic() - begin
    truth = tuple((after - then) / length for then, after in zip(before, record(server), strict=True))
    return Counter({each: seconds / length for each, seconds in found.items()}), truth


HOLDS = (0.24, 0.12)
"""Seconds after which each of the two servers answers."""


@pytest.mark.parametrize(
    ("timeout", "reads"),
    [
        ("&timeout=30", True),
        pytest.param("", True, marks=pytest.mark.slow),
        pytest.param("", False, marks=pytest.mark.slow),
        pytest.param("&timeout=30", False, marks=of_x86_64),  # elsewhere, the timeout of ppoll(2) is in memory, too
    ],
)
def test_two_backends_at_once(timeout, reads):
    """Each has the time in which it holds its answer back. On a busy machine, the record also has waits for a CPU."""
    with ExitStack() as stack:
        addresses = [stack.enter_context(standing_in(f"answer:{hold}")) for hold in HOLDS]
        server = stack.enter_context(
            uwsgi("--processes", "2", "--threads", "4", "--env", f"OUTSIDE={','.join(addresses)}", app=APP)
        )
        paths = tuple(f"/ask?{query}{timeout}" for query in ("n=0", "n=0", "n=1", "n=1", "n=1", "n=0&n=1"))
        stack.enter_context(asking(server, paths))
        time.sleep(1)
        found, truth = measure(Host(waits=WaitSetting(read_pollfds=reads)), server)
    of = {number: found[Destination("backend", (address,))] for number, address in enumerate(addresses)}
    unknown = sum(found.values()) - sum(of.values())
    assert unknown < 0.1 * sum(truth[:2])
    for number, hold in enumerate(HOLDS):
        assert 0.9 * hold * truth[2 + number] <= of[number] <= 1.1 * truth[number]


def test_threads_hang_in_the_connection_of_a_backend_that_does_not_answer():
    with ExitStack() as stack:
        address = stack.enter_context(standing_in("hole"))
        server = stack.enter_context(
            uwsgi("--processes", "2", "--threads", "4", "--env", f"OUTSIDE={address}", app=APP)
        )
        stack.enter_context(asking(server, ("/new?n=0&timeout=3",) * 3 + ("/new?n=0&timeout=1",) * 3))
        host = Host(waits=WaitSetting())
        silent = Destination("backend", (address,), connecting=True)
        wait_until(lambda: sample(host, server).destinations.get(silent, 0.0) > 4, what="threads that hang")
