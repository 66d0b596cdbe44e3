"""Reads of well-behaved and misbehaving stats servers: the bytes or the error, and no connection left open."""

import asyncio
import contextlib
import errno
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.support import bad_servers
from tests.support.captured_documents import document
from tests.support.other_namespaces import over_ipv6
from tests.support.real_uwsgi import bare, free_port, uwsgi, wait_until
from uwsgi_headroom import source
from uwsgi_headroom.config.defaults import SIZE_CAP
from uwsgi_headroom.errors import SourceError
from uwsgi_headroom.source import Unix, parse_address
from uwsgi_headroom.source.read import explain_stopped, waits_to_write_a_pipe

DOCUMENT = document("threads_4x8_busy")
PATIENCE = 0.3

both = pytest.mark.parametrize("where", ["unix", "tcp"])


@pytest.fixture(autouse=True)
def _nothing_stays_open():
    before = len(os.listdir("/proc/self/fd"))
    yield
    wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before, what="descriptors to be closed")


def read(address, timeout=5.0, size_cap=SIZE_CAP, **known):
    where = parse_address(address) if isinstance(address, str) else address
    return asyncio.run(source.read_document(where, timeout=timeout, size_cap=size_cap, **known))


def failure(address, timeout=5.0, size_cap=SIZE_CAP, **known):
    with pytest.raises(SourceError) as caught:
        read(address, timeout, size_cap, **known)
    return caught.value


def reason(address, timeout=5.0, size_cap=SIZE_CAP):
    return failure(address, timeout, size_cap).reason


@both
@pytest.mark.parametrize("body", [DOCUMENT, b"x" * 6_000_000], ids=["usual", "larger than any socket buffer"])
def test_a_document_is_read_completely(where, body):
    with bad_servers.answers(where, body) as address:
        assert read(address).body == body


def test_the_process_behind_a_unix_socket_is_known():
    with bad_servers.answers("unix", DOCUMENT) as address:
        answer = read(address)
        assert (answer.peer_pid, answer.peer) == (os.getpid(), None)
    with bad_servers.answers("tcp", DOCUMENT) as address:
        answer = read(address)
        host, _, port = address.partition(":")
        assert (answer.peer_pid, answer.peer) == (None, (host, int(port)))


@pytest.mark.parametrize(
    ("family", "bound", "address"),
    [
        pytest.param(socket.AF_INET6, ("::1", 0), "tcp://[::1]:{}", marks=over_ipv6, id="IPv6"),
        pytest.param(socket.AF_INET, ("127.0.0.1", 0), "localhost:{}", id="the second address of a name"),
        pytest.param(socket.AF_UNIX, f"\0headroom-{os.getpid()}", f"unix:@headroom-{os.getpid()}", id="abstract"),
        pytest.param(
            socket.AF_UNIX, f"\0headroom-{os.getpid()}-\0", f"@headroom-{os.getpid()}-", id="as uWSGI names it"
        ),
        pytest.param(socket.AF_UNIX, "stats", "./stats", id="a relative path"),
    ],
)
def test_each_kind_of_address(family, bound, address, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with _listening(family, bound) as listener:
        answer = read(address.format(listener.getsockname()[1]))
    assert answer.body == DOCUMENT
    assert family != socket.AF_INET6 or answer.peer[0] == "::1"


def test_a_path_that_is_not_utf8(tmp_path):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.stats")
    with _listening(socket.AF_UNIX, path):
        assert read(Unix(path)).body == DOCUMENT


def test_nothing_is_sent_to_a_raw_server():
    for where in ("unix", "tcp"):
        heard = []

        def behave(connection, _ended, heard=heard):
            connection.sendall(DOCUMENT)
            connection.shutdown(socket.SHUT_WR)
            heard.append(b"".join(iter(lambda: connection.recv(100), b"")))

        with bad_servers.serving(where, behave) as address:
            read(address)
            wait_until(lambda heard=heard: heard)
        assert heard == [b""]


@contextlib.contextmanager
def _listening(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.bind(address)
        listener.listen()
        listener.settimeout(60)

        def answer():
            with contextlib.suppress(TimeoutError), listener.accept()[0] as connection:
                connection.sendall(DOCUMENT)

        thread = threading.Thread(target=answer)
        thread.start()
        yield listener
        thread.join()


@both
def test_a_raw_stream_has_no_length(where):
    """What came before its end goes to the decoder, which refuses an empty body and finds half a document truncated."""
    with bad_servers.answers_nothing(where) as address:
        assert read(address).body == b""
    with bad_servers.closes_half_way(where, DOCUMENT) as address:
        assert read(address).body == DOCUMENT[: len(DOCUMENT) // 2]


@both
def test_a_silent_server_times_out(where):
    with bad_servers.accepts_and_never_writes(where) as address:
        error = failure(address, PATIENCE)
    assert error.reason == "timeout"
    assert "0.3 s" in str(error)


STOPPED = """
import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
while True:
    os.write(1, bytes(65536))
"""


SILENT = """
import socket, sys
where, path = sys.argv[1:]
listener = socket.socket(socket.AF_UNIX if where == "unix" else socket.AF_INET)
listener.bind(path if where == "unix" else ("127.0.0.1", 0))
listener.listen()
print(0 if where == "unix" else listener.getsockname()[1], flush=True)
kept = [listener.accept() for _ in range(100)]
"""


def test_a_server_that_cannot_write_its_log(tmp_path):
    """The error for a server that waits for a full pipe names its pid and the pipe."""
    path = tmp_path / "stats"
    with subprocess.Popen([sys.executable, "-c", STOPPED, str(path)], stdout=subprocess.PIPE) as process:
        try:
            wait_until(lambda: path.exists() and waits_to_write_a_pipe(process.pid), what="the pipe to fill")
            error = failure(str(path), PATIENCE)
        finally:
            process.kill()
    assert error.reason == "timeout"
    assert f"master ({process.pid}) waits to write to a full pipe" in str(error)
    assert not waits_to_write_a_pipe(process.pid)


@both
def test_a_server_that_is_stopped(tmp_path, where):
    """The error says so, and how to resume it; the caller has to know the process of a TCP port."""
    path = tmp_path / "stats"
    with subprocess.Popen([sys.executable, "-c", SILENT, where, str(path)], stdout=subprocess.PIPE) as process:
        port = int(process.stdout.readline())
        address = parse_address(str(path) if where == "unix" else f"tcp://127.0.0.1:{port}")
        known = None if where == "unix" else process.pid
        try:
            running = failure(address, PATIENCE, find_master=lambda: known)
            process.send_signal(signal.SIGSTOP)
            wait_until(lambda: explain_stopped(process.pid), what="the process to stop")
            stopped = failure(address, PATIENCE, find_master=lambda: known, is_uwsgi=True)
            not_proven = failure(address, PATIENCE, is_uwsgi=True)
        finally:
            process.kill()
    assert str(running).endswith(
        "uWSGI's master is busy (reloading, ending a worker, or blocked by another reader of "
        "its stats), or this is not a stats server"
    )
    assert str(stopped) == (
        f"no complete answer within 0.3 s: process {process.pid}, which serves the stats, is stopped (SIGSTOP, or "
        f"Ctrl-Z in a shell): resume it with `kill -CONT {process.pid}`"
    )
    if where == "tcp":
        assert str(not_proven).endswith("blocked by another reader of its stats)")


@pytest.mark.parametrize(
    ("state", "tracer", "cgroup", "file", "text", "words"),
    [
        ("T", 0, "0::/a", "a/cgroup.events", "frozen 0", "kill -CONT 7"),
        ("t", 9, "0::/a", "a/cgroup.events", "frozen 0", "stopped by a debugger (process 9)"),
        ("S", 0, "0::/a", "a/cgroup.events", "populated 1\nfrozen 1", "frozen by its cgroup"),
        ("S", 0, "0::/a", "unified/a/cgroup.events", "frozen 1", "frozen by its cgroup"),
        ("D", 0, "4:freezer:/b\n0::/", "freezer/b/freezer.state", "FROZEN", "frozen by its cgroup"),
        ("D", 0, "4:freezer:/b\n0::/", "freezer/b/freezer.state", "THAWED", ""),
        ("S", 0, "0::/a", "a/cgroup.events", "frozen 0", ""),
        ("S", 0, "0::/../a", "other", "", ""),
    ],
)
def test_what_stopped_a_process(tmp_path, state, tracer, cgroup, file, text, words):
    """A signal, a debugger and a freezer each have their own remedy."""
    proc, group = tmp_path / "proc/7", tmp_path / "sys/fs/cgroup" / file
    proc.mkdir(parents=True)
    group.parent.mkdir(parents=True)
    (proc / "status").write_text(f"Name:\tuwsgi\nState:\t{state} (x)\nTracerPid:\t{tracer}\n")
    (proc / "cgroup").write_text(cgroup)
    group.write_text(text)
    said = explain_stopped(7, root=tmp_path)
    assert words in said
    assert bool(said) == bool(words)
    assert explain_stopped(8, root=tmp_path) == ""


@both
def test_a_dripping_server_times_out(where):
    with bad_servers.drips(where, DOCUMENT, interval=0.05) as address:
        assert reason(address, PATIENCE) == "timeout"


@both
def test_an_endless_document_stops_at_the_cap(where):
    with bad_servers.endless(where) as address:
        error = failure(address, size_cap=100_000)
    assert error.reason == "too_large"
    assert "size_cap" in str(error)


@both
def test_the_cap_is_met_exactly(where):
    with bad_servers.answers(where, DOCUMENT) as address:
        assert read(address, size_cap=len(DOCUMENT)).body == DOCUMENT
        assert reason(address, size_cap=len(DOCUMENT) - 1) == "too_large"


def test_a_reset_after_a_complete_document_is_not_an_error():
    """uWSGI resets a client whose bytes it did not read, but after the complete document: the read succeeds."""
    with bad_servers.resets("tcp", DOCUMENT) as address:
        assert read(address).body == DOCUMENT

    # It is one before the document.
    def behave(connection, _ended):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    with bad_servers.serving("tcp", behave) as address:
        assert reason(address) == "truncated"


def test_a_reset_while_the_connection_is_made(monkeypatch):
    """A reset between connect() and getpeername() makes the answer `truncated`, too."""

    def fail(_):
        raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))

    with bad_servers.answers("tcp", DOCUMENT) as address:
        monkeypatch.setattr(socket.socket, "getpeername", fail)
        assert {reason(address), reason(f"http://{address}")} == {"truncated"}


@both
def test_a_listener_that_never_accepts(where):
    """A full listen queue is a timeout: the read does not hang, and reads nothing from an unconnected socket."""
    with bad_servers.never_accepts(where) as address:
        assert reason(address, PATIENCE) == "timeout"


async def test_a_full_unix_backlog_is_waited_for(tmp_path):
    path = str(tmp_path / "stats")
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(path)
        listener.listen(0)
        full = False
        while not full:
            client = stack.enter_context(socket.socket(socket.AF_UNIX))
            client.setblocking(False)
            full = client.connect_ex(path) != 0
        begun, served = threading.Event(), []

        def serve():
            begun.wait(60)
            while not served:
                with listener.accept()[0] as connection, contextlib.suppress(BrokenPipeError):
                    connection.sendall(DOCUMENT)

        thread = threading.Thread(target=serve)
        thread.start()
        reading = asyncio.create_task(source.read_document(Unix(path), timeout=5, size_cap=SIZE_CAP))
        await asyncio.sleep(0.05)  # the reader has found the queue full, or will: the test holds in both cases
        assert not reading.done()
        begun.set()
        served.append((await reading).body)
        with socket.socket(socket.AF_UNIX) as last:  # ends the server's accept()
            last.connect(path)
        thread.join(60)
    assert served == [DOCUMENT]


def _silent(_connection, _ended):
    """Sends nothing."""


def _dripping(connection, ended):
    with contextlib.suppress(OSError):
        while not ended.wait(0.02):
            connection.send(b"{")


def _flooding(connection, ended):
    with contextlib.suppress(OSError):
        while not ended.is_set():
            connection.send(b"{" * 65536)


@pytest.mark.parametrize(
    ("where", "scheme"), [("unix", "unix://"), ("tcp", "tcp://"), ("tcp", "http://"), ("tcp", "https://")]
)
@pytest.mark.parametrize("behave", [_silent, _dripping, _flooding])
def test_the_server_sees_its_client_leave(where, scheme, behave):
    """However a read ends, the connection is closed immediately, so that the server is not held up."""
    left = threading.Event()

    def watched(connection, ended):
        behave(connection, ended)
        while not ended.wait(0.02):
            if bad_servers.has_left(connection):
                left.set()
                return

    with bad_servers.serving(where, watched) as address:
        failed = reason(f"{scheme}{address}", PATIENCE, size_cap=1_000_000)
        assert left.wait(3), "the connection was not closed"
    expected = {_silent: {"timeout"}, _dripping: {"timeout"}, _flooding: {"too_large"}}[behave]
    assert failed in (expected if scheme != "https://" else {"timeout", "unreachable", "truncated"})


@pytest.mark.parametrize("framing", ["until_close", "length"])
@pytest.mark.parametrize("size", [100, 200_000])
def test_http_in_each_framing(framing, size):
    """Byte for byte, with and without a Content-Length, also far beyond the limit of the head."""
    document = bytes(number % 251 for number in range(size))
    with bad_servers.answers_http("tcp", document, framing=framing) as address:
        answer = read(f"http://{address}/stats")
    assert answer.body == document
    assert answer.peer == ("127.0.0.1", int(address.rpartition(":")[2]))


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n" * 3 + b"HTTP/1.1 200 OK\r\n\r\n" + DOCUMENT,
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(DOCUMENT) + DOCUMENT + b"more",
    ],
    ids=["a proxy's answers before it", "bytes after its length"],
)
def test_what_is_around_a_document_is_skipped(answer):
    with _after_request(answer) as address:
        assert read(f"http://{address}").body == DOCUMENT


@pytest.mark.parametrize("status", ["404 Not Found", "302 Found", "500 Oops", "204 No Content", "206 Partial Content"])
def test_http_of_another_status(status):
    """Any status but 200 is an error; redirects are not followed."""
    location = ("Location: http://127.0.0.1:1/",)
    with bad_servers.answers_http("tcp", b"", status, "length", location) as address:
        error = failure(f"http://{address}")
    assert error.reason == "http"
    assert status[:3] in str(error)


def test_http_cut_short():
    with bad_servers.answers_http("tcp", DOCUMENT, framing="length") as address, socket.socket() as client:
        host, _, port = address.partition(":")
        client.connect((host, int(port)))
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        whole = b"".join(iter(lambda: client.recv(65536), b""))
    with _after_request(whole[:-100]) as address:
        assert reason(f"http://{address}") == "truncated"


SECRET = b"hunter2-in-a-cookie"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"", "empty"),
        (b"\x15\x03\x01\x00\x02\x02\x16", "http"),
        (b"SSH-2.0-" + SECRET + b"\r\n", "http"),
        (SECRET, "http"),
        (b"HTTP/1.0 200 OK\r\n" + SECRET + b"\r\n\r\n{}", "http"),
        (b"HTTP/1.0 " + SECRET + b"\r\n\r\n{}", "http"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: " + SECRET + b"\r\n\r\n{}", "http"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + SECRET + b"\r\n", "http"),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n" + DOCUMENT, "http"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "http"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 4 + b"HTTP/1.1 200 OK\r\n\r\n" + DOCUMENT, "http"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 200_000, "http"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * 1_000_000, "http"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * 1_000_000, "http"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 20 + b"\r\n\r\n{}", "truncated"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n{}", "http"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 50_000, "http"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * 10_000 + b"\r\n" + DOCUMENT, "http"),
        (b"HTTP/1.1 200 OK\r\nX: " + SECRET, "http"),
        (b"\n" + DOCUMENT, "http"),
        (b"[" + SECRET, "http"),
    ],
)
def test_anything_but_an_http_answer_is_refused_and_not_quoted(answer, expected):
    with _after_request(answer) as address:
        error = failure(f"http://{address}")
    assert error.reason == expected
    assert SECRET.decode() not in str(error)


def test_http_requests_exclude_chunks():
    """The request is HTTP/1.0, which a proxy does not answer with chunks."""
    requests = []

    def behave(connection, ended):
        requests.append(connection.recv(4096))
        connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + DOCUMENT)

    with bad_servers.serving("tcp", behave) as address:
        assert read(f"http://{address}/stats").body == DOCUMENT
    assert requests[0].startswith(b"GET /stats HTTP/1.0\r\n")
    # A chunked answer is refused by its header: uWSGI never sends chunks, and each costs a step of the parser.
    with bad_servers.answers_http("tcp", DOCUMENT, framing="chunked") as address:
        error = failure(f"http://{address}")
    assert error.reason == "http"
    assert "Transfer-Encoding" in str(error)


def test_http_past_the_cap():
    with bad_servers.answers_http("tcp", b"x" * 1_000_000) as address:
        assert reason(f"http://{address}", size_cap=100_000) == "too_large"
    with bad_servers.answers("tcp", DOCUMENT) as address:
        error = failure(f"http://{address}")
    assert error.reason == "http"
    assert "tcp://" in str(error)
    with bad_servers.answers_http("tcp", DOCUMENT) as address:
        assert reason(f"https://{address}", PATIENCE) in ("unreachable", "truncated", "timeout")


async def test_a_silent_https_server_does_not_disturb_other_reads():
    with bad_servers.accepts_and_never_writes("tcp") as silent, bad_servers.answers("tcp", DOCUMENT) as well:
        for _ in range(3):
            with pytest.raises(SourceError, match="no complete answer"):
                await source.read_document(parse_address(f"https://{silent}"), timeout=0.1, size_cap=SIZE_CAP)
            answer = await source.read_document(parse_address(well), timeout=5, size_cap=SIZE_CAP)
            assert answer.body == DOCUMENT


@contextlib.contextmanager
def _after_request(answer):
    def behave(connection, _ended):
        request = b""
        while b"\r\n\r\n" not in request:
            request += connection.recv(4096) or b"\r\n\r\n"
        connection.sendall(answer)

    with bad_servers.serving("tcp", behave) as address:
        yield address


@pytest.mark.integration
def test_real_uwsgi_over_http_and_raw():
    raw, web = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    with uwsgi("--stats", raw, stats=False):
        wait_until(lambda: _reads(raw), what="the raw server")
        assert reason(f"http://{raw}") == "http"
        assert read(raw).body.startswith(b"{")
    with uwsgi("--stats", web, "--stats-http", stats=False):
        wait_until(lambda: _reads(f"http://{web}"), what="the HTTP server")
        assert read(f"http://{web}/anything").body.startswith(b"{")
        # Read raw by mistake, the server sees that no request will come: its master does not wait four seconds.
        assert read(web).body == b""
        assert read(f"http://{web}").body.startswith(b"{")


def _reads(address):
    with contextlib.suppress(SourceError):
        return read(address).body.startswith(b"{")
    return False


@pytest.mark.integration
def test_real_uwsgi_abstract_and_long_documents():
    name = f"headroom-{os.getpid()}"
    with uwsgi("--stats", f"@{name}", "--processes", "2", "--threads", "600", stats=False):
        wait_until(lambda: _reads(f"@{name}"), what="the abstract socket")
        body = read(f"@{name}").body
    assert len(body) > 219_264
    assert body.rstrip().endswith(b"}")


@pytest.mark.integration
def test_real_router():
    listen = f"127.0.0.1:{free_port()}"
    with bare("--master", "--fastrouter", listen, "--fastrouter-stats", "{directory}/stats") as server:
        assert b'"active_sessions"' in read(Unix(server.stats)).body


def test_a_process_that_waits_for_something_else():
    """A reader of a pipe does not count as a waiting writer, nor does a process whose wait channel is unreadable."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        assert not waits_to_write_a_pipe(process.pid)
        process.kill()
    assert not waits_to_write_a_pipe(1, proc=Path("/nowhere"))
