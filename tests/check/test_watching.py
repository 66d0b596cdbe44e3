"""Checks of a server that changes meanwhile, and Ctrl-C at any moment."""

import asyncio
import signal
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.support.captured_documents import document
from tests.support.real_uwsgi import accepts, bare, free_port, wait_for_workers, wait_until
from tests.support.simulated_server import MovableClock, Server
from uwsgi_headroom.check import command
from uwsgi_headroom.check.command import judge, parse_targets, share_samples
from uwsgi_headroom.check.reports import render_lines
from uwsgi_headroom.check.request import Request
from uwsgi_headroom.clock import Clock
from uwsgi_headroom.documents.schema import ServerDocument as Document
from uwsgi_headroom.errors import ReadError
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.source import File, Unix
from uwsgi_headroom.surroundings import Unserved
from uwsgi_headroom.terminal_text import print_lines
from uwsgi_headroom.watch.watch import Watch


@pytest.mark.parametrize(("number", "interval"), [(1, 0.025), (4, 0.1), (8, 0.2), (100, 0.2)])
def test_servers_share_the_samples(number, interval):
    """One server is sampled forty times a second; of several, none is sampled less often than by an exporter."""
    watches = [Watch(f"shop{place}", File("/nowhere")) for place in range(number)]
    share_samples(watches)
    assert [watch.pace.interval for watch in watches] == pytest.approx([interval] * number)


def test_a_server_that_becomes_an_emperor_is_judged_as_one(tmp_path):
    """If another kind of stats server takes over the address, the last reading counts."""
    path = tmp_path / "stats.json"
    path.write_bytes(document("minified"))
    hands = MovableClock()

    def become_an_emperor(_left):
        path.write_bytes(document("emperor"))
        hands.move(1.0)

    watch = Watch("shop", File(str(path)), clock=hands.clock)
    judged = asyncio.run(judge(watch, hands.clock, 0.05, become_an_emperor))
    assert judged.kind == "emperor"
    assert judged.verdict == "1 vassal of the emperor fails to start."


def test_what_ends_a_check_early(tmp_path):
    path = tmp_path / "stats.json"
    path.write_bytes(document("emperor"))
    waited: list[float] = []
    judged = asyncio.run(judge(Watch("emperor", File(str(path))), Clock(), 3600, waited.append))
    assert (judged.status, judged.state, waited) == ("warning", "up", [])
    watch = _Scripted()
    watch.sampling = KeyError("workers")
    judged = asyncio.run(judge(watch, watch.clock, 3600))
    assert judged.status == "unknown"
    assert "sampling ended (KeyError)" in judged.verdict
    assert judged.error.reason == "internal"


class _Scripted(Watch):
    """A watch whose reader reads a simulated server. `reads` counts reads; read number `hanging` never ends."""

    def __init__(self, hanging: int = 0, server: Server | None = None) -> None:
        self.now = 0.0
        self.clock = Clock(monotonic=lambda: self.now)
        super().__init__("shop", File("/nowhere"), clock=self.clock)
        self.reads = 0
        self.server = server or Server()
        self.hangs = asyncio.Event()
        self.hanging = hanging
        self.sampling: Exception | None = None
        self.reader.read = self._read_next

    async def _read_next(self) -> Reading | ReadError:
        self.reads += 1
        if self.reads == self.hanging:
            self.hangs.set()
            await asyncio.Event().wait()
        self.read_at(self.now + 1.0)
        assert self.reader.outcome
        return self.reader.outcome

    def read_at(self, at: float) -> None:
        self.now = at
        self.reader.outcome = self.server.read(at)
        self._record(at, self.reader.outcome)

    async def sample(self) -> None:
        if self.sampling:
            raise self.sampling
        for at in range(10, 20):
            self.server.serve(1, 5)
            self.read_at(float(at))
        await asyncio.Event().wait()


async def _interrupted(watch: _Scripted, presses: int) -> Document:
    """The document of a check that is cancelled `presses` times: while watching, then in its last read."""
    task = asyncio.create_task(
        judge(watch, watch.clock, 60, lambda _left: asyncio.get_running_loop().call_later(0.01, task.cancel))
    )
    if presses > 1:  # the first arrives while watching
        await watch.hangs.wait()
        task.cancel()
    return await task


def test_interrupted_in_its_last_read_it_judges_what_is_known():
    """A second Ctrl-C does not wait for a server that hangs: the reading before is judged."""
    watch = _Scripted(hanging=2)
    judged = asyncio.run(_interrupted(watch, presses=2))
    assert judged.state == "up"
    assert judged.flow.requests == 50


def test_interrupted_in_its_last_read_of_a_server_that_is_down():
    """If the last outcome is that the server cannot be read, that is the verdict."""
    watch = _Scripted(hanging=2)

    async def down():
        watch.reader.outcome = ReadError("refused", "connection refused")
        await asyncio.Event().wait()

    watch.sample = down
    judged = asyncio.run(_interrupted(watch, presses=2))
    assert (judged.status, judged.state) == ("unknown", "down")
    assert judged.verdict == "Down: connection refused."


def test_interrupted_before_the_first_reading_it_has_nothing_to_judge():
    watch = _Scripted(hanging=1)

    async def interrupted():
        task = asyncio.create_task(judge(watch, watch.clock, 60))
        await watch.hangs.wait()
        task.cancel()
        return await task

    judged = asyncio.run(interrupted())
    assert (judged.status, judged.verdict) == ("unknown", "It was interrupted before the first reading.")
    assert judged.error.reason == "interrupted"


@pytest.mark.parametrize("seconds", [0.05, 60])
def test_a_check_leaves_nothing_running(seconds):
    """Sampling ends with the time to watch, and with Ctrl-C: nothing reads the server after its verdict."""

    async def run():
        watch = _Scripted()
        if seconds < 1:
            await judge(watch, watch.clock, seconds)
        else:
            await _interrupted(watch, presses=1)
        await asyncio.sleep(0)  # a cancelled task ends in the next turn
        return [task.get_name() for task in asyncio.all_tasks() - {asyncio.current_task()}]

    assert asyncio.run(run()) == []


LOADS_WHEN_ASKED = """
import os, time
end = time.monotonic() + 60
while os.path.exists("hold") and time.monotonic() < end:
    time.sleep(0.01)
def application(environ, start_response):
    start_response("200 OK", [])
    return [b""]
"""


@pytest.mark.integration
@pytest.mark.parametrize("ends", [True, False])
def test_a_reload_at_the_end(ends):
    """A check waits until uWSGI has loaded its application again, for as long again at most."""
    options = (
        "--master",
        "--processes",
        "2",
        "--http-socket",
        f"127.0.0.1:{free_port()}",
        "--wsgi-file",
        "app.py",
        "--stats",
        "{directory}/stats",
    )
    options += ("--chdir", "{directory}")
    with bare(*options, files={"app.py": LOADS_WHEN_ASKED}) as server:
        wait_for_workers(server)
        watch, hold = Watch("shop", Unix(server.stats)), server.directory / "hold"
        seen: list[float] = []

        def reload_and_load(left):
            seen.append(left)
            if len(seen) == 2:
                hold.touch()
                server.process.send_signal(signal.SIGHUP)
                wait_until(lambda: not accepts(server.stats), what="the reload")
            if len(seen) == 6 and ends:
                hold.unlink()
                wait_until(lambda: accepts(server.stats), what="the application to load")

        judged = asyncio.run(judge(watch, Clock(), 3.0, reload_and_load))
        hold.unlink(missing_ok=True)
        wait_until(lambda: accepts(server.stats), what="the application to load")
        if ends:
            assert judged.state == "up"
            assert "reloaded" in [finding.code for finding in judged.findings]
            assert 4 <= judged.window.asked <= 6
        else:
            assert (judged.state, judged.status) == ("down", "unknown")
            assert f"uWSGI's master ({server.pid}) runs, but is still loading its application" in judged.verdict
            assert judged.error.change.startswith("Wait until uWSGI has loaded its application.")
            assert isinstance(asyncio.run(watch.reader.read()), Reading)
            wait_for_workers(server)
            Path(server.stats).unlink()
            removed = asyncio.run(watch.reader.read())
            assert f"the socket file was removed, but uWSGI's master ({server.pid}) still runs" in str(removed)
            server.process.send_signal(signal.SIGHUP)
            wait_until(lambda: accepts(server.stats), what="the reload to create it again")


HOSTILE = "2.0\x1b]0;pwned\x07\nOK  forged \u202e\u200b\x9b"


def test_names_of_others_do_nothing_to_a_terminal(capsys):
    """A version or a socket's name with escape sequences and line breaks cannot print a line of its own."""
    server = Server(socket=f"{HOSTILE}.sock", queue=None)
    watch = _Scripted(server=server)
    read = server.read
    server.read = lambda at: _renamed(read(at))
    print_lines(render_lines(asyncio.run(_interrupted(watch, presses=1))))
    out = capsys.readouterr().out
    assert all(line.isprintable() for line in out.splitlines())
    assert not any(line.startswith("OK  forged") for line in out.splitlines())
    assert "uWSGI 2.0\\x1b]0;pwned\\x07\\nOK  forged \\u202e\\u200b\\x9b, file:" in out


def _renamed(reading: Reading) -> Reading:
    return replace(reading, snapshot=replace(reading.snapshot, version=HOSTILE))


def test_where_no_uwsgi_listens(monkeypatch, capsys):
    """If nobody named a server, what web servers cannot reach is judged like one. No command can look at it."""
    reasons = ("No such file or directory", "Connection refused")
    dead = Unserved("/run/shop.sock", "nginx", reasons[0], 33, 0, True)
    left = Unserved("/run/blog.sock", "nginx", reasons[1], 1, 77, False)
    monkeypatch.setattr(command, "ask", lambda _question: (left, dead))
    assert command.run(Request(seconds=3.0), parse_targets(["/nowhere/stats"])) == 2
    said = " ".join(capsys.readouterr().out.split())
    assert "CRITICAL shop.sock - nginx sends requests to /run/shop.sock, and nobody listens there (No such file" in said
    assert "WARNING blog.sock - nginx sends requests to /run/blog.sock, and the path of that socket is gone" in said
    assert command.run(Request(seconds=3.0, addresses=("/nowhere/stats",))) == 3
