"""Reading one server: one read at a time, its outcomes, its log lines, and the routes in its documents."""

import asyncio
import contextlib
import gc
import json
import logging
import signal
import socket
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from msgspec import Struct, field

from tests.support import bad_servers, real_uwsgi
from tests.support.captured_documents import NAMES, document
from tests.support.real_uwsgi import wait_until
from tests.support.simulated_server import MovableClock
from uwsgi_headroom import stats
from uwsgi_headroom.clock import Clock
from uwsgi_headroom.errors import ReadError, SourceError, StatsError
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.routes import Templates
from uwsgi_headroom.source import File, Unix, parse_address
from uwsgi_headroom.stats import Snapshot
from uwsgi_headroom.watch.reader import LINES, WORKERS_PER_SERVER, Reader, RouteNamer, WorkerPlaces
from uwsgi_headroom.watch.watch import Watch

DOCUMENT = document("minified")


class Counted(Struct):
    """A server that counts its clients, and answers each one while `may_answer` is set."""

    address: str = ""
    clients: int = 0
    left: threading.Event = field(default_factory=threading.Event)
    may_answer: threading.Event = field(default_factory=threading.Event)
    answer: bytes = DOCUMENT


@contextlib.contextmanager
def counted(answering: bool = True) -> Iterator[Counted]:
    """A counting server until the block ends; without `answering`, it does not answer yet."""
    server = Counted()
    if answering:
        server.may_answer.set()

    def behave(connection: socket.socket, ended: threading.Event) -> None:
        server.clients += 1
        while not ended.is_set() and not server.may_answer.wait(0.01):
            if bad_servers.has_left(connection):
                server.left.set()
                return
        connection.settimeout(60)
        connection.sendall(server.answer)

    with bad_servers.serving("unix", behave) as address:
        server.address = address
        yield server


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "uwsgi_headroom.watch.reader"]


async def test_documents_between_the_kernels_facts(tmp_path):
    """They have the facts of the last whole reading. Where a worker is another process, the reading is whole."""
    hands = MovableClock()
    path = tmp_path / "stats.json"
    path.write_bytes(DOCUMENT)
    reader = Reader("shop", File(str(path)), clock=hands.clock)
    reader.facts_every = 0.14
    outcomes: list[Reading] = []
    for _ in range(9):
        outcomes.append(await reader.read())
        hands.move(0.05)
    other = json.loads(DOCUMENT)
    other["workers"][0]["pid"] += 1
    for body in (DOCUMENT, json.dumps(other).encode()):
        path.write_bytes(body)
        outcomes.append(await reader.read())
        hands.move(0.01)
    assert [outcome.partial for outcome in outcomes] == [False, True, True] * 3 + [False, False]
    assert outcomes[1].host is outcomes[2].host is outcomes[0].host


async def test_twenty_readers_are_one_connection():
    with counted(answering=False) as server:
        reader = Reader("shop", Unix(server.address))
        asking = [asyncio.create_task(reader.read()) for _ in range(20)]
        await asyncio.to_thread(wait_until, lambda: server.clients)
        asking += [asyncio.create_task(reader.read()) for _ in range(5)]
        await asyncio.sleep(0)
        server.may_answer.set()
        outcomes = await asyncio.gather(*asking)
        assert isinstance(outcomes[0], Reading)
        assert all(outcome is outcomes[0] for outcome in outcomes)
    assert server.clients == 1


def test_a_reading_says_when_it_was_taken():
    hands = MovableClock()
    with counted() as server:
        outcome = asyncio.run(Reader("shop", Unix(server.address), clock=hands.clock).read())
    assert (outcome.at, outcome.time, outcome.read_seconds) == (1000.0, 1.8e9 + 1000.0, 0.0)
    assert outcome.document_bytes == len(DOCUMENT)


async def test_the_same_document_is_decoded_once():
    with counted() as server:
        reader = Reader("shop", Unix(server.address))
        outcomes = []
        for answer in (DOCUMENT + b" ", DOCUMENT + b" ", DOCUMENT + b"\n"):
            server.answer = answer
            outcomes.append(await reader.read())
        first, same, other = (outcome.snapshot for outcome in outcomes if isinstance(outcome, Reading))
        assert same is first
        assert other is not first
        assert other == first
    assert server.clients == 3


def busy(path: str, **keys: object) -> bytes:
    variables = ["REQUEST_METHOD=POST", f"PATH_INFO={path}", ""]
    cores = [{"in_request": 1, "vars": variables, "req_info": {"request_start": 1_795_250_000}}, {"in_request": 0}]
    worker = {"id": 1, "pid": 8, "accepting": 1, "status": "busy", "respawn_count": 1, "cores": cores, **keys}
    return json.dumps({"version": "2.0.31", "pid": 7, "workers": [worker]}).encode()


@pytest.mark.parametrize(
    ("after", "seen", "documents", "looks"),
    [
        (busy("/", cores=[{"in_request": 0}]), False, [0, 0], 3),
        (busy("/"), False, [1, 1], 3),  # its request is lost
        (busy("/"), True, [1, 1], 2),  # its end was seen before the document
        (b"{", False, [1, "truncated", "truncated"], 1),
        (b"", False, ["not_found", "not_found"], 1),  # as after a reload, which it ended for
    ],
)
async def test_a_document_from_before_the_end_of_a_busy_worker_is_read_again(after, seen, documents, looks, tmp_path):
    """Once, and the worker is then judged by what is known."""
    path, outcomes, facts = tmp_path / "stats", list[Reading | ReadError](), list[HostFacts]()

    def end(*_arguments: object) -> HostFacts:
        path.write_bytes(after) if after else path.unlink(missing_ok=True)
        facts.append(HostFacts())
        return facts[-1]

    reader = Reader("shop", File(str(path)), on_outcome=lambda _at, outcome: outcomes.append(outcome))
    reader._host.read_facts = end  # a worker ends between the document and the facts
    path.write_bytes(busy("/"))
    reader._ended = seen
    await reader.read()
    await reader.read()
    said = [each.reason if isinstance(each, ReadError) else each.snapshot.workers[0].busy_threads for each in outcomes]
    assert (said, len(facts)) == (documents, looks)


@contextlib.contextmanager
def growing_by_less_than(megabytes: int) -> Iterator[None]:
    """What is allocated in the block is freed in it, without Python's garbage collection."""
    gc.disable()
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[0] < megabytes * 2**20
    finally:
        tracemalloc.stop()
        gc.enable()


async def test_no_document_is_kept():
    with counted() as server:
        server.answer = DOCUMENT + b" " * 2**20
        with growing_by_less_than(1):
            reader = Reader("shop", Unix(server.address))
            for _ in range(3):
                assert isinstance(await reader.read(), Reading)


@pytest.mark.parametrize(("size_cap", "reason"), [(2**19, "too_large"), (2**21, "not_json"), (2**22, "timeout")])
async def test_a_failed_read_holds_nothing(size_cap, reason):
    def behave(connection: socket.socket, ended: threading.Event) -> None:
        connection.sendall(b"?" * 2**20)
        if reason == "timeout":
            ended.wait(60)

    with bad_servers.serving("unix", behave) as address, growing_by_less_than(2):
        reader = Reader("shop", Unix(address), size_cap=size_cap, timeout=0.3 if reason == "timeout" else 30)
        for _ in range(5):
            outcome = await reader.read()
            assert outcome.reason == reason


async def test_a_waiter_that_is_gone_does_not_end_the_read():
    with counted(answering=False) as server:
        reader = Reader("shop", Unix(server.address))
        gone, stays = asyncio.create_task(reader.read()), asyncio.create_task(reader.read())
        await asyncio.sleep(0.05)
        gone.cancel()
        server.may_answer.set()
        assert isinstance(await stays, Reading)
    assert server.clients == 1


async def test_the_readers_own_timeout_is_a_failure():
    with counted(answering=False) as server:
        reader = Reader("shop", Unix(server.address), timeout=0.1)
        outcomes = await asyncio.gather(*[reader.read() for _ in range(5)])
        assert len(outcomes) == 5
        assert all(isinstance(outcome, ReadError) and outcome.reason == "timeout" for outcome in outcomes)
        assert reader.errors == {"timeout": 1}
        assert server.left.wait(60)
    assert server.clients == 1


async def test_a_change_is_logged_once(caplog):
    caplog.set_level(logging.INFO)
    hands = MovableClock()
    with counted() as server:
        reader = Reader("shop", Unix(server.address), clock=hands.clock)
        for answer in (DOCUMENT, b"what?", b"{}", DOCUMENT):
            server.answer = answer
            for _ in range(3):
                hands.move(1)
                await reader.read()
    logged = [message for message in messages(caplog) if message != "no process facts"]
    assert logged == ["reading", "cannot read", "cannot read", "reading"]
    reasons = [record.fields["reason"] for record in caplog.records if record.getMessage() == "cannot read"]
    assert reasons == ["not_json", "not_uwsgi"]


async def test_why_there_are_no_process_facts_is_logged_once(caplog):
    caplog.set_level(logging.INFO)
    hands = MovableClock()
    with counted() as server:
        reader = Reader("shop", Unix(server.address), clock=hands.clock)
        for _ in range(3):
            hands.move(1)
            outcome = await reader.read()
            assert outcome.host.off
    assert messages(caplog).count("no process facts") == 1


def test_nothing_of_a_document_is_logged(caplog):
    caplog.set_level(logging.DEBUG)
    with counted() as server:
        server.answer = b'{"workers":[{"cores":[{"vars":["HTTP_COOKIE=hunter2"],"requests":"hunter2"}]}]}'
        asyncio.run(Reader("shop", Unix(server.address)).read())
    assert messages(caplog) == ["cannot read"]
    assert "hunter2" not in caplog.text
    assert "hunter2" not in str([record.__dict__ for record in caplog.records])


@pytest.mark.parametrize("place", ["the clock", "what takes outcomes"])
async def test_a_fault_of_our_own_is_contained(caplog, place):
    words = "hunter2"

    def broken(*_arguments: object) -> float:
        raise ZeroDivisionError(words)

    with counted() as server:
        faulty = {"clock": Clock(epoch=broken)} if place == "the clock" else {"on_outcome": broken}
        reader = Reader("shop", Unix(server.address), **faulty)
        for _ in range(2):
            outcome = await reader.read()
            assert outcome.reason == "internal"
            assert "please report it" in str(outcome)
        assert reader.errors == {"internal": 2}
        assert reader.outcome is outcome
    (record,) = [record for record in caplog.records if record.exc_info]
    formatted = logging.Formatter().format(record)
    assert "in broken" in formatted
    assert "ZeroDivisionError" in formatted
    assert "hunter2" not in formatted


async def test_closing_closes_the_connection():
    with counted(answering=False) as server:
        reader = Reader("shop", Unix(server.address), timeout=30)
        waiting = asyncio.create_task(reader.read())
        await asyncio.to_thread(wait_until, lambda: server.clients)
        await reader.close()
        assert await asyncio.to_thread(server.left.wait, 5)
        outcome = await waiting
        assert isinstance(outcome, SourceError)
        assert "stopping" in str(outcome)


async def test_closing_what_does_nothing():
    reader = Reader("shop", parse_address("/nowhere"))
    await reader.close()
    outcome = await reader.read()
    await reader.close()
    await reader.close()
    assert isinstance(outcome, SourceError)
    assert "stopping" in str(outcome)
    assert reader.outcome is None


async def test_a_pause_lets_go_of_the_server():
    with counted(answering=False) as silent:
        reader = Reader("shop", Unix(silent.address), timeout=30)
        waiting = asyncio.create_task(reader.read())
        await asyncio.to_thread(wait_until, lambda: silent.clients)
        await reader.pause()
        assert await asyncio.to_thread(silent.left.wait, 5)
        assert not waiting.done()
        assert silent.clients == 1
        reader.resume()
        await asyncio.to_thread(wait_until, lambda: silent.clients == 2)
        await reader.pause()
        await reader.close()
        assert isinstance(await waiting, SourceError)


def read_in_turn(path: Path, bodies: list[str], reads: int, seconds: float) -> None:
    hands = MovableClock()
    reader = Reader("shop", File(str(path)), clock=hands.clock)

    async def read() -> None:
        for number in range(reads):
            path.write_text(bodies[number % len(bodies)])  # noqa: ASYNC240  # nothing else runs
            await reader.read()
            hands.move(seconds)

    asyncio.run(read())


@pytest.mark.parametrize(
    "bodies",
    [
        pytest.param([json.dumps({"pid": pid, "workers": []}) for pid in (2**22 + 5, 2**22 + 6)], id="pids"),
        pytest.param(["x", "{}"], id="two failures"),
        pytest.param(["x", '{"workers":[]}'], id="up and down"),
    ],
)
def test_what_changes_with_every_read(bodies, tmp_path, caplog):
    """Two alternating states, five times a second for a minute, log a handful of lines."""
    caplog.set_level(logging.INFO)
    read_in_turn(tmp_path / "stats.json", bodies, reads=299, seconds=0.2)
    assert 1 <= len(caplog.records) <= LINES


def test_what_was_left_out_is_counted(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    read_in_turn(tmp_path / "stats.json", ["x", "{}"], reads=20, seconds=5.0)
    left_out = [record.fields.get("left_out") for record in caplog.records]
    assert left_out[:LINES] == [None] * LINES
    assert left_out[LINES] == 60 / 5 - LINES
    assert len(left_out) < 20


def test_slow_changes_are_all_written(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    read_in_turn(tmp_path / "stats.json", ["x", "{}"], reads=40, seconds=30.0)
    assert len(caplog.records) == 40


class Watched:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.watch = Watch("shop", File(str(path)), routes=RouteNamer(Templates()))

    def read(self, body: bytes) -> dict[int, str] | None:
        self.path.write_bytes(body)
        reading = asyncio.run(self.watch.reader.read())
        return reading.routes.of_worker(1) if reading.routes else None


@pytest.fixture
def watched(tmp_path):
    return Watched(tmp_path / "document")


def test_an_unchanged_document_counts_as_a_sample(watched):
    """It is not decoded again, but a request that is stuck gets its name."""
    body = busy("/export")
    assert [watched.read(body) for _ in range(3)] == [{0: "other"}, {0: "other"}, {0: "POST /export"}]


def test_routes_survive_a_reload(watched):
    for running_time in range(4):
        watched.read(busy("/export", running_time=running_time, last_spawn=5))
    totals = watched.watch.integrals.totals
    before = totals.routes.by_route()
    assert before["POST /export"] > 0
    assert watched.read(busy("/export", last_spawn=9)) == {0: "POST /export"}
    assert totals.reloads == 1
    assert totals.routes.by_route() == before, "the time of the reload is a gap"
    watched.read(busy("/export", last_spawn=9))
    assert totals.routes.by_route()["POST /export"] > before["POST /export"]


def test_a_request_without_variables_is_other(watched):
    """uWSGI before 1.9 had none, and they may be missing when a request ends."""
    for core in ({"in_request": 1}, {"in_request": 1, "vars": [], "req_info": {}}):
        assert [watched.read(busy("/", cores=[core])) for _ in range(4)][-1] == {0: "other"}


def test_stats_without_cores_have_no_routes(watched):
    for _ in range(3):
        assert watched.read(document("no_cores")) is None
    assert watched.watch.integrals.totals.routes is None


@pytest.mark.parametrize("name", NAMES)
def test_every_captured_document_can_be_read(name):
    body = document(name)
    on, off = stats.decode(body, Templates()), stats.decode(body)
    routes = RouteNamer(Templates()).find_routes(on, 0.0)
    if not isinstance(on, Snapshot) or not isinstance(off, Snapshot):
        assert (on, routes) == (off, None)
        return
    for with_routes, without in zip(on.workers, off.workers, strict=True):
        assert (with_routes.serving, with_routes.requests) == (without.serving, without.requests)
        if routes:
            assert routes.of_worker(with_routes.worker_id).keys() == with_routes.serving.keys()


SILENT_AFTER_TWO = """
import os, socket, sys
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
body = sys.stdin.buffer.read().replace(b"MASTER", b"%d" % os.getpid())
for _ in range(2):  # for one reading: a busy worker is gone
    with listener.accept()[0] as connection:
        connection.sendall(body)
kept = [listener.accept() for _ in range(100)]
"""


def test_a_master_that_is_stopped_after_it_was_read():
    """Over TCP the last reading tells which process serves the stats, until that process has ended."""
    body = json.dumps({**json.loads(DOCUMENT), "pid": -1}).replace("-1", "MASTER", 1).encode()
    command = [sys.executable, "-c", SILENT_AFTER_TWO]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(body)
        process.stdin.close()
        reader = Reader("shop", parse_address(f"tcp://127.0.0.1:{int(process.stdout.readline())}"), timeout=0.3)

        async def read_twice() -> tuple[Reading | ReadError, Reading | ReadError]:
            first = await reader.read()
            process.send_signal(signal.SIGSTOP)
            wait_until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED, what="it to stop")
            return first, await reader.read()

        try:
            first, second = asyncio.run(read_twice())
            assert first.host.master_pid == process.pid
            assert f"process {process.pid}, which serves the stats, is stopped" in str(second)
        finally:
            process.kill()
    assert reader.find_master() is None


@pytest.mark.integration
def test_no_file_of_a_process_stays_open_once_nobody_listens():
    def list_open() -> list[str]:
        return [file.path for file in psutil.Process().open_files() if file.path.endswith("/stat")]

    async def read_twice(path: Path) -> None:
        reader = Reader("shop", Unix(str(path)))
        assert isinstance(await reader.read(), Reading)
        assert list_open()
        path.unlink()  # noqa: ASYNC240 - at once
        assert (await reader.read()).reason == "not_found"

    before = list_open()
    with real_uwsgi.uwsgi() as server:
        asyncio.run(read_twice(Path(server.stats)))
        assert list_open() == before


def admitted(places: WorkerPlaces, numbers: dict[str, int]) -> set[str]:
    for _ in range(2):
        found = set(numbers)
        for server, number in numbers.items():
            try:
                places.take(server, number)
            except StatsError:
                found.discard(server)
    return found


USUAL = {str(number): WORKERS_PER_SERVER for number in range(10)}
LARGE = {f"large{number}": 60 for number in range(5)}


@pytest.mark.parametrize(
    ("numbers", "found"),
    [
        # In whatever order they are read; of equal ones, the first has a place.
        ({**LARGE, "small": 4, "middle": 30}, {"large0", "small", "middle"}),
        # As many servers as may be watched, with the usual number of workers.
        ({"large": 1000, **USUAL}, USUAL.keys()),
    ],
)
def test_the_smallest_servers_have_places_first(numbers, found):
    assert admitted(WorkerPlaces(10), numbers) == found


def test_servers_that_are_gone_leave_their_places():
    places = WorkerPlaces(10)
    assert admitted(places, {"first": 80, "second": 80}) == {"first"}
    places.keep({"second"})
    assert admitted(places, {"second": 80}) == {"second"}


def test_the_reader_refuses_the_server(tmp_path):
    """A server without places is down, for a reason that says what to do; a named one needs no places."""
    path = tmp_path / "large.json"
    path.write_text(json.dumps({"version": "2.0.31", "pid": 7, "workers": [{"pid": 8}] * 50}))
    refused = asyncio.run(Reader("large", File(str(path)), places=WorkerPlaces(1)).read())
    assert refused.reason == "too_large"
    assert "has 50: name the server in the configuration, or raise `max_servers`" in str(refused)
    assert isinstance(asyncio.run(Reader("large", File(str(path))).read()), Reading)
