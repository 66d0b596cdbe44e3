"""The exporter never hurts the uWSGI it watches: a real uWSGI of 64 workers x 16 threads, and the real exporter.

The stats document of that size (284 kB) is larger than what a UNIX socket takes before its writer blocks, and the
writer is uWSGI's master, which reloads, respawns and ends workers in the same loop. So a reader that stops in the
middle of a read can block the master.

The tests assert outcomes, and only two times: a killed worker is back within 2 s of the exporter's end, and no other
reader waits longer than the exporter's deadline. Both get SLACK_SECONDS more for busy machines: uWSGI itself sleeps for
1 s whenever a worker was killed, and forks 64 processes in a reload.
"""

import contextlib
import json
import os
import random
import re
import resource
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest

from tests.support import bad_servers, real_uwsgi
from tests.support.exporter import Exporter, stoppable_exporter
from uwsgi_headroom.config.defaults import TIMEOUT_SECONDS

pytestmark = pytest.mark.integration

WORKERS, THREADS = 64, 16
RESPAWN_SECONDS = 2.0
SLACK_SECONDS = 4.0
OUTCOME_SECONDS = 40.0
"""Seconds: long enough for any outcome."""

_CHANCE = random.Random(9)  # the same times and victims in every run


@pytest.fixture(scope="module")
def shared():
    with tempfile.TemporaryDirectory(prefix="headroom-") as folder:
        size = ("--processes", str(WORKERS), "--threads", str(THREADS))
        with real_uwsgi.uwsgi(*size, "--pidfile", f"{folder}/pid") as running:
            running.directory.joinpath("pidfile").write_text(f"{folder}/pid")
            yield running


@pytest.fixture
def server(shared):
    """The shared uWSGI once all its workers accept; earlier signals would be lost."""
    real_uwsgi.wait_until(lambda: accepting(shared), OUTCOME_SECONDS, "all workers to accept")
    assert len(shared.document()) > 219_264, "too small a document to hold a master with"
    return shared


def workers(server):
    """The workers in uWSGI's document; none if the document is incomplete (a signal truncates it)."""
    with contextlib.suppress(OSError, ValueError):
        return json.loads(server.document())["workers"]
    return []


def accepting(server):
    now = workers(server)
    return bool(now) and all(worker["pid"] and worker["accepting"] for worker in now)


def order_reload(server):
    """Runs `uwsgi --reload`; returns a function that says whether the reload is complete: all workers are new and
    accept."""
    before = {worker["pid"] for worker in workers(server)}
    assert before
    pidfile = (server.directory / "pidfile").read_text()
    subprocess.run([real_uwsgi.uwsgi_binary(), "--reload", pidfile], check=True, capture_output=True)

    def is_done():
        now = workers(server)
        return bool(now) and all(
            worker["pid"] and worker["accepting"] and worker["pid"] not in before for worker in now
        )

    return is_done


def order_respawn(server, worker):
    """Kills a worker with SIGKILL; returns a function that says whether the worker was respawned."""
    logged = log_of(server, "")
    os.kill(worker["pid"], signal.SIGKILL)
    return lambda: bool(log_of(server, rf"Respawned uWSGI worker {worker['id']} \(", logged))


def log_of(server, pattern, skip=0):
    """The end position of a pattern in uWSGI's log after the first `skip` characters; 0 if it is not found. For an
    empty pattern, the current end of the log."""
    text = server.log.read_text()
    if not pattern:
        return len(text)
    match = re.compile(pattern).search(text, skip)
    return match.end() if match else 0


def is_held(server):
    """Whether a reader gets no byte for half a second."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(0.5)
        client.connect(server.stats)
        try:
            client.recv(1)
        except TimeoutError:
            return True
        return False


@contextlib.contextmanager
def in_background(count, work, pause=0.0):
    """Runs `work` repeatedly in `count` threads; an exception in a thread fails the test."""
    ended = threading.Event()
    failures = []

    def loop():
        try:
            while not ended.wait(pause):
                work()
        except BaseException as error:  # noqa: BLE001 - raised again in the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=loop) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join(OUTCOME_SECONDS)
    assert not failures, failures
    assert not any(thread.is_alive() for thread in threads)


# Situations: an action with or on the exporter, during which uWSGI must continue to work.


@contextlib.contextmanager
def it_samples(_running):
    """The exporter only samples."""
    yield


def twenty_scrape(running):
    """Twenty clients scrape at the same time, without pauses."""
    return in_background(20, lambda: running.metrics(timeout=OUTCOME_SECONDS))


@contextlib.contextmanager
def pages_stay_open(running):
    """Clients send requests and never read responses, and a hundred connections send nothing."""
    with contextlib.ExitStack() as stack:
        for index in range(120):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", running.port))
            if index < 20:
                client.send(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50)
        yield


def it_stops_and_goes_on(running):
    """The exporter gets SIGSTOP and SIGCONT at many times."""

    def stop_and_go_on():
        time.sleep(_CHANCE.uniform(0, 0.1))
        running.stop()
        time.sleep(_CHANCE.uniform(0, 0.1))
        running.resume()

    return in_background(1, stop_and_go_on)


@contextlib.contextmanager
def it_is_killed(running):
    """The exporter is killed at a random time."""
    time.sleep(_CHANCE.uniform(0, 0.3))
    running.kill()
    yield


@contextlib.contextmanager
def it_is_killed_in_a_read(running):
    """The exporter is killed while it has a connection that it has not read from."""
    running.die_in_next_read()
    yield


situations = pytest.mark.parametrize(
    "situation",
    [it_samples, twenty_scrape, pages_stay_open, it_stops_and_goes_on, it_is_killed, it_is_killed_in_a_read],
    ids=lambda situation: situation.__name__,
)


@situations
def test_uwsgi_reloads(server, situation):
    with stoppable_exporter(server.stats) as running, situation(running):
        is_done = order_reload(server)
        real_uwsgi.wait_until(is_done, OUTCOME_SECONDS, "uWSGI to reload")


@situations
def test_uwsgi_respawns_a_killed_worker(server, situation):
    """uWSGI respawns a killed worker, whatever the exporter does, and within 2 s if the exporter has ended."""
    with stoppable_exporter(server.stats) as running, situation(running):
        is_respawned = order_respawn(server, _CHANCE.choice(workers(server)))
        real_uwsgi.wait_until(is_respawned, RESPAWN_SECONDS + SLACK_SECONDS, "the worker's respawn")


@situations
def test_nobody_waits_longer_than_the_deadline(server, situation):
    """Another reader of the same stats server never waits long, while the exporter runs and after its end."""
    longest = 0.0
    with stoppable_exporter(server.stats) as running:
        with situation(running):
            end = time.monotonic() + 0.7
            while time.monotonic() < end:
                began = time.monotonic()
                assert server.document()
                longest = max(longest, time.monotonic() - began)
        if running.process.poll() is None:
            before = running.value("uwsgi_exporter_samples_total")
            real_uwsgi.wait_until(lambda: running.value("uwsgi_exporter_samples_total") > before + 2, what="sampling")
            assert running.value("uwsgi_up") == 1
    assert longest < TIMEOUT_SECONDS + SLACK_SECONDS


def test_one_connection_at_a_time(server):
    open_now = most = total = 0

    with contextlib.ExitStack() as stack:
        path = str(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headroom-"))) / "stats")
        listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        listener.bind(path)
        listener.listen(100)
        listener.settimeout(0.05)

        def accept():
            nonlocal open_now, most, total
            with contextlib.suppress(TimeoutError):
                connection, _ = listener.accept()
                open_now += 1
                most, total = max(most, open_now), total + 1
                threading.Thread(target=pass_on, args=(connection,)).start()

        def pass_on(connection):
            nonlocal open_now
            document = server.document()
            time.sleep(0.1)  # slow enough that a second connection would meet this one
            with contextlib.suppress(OSError), connection:  # the exporter may end while it reads
                # Hold back the last byte: a connection after it does not count as simultaneous.
                connection.sendall(document[:-1])
                open_now -= 1
                connection.sendall(document[-1:])

        stack.enter_context(in_background(1, accept))
        running = stack.enter_context(stoppable_exporter(path))
        with twenty_scrape(running):
            real_uwsgi.wait_until(lambda: total >= 10, what="ten reads")
    assert most == 1


@contextlib.contextmanager
def held(server):
    """An exporter that was stopped at the worst time and so blocks the master. A stopped process cannot prevent that;
    the tests below show what uWSGI does even then, and what to do about it."""
    if int(Path("/proc/sys/net/core/wmem_default").read_text()) > len(server.document()):
        pytest.skip("on this machine a UNIX socket takes the whole document: its writer cannot be held")
    with stoppable_exporter(server.stats) as running:
        running.stop_in_next_read()
        assert is_held(server), "the master should be in the middle of its write"
        yield running


def test_a_held_master_still_reloads(server):
    """A signal interrupts the write; uWSGI then gives up the write after its `socket-timeout` (4 s), and reloads."""
    with held(server) as running:
        logged = log_of(server, "")
        pidfile = (server.directory / "pidfile").read_text()
        subprocess.run([real_uwsgi.uwsgi_binary(), "--reload", pidfile], check=True, capture_output=True)
        last_worker = rf"spawned uWSGI worker {WORKERS} \("
        real_uwsgi.wait_until(lambda: log_of(server, last_worker, logged), OUTCOME_SECONDS, "uWSGI to reload")
        assert running.is_stopped()


def test_a_signal_frees_a_held_master(server):
    """SIGUSR1, on which uWSGI only logs its statistics, frees the master in the same way."""
    with held(server) as running:
        os.kill(server.pid, signal.SIGUSR1)
        assert server.document()
        assert running.is_stopped()


@pytest.mark.parametrize("let_go", [Exporter.kill, Exporter.resume], ids=lambda let_go: let_go.__name__)
def test_a_held_master_respawns_when_it_is_let_go(server, let_go):
    """A worker that was killed meanwhile is back within 2 s after the stopped exporter ends or continues."""
    worker = _CHANCE.choice(workers(server))
    with held(server) as running:
        is_respawned = order_respawn(server, worker)
        let_go(running)
        real_uwsgi.wait_until(is_respawned, RESPAWN_SECONDS + SLACK_SECONDS, "the worker's respawn")


def test_more_connections_than_descriptors(server):
    """Silent connections use only their part of the descriptors: no read fails for lack of one, and nothing is logged
    endlessly."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    with stoppable_exporter(server.stats) as running:
        resource.prlimit(running.pid, resource.RLIMIT_NOFILE, (1024, 1024))
        with contextlib.ExitStack() as stack:
            for _ in range(1500):
                client = stack.enter_context(socket.socket())
                client.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    client.connect(("127.0.0.1", running.port))
            time.sleep(1)
        real_uwsgi.wait_until(lambda: not is_refused(running), OUTCOME_SECONDS, "the exporter to answer again")
        failures = re.findall(r"^uwsgi_exporter_read_errors_total{.*} (.+)$", running.metrics(), re.MULTILINE)
        assert set(failures) == {"0.0"}
        assert running.log.stat().st_size < 4096


def is_refused(running):
    try:
        status, _ = running.get("/-/healthy", timeout=2)
    except OSError:
        return True
    return status != 200


def test_a_log_that_nobody_reads(server):
    """The exporter continues although standard error is a full pipe: if it waited there, it might wait during a
    read."""
    reader, writer = os.pipe()
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, reader)
        stack.callback(os.close, writer)
        other = stack.enter_context(contextlib.ExitStack())
        gone = other.enter_context(bad_servers.answers("unix", server.document()))
        running = stack.enter_context(stoppable_exporter(server.stats, f"gone={gone}", stderr=writer))
        fill(writer)
        other.close()  # causes a log line
        real_uwsgi.wait_until(lambda: 'uwsgi_up{server="gone"} 0.0' in running.metrics(), what="the exporter to notice")
        real_uwsgi.wait_until(order_reload(server), OUTCOME_SECONDS, "uWSGI to reload")


def fill(pipe):
    os.set_blocking(pipe, False)
    for size in (4096, 1):
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(pipe, b"x" * size)
    os.set_blocking(pipe, True)
