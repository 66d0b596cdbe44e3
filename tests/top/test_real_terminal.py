"""`uwsgi-headroom top` in a terminal, over real uWSGI: its screen, its keys, and its end."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import termios
import threading
from pathlib import Path

import pytest
from msgspec import Struct, field

from tests.support import bad_servers, real_uwsgi
from tests.support.captured_documents import document
from tests.support.driven_top import LEFT, Driven, driven
from tests.support.exporter import COMMAND, clean_environment, exporter, run
from tests.support.real_uwsgi import Uwsgi, accepts, uwsgi, wait_until
from tests.test_end_to_end import ask, in_service

pytestmark = pytest.mark.integration

KEYS = "q quit"
_STYLES = re.compile(rb"\x1b\[([0-9;]*)m")


def rows(screen: str) -> list[list[str]]:
    lines = screen.splitlines()
    start = next((place for place, line in enumerate(lines) if line.strip().startswith("W ")), None)
    return [] if start is None else [line.split() for line in lines[start:-1] if line.strip() and not _is_below(line)]


def _is_below(line: str) -> bool:
    """Whether a line has the totals, or counts rows out of view."""
    return line.split(maxsplit=1)[0] in ("all", "↓", "↑")


def column(screen: str, title: str) -> list[str]:
    """The right end of a column, for each worker; nothing where the screen has not got as far."""
    lines = screen.splitlines()
    start = next((place for place, line in enumerate(lines) if line.strip().startswith("W ")), None)
    if start is None or f" {title} " not in f"{lines[start]} ":
        return []
    end = f"{lines[start]} ".index(f" {title} ") + len(title) + 1
    return [line[:end].split()[-1] for line in lines[start + 1 : -1] if line.strip() and not _is_below(line)]


def workers(server: Uwsgi) -> list[dict[str, int]]:
    listed: list[dict[str, int]] = json.loads(server.document())["workers"]
    return listed


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


# ---------------------------------------------------------------- what it shows


def test_the_figures_are_those_of_the_stats():
    with uwsgi("--processes", "3", "--threads", "2") as server:
        ask(server, "/", times=60)
        with in_service(server), driven(server.stats, columns=200) as top:
            screen = top.wait(lambda text: "1/2" in text and "1s" in text)
            stats = workers(server)
            pids, served = ([str(worker[key]) for worker in stats] for key in ("pid", "requests"))
            top.press("n")
            # A screen may arrive in parts, so all columns are waited for.
            screen = top.wait(lambda text: [column(text, key) for key in ("PID", "REQ")] == [pids, served])
            assert column(screen, "W") == ["1", "2", "3"]
            assert sum(map(int, served)) == 60
            top.wait(lambda text: "in service" in text and "1 now" in text)


def test_from_an_exporter_it_shows_what_its_api_says():
    """The verdict, word for word, and the figures are the exporter's; top does not read uWSGI."""
    with uwsgi("--processes", "2") as server, exporter("--stats", f"shop={server.stats}") as running:
        ask(server, "/?io_ms=10", times=200)
        with driven(f"127.0.0.1:{running.port}", columns=180, lines=40) as top:  # a long verdict takes several lines

            def ask_api():
                return dict(json.loads(running.get("/api/v2/servers/shop")[1]))

            # The window moves between two answers, and a screen may arrive in parts.
            top.wait(lambda text: "headroom" in text and ask_api()["verdict"] in text)
            served = {str(worker["worker_id"]): str(worker["requests"]) for worker in ask_api()["workers"]}
            assert sum(map(int, served.values())) == 200
            screen = top.wait(lambda text: dict(zip(column(text, "W"), column(text, "REQ"), strict=False)) == served)
            assert " shop   up   uWSGI" in screen


def test_several_servers_are_listed_the_worst_first_and_looked_into():
    """Down comes before up; enter opens the selected server, tab the next one, escape goes back."""
    with uwsgi("--processes", "2") as server, driven(server.stats, "gone=/nowhere/stats") as top:
        screen = top.wait(lambda text: "2 servers: 1 down" in text)
        assert screen.index("> gone") < screen.index("  stats ")
        assert "no such file" in screen
        top.press("j\r")
        assert "stats   up" in top.wait(rows)
        top.press("\t")
        assert re.search(r"DOWN .*no such file", top.wait(lambda text: " gone   down" in text))
        top.press("\x1b")
        top.wait(lambda text: "2 servers" in text)


def test_keys_sort_and_turn_pages():
    """Sorting by requests and by number, threads, advice, help, another window and pause."""
    with uwsgi("--processes", "3", "--threads", "2") as server:
        ask(server, "/", times=50, at_once=1)
        with driven(server.stats, columns=170) as top:
            top.wait(rows)
            top.press("r")
            most = [str(number) for number in sorted((each["requests"] for each in workers(server)), reverse=True)]
            top.wait(lambda text: column(text, "REQ") == most)  # a screen may arrive in parts: some cells are none yet
            top.press("t")
            cells = [f"{core['id']}: {core['requests']}" for worker in workers(server) for core in worker["cores"]]
            top.wait(lambda text: all(f"{cell} " in f"{' '.join(text.split())} " for cell in cells))
            top.press("a")
            top.wait(lambda text: "thunder-lock is off" in text)
            top.press("?")
            top.wait(lambda text: "Sort workers" in text)
            top.press("?")
            top.wait(lambda text: "thunder-lock is off" in text)
            top.press("e")
            top.wait(lambda text: "EVENT" in text and "began to watch" in text)
            top.press("p")
            top.wait(lambda text: "load, requests per second" in text and "busy threads" in text)
            top.press("p/idle\r")
            top.wait(lambda text: "filter: idle (esc clears)" in text and len(rows(text)) == 4)
            top.press("\x1b")
            top.wait(lambda text: "filter:" not in text)
            top.press("]")
            top.wait(lambda text: "5 min" in text or "of 300 s" in text)
            top.press(" ")
            top.wait(lambda text: "PAUSED" in text)


def test_the_size_of_the_terminal_changes():
    with uwsgi("--processes", "2") as server, driven(server.stats) as top:
        top.wait(rows)
        assert len(rows(top.text())[0]) < 16
        top.resize(200, 40)
        top.wait(lambda text: rows(text) and "AFFINITY" in rows(text)[0])
        top.resize(40, 10)
        top.wait(lambda text: rows(text) and "AFFINITY" not in text and text.rstrip().splitlines()[-1].startswith(KEYS))


def test_without_colour_or_utf8():
    """NO_COLOR and a vt100 get no colour; without UTF-8 in the locale, the output is ASCII."""
    ascii_only = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "POSIX", "LANG": "C"}
    with uwsgi("--processes", "2") as server, in_service(server):
        for environment in ({"NO_COLOR": "1"}, {"TERM": "vt100"}, ascii_only):
            with driven(server.stats, **environment) as top:
                top.wait(lambda text: "1/1" in text)
                if environment is ascii_only:
                    top.written.decode("ascii")
                else:
                    styles = {int(code) for codes in _STYLES.findall(top.written) for code in codes.split(b";") if code}
                    assert styles <= {0, 1, 2, 4, 7}  # bold, dim, underlined, reverse: none is a colour
                    assert 7 in styles


# ---------------------------------------------------------------- what goes wrong meanwhile


def test_a_server_that_ends_and_comes_back():
    """The screen shows down, the reason and the age of the figures, then up again."""
    with uwsgi("--processes", "1") as server, driven(server.stats) as top:
        top.wait(lambda text: " up " in text and rows(text))
        aside = Path(server.stats).with_name("aside")
        Path(server.stats).rename(aside)
        screen = top.wait(lambda text: re.search(r"DOWN .*the socket file was removed", text))
        assert "stats   down, last read" in screen
        aside.rename(server.stats)
        top.wait(lambda text: " up " in text)


def test_an_exporter_that_hangs_holds_up_nothing(tmp_path):
    """A stopped exporter is marked stale while the other one's servers and keys work; then it continues."""
    with (
        uwsgi("--processes", "1") as server,
        exporter("--stats", f"first={server.stats}") as hanging,
        exporter("--stats", f"second={tmp_path}/nowhere") as well,
        driven(f"127.0.0.1:{hanging.port}", f"127.0.0.1:{well.port}") as top,
    ):
        top.wait(lambda text: "first" in text and "second" in text)
        hanging.stop()
        screen = top.wait(lambda text: f"STALE  http://127.0.0.1:{hanging.port}: " in text)
        assert f":{well.port}: " not in screen
        top.press("/second\r")
        top.wait(lambda text: "> second" in text and "first" not in text)
        top.press("\r")
        screen = top.wait(lambda text: " second   down" in text and "no such file" in text)
        assert "STALE" not in screen
        top.press("\x1b\x1b")
        top.wait(lambda text: "  first" in text and "STALE" in text)
        hanging.resume()
        top.wait(lambda text: "STALE" not in text and "first" in text)


def test_a_snapshot_of_one_server_of_an_exporter():
    """`--once` and `--json` show the server of the given page, and the status is that of this server alone."""
    with uwsgi("--processes", "1") as server, exporter("--stats", f"a={server.stats}", "--stats", "b=/x") as running:
        running.metrics()
        page = f"http://127.0.0.1:{running.port}/servers/"
        assert json.loads(run("top", page + "a", "--json").stdout)["name"] == "a"
        for name, status in (("a", 0), ("b", 3), ("other", 3)):
            assert run("top", page + name, "--once", timeout=120).returncode == status


# ---------------------------------------------------------------- how it leaves


@pytest.mark.parametrize("how", ["q", "\x03", signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_it_leaves_the_terminal_as_it_was(how):
    """By key, Ctrl-C or signal: the status is 0, and modes and screen are restored."""
    with uwsgi("--processes", "1") as server, driven(server.stats) as top:
        top.wait(lambda text: KEYS in text)
        assert not top.is_as_it_was()
        if isinstance(how, str):
            top.press(how)
        else:
            top.process.send_signal(how)
        assert top.ended() == 0
        assert top.is_as_it_was()


def program(directory: Path, body: str) -> tuple[str, str]:
    """The command of a program that runs top over `feed`; `body` may change its behaviour."""
    path = directory / "program.py"
    path.write_text(
        "import asyncio, os\n"
        "from uwsgi_headroom import logs\n"
        "from uwsgi_headroom.top import loop\n"
        "from uwsgi_headroom.top.navigation import Navigation\n"
        "from uwsgi_headroom.top.terminal import Terminal, detect_capabilities\n"
        "from uwsgi_headroom.top.feeds import LocalFeed\n"
        "def broken(*_):\n"
        "    raise RuntimeError('a fault of our own')\n"
        f"{body}\n"
        "logs.configure('critical', 'logfmt')\n"
        "asyncio.run(loop.run([LocalFeed(())], Navigation(), detect_capabilities(os.environ, 1)))\n"
    )
    return sys.executable, str(path)


def ends_with_a_traceback(top: Driven) -> None:
    """The status is 1, and the traceback follows after the terminal is restored."""
    assert top.ended() == 1
    assert "a fault of our own" in top.text()
    before, _, after = top.written.partition(LEFT)
    assert b"RuntimeError" in after
    assert b"RuntimeError" not in before


def test_a_fault_ends_it_with_a_traceback(tmp_path):
    """In a poll, in a key's handler and in a signal's, which no task awaits; the terminal is restored before."""
    with driven(command=program(tmp_path, "loop.handle_key = broken")) as top:
        top.wait(lambda text: KEYS in text)
        top.press("s")
        ends_with_a_traceback(top)
    with driven(command=program(tmp_path, "Terminal.clear = broken")) as top:
        top.wait(lambda text: KEYS in text)
        top.resize(100, 30)
        ends_with_a_traceback(top)
    with driven(command=program(tmp_path, "LocalFeed.servers = broken")) as top:
        ends_with_a_traceback(top)


def test_a_stray_message_of_asyncio_ends_nothing(tmp_path):
    body = (
        "class Feed(LocalFeed):\n"
        "    async def run(self):\n"
        "        asyncio.get_running_loop().call_exception_handler({'message': 'Task was destroyed'})\n"
        "        await super().run()\n"
        "LocalFeed = Feed\n"
    )
    with driven(command=program(tmp_path, body)) as top:
        top.wait(lambda text: KEYS in text)
        top.press(" ")
        top.wait(lambda text: "PAUSED" in text)
        top.press("q")
        assert top.ended() == 0
        assert top.is_as_it_was()
        assert b"destroyed" not in top.written


def test_a_terminal_that_goes_away_ends_it():
    with uwsgi("--processes", "1") as server, driven(server.stats) as top:
        top.wait(lambda text: KEYS in text)
        top.close()
        wait_until(lambda: top.process.poll() is not None, what="top to end")
        assert top.process.returncode in (0, -signal.SIGHUP)


def test_suspended_it_gives_the_terminal_back_and_fg_brings_it_again():
    """In a shell, Ctrl-Z stops top with no connection to uWSGI open; fg draws the whole screen again."""
    with uwsgi("--processes", "2") as server, driven(command=("bash", "--norc", "--noprofile", "-i")) as shell:
        shell.press(" ".join([*COMMAND, "top", server.stats]) + "\n")
        shell.wait(lambda text: KEYS in text and rows(text))
        shell.press("\x1a")
        shell.wait(lambda text: "Stopped" in text)
        (pid,) = _children(shell.process.pid)
        assert state(pid) == "T"
        assert LEFT in shell.written
        workers(server)  # the master answers other clients
        shell.press("echo $((6*7))\n")
        shell.wait(lambda text: "\n42\n" in text)
        shell.press("fg\n")
        shell.wait(lambda text: KEYS in text and rows(text) and "42" not in text.split("\n")[0])
        shell.press("q")
        shell.wait(lambda text: KEYS not in text and shell.foreground() == shell.process.pid)
        shell.press("stty -a\n")
        assert " icanon" in shell.wait(lambda text: "icanon" in text)


def test_without_a_shell_to_wake_it_ctrl_z_does_nothing():
    """As under `ssh -t`: top is not stopped permanently."""
    with uwsgi("--processes", "1") as server, driven(server.stats) as top:
        top.wait(lambda text: KEYS in text)
        top.press("\x1a")
        top.wait(lambda _: top.written.count(LEFT) == 1)
        top.wait(lambda text: KEYS in text and rows(text))
        top.press("q")
        assert top.ended() == 0


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


# ---------------------------------------------------------------- no terminal


def test_into_a_pipe_it_prints_one_snapshot():
    """Plain text with status 0, after the seconds needed for figures; with --json, the API's document."""
    with uwsgi("--processes", "2") as server:
        ask(server, "/", times=20)
        ran = run("top", server.stats)
        assert ran.returncode == 0, ran.stderr
        assert rows(ran.stdout + "\n.")[0][:3] == ["W", "PID", "STATE"]
        assert "\x1b" not in ran.stdout
        ran = run("top", server.stats, "--json")
        assert sum(worker["requests"] for worker in json.loads(ran.stdout)["workers"]) == 20


def test_a_reader_that_closes_the_pipe_early():
    """As with `| head`: no traceback."""
    with uwsgi("--processes", "1") as server:
        for how in ("--json", "--once"):
            process = subprocess.Popen(
                [*COMMAND, "top", server.stats, how, "--seconds", "2"],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=clean_environment(),
            )
            process.stdout.close()
            _, errors = process.communicate(timeout=60)
            assert (process.returncode, errors) == (1, b"")


def test_on_a_dumb_terminal_it_prints_one_snapshot():
    """If the cursor cannot be moved, there is no screen to draw on."""
    with uwsgi("--processes", "1") as server, driven(server.stats, TERM="dumb") as top:
        assert top.ended() == 0
        assert "No requests yet" in top.text()
        assert b"\x1b" not in top.written


@pytest.mark.slow
def test_an_http_stats_server_is_not_taken_for_an_exporter():
    """uWSGI with stats-http answers every path with its stats; a raw stats server is recognized by its answer."""
    port, raw = real_uwsgi.free_port(), real_uwsgi.free_port()
    with uwsgi("--processes", "2", "--stats-http", "--stats", f"127.0.0.1:{port}", stats=False) as server:
        wait_until(lambda: accepts(("127.0.0.1", port)))
        for address in (f"http://127.0.0.1:{port}", f"http://127.0.0.1:{port}/"):
            ran = run("top", address, "--json")
            assert len(json.loads(ran.stdout)["workers"]) == 2, ran.stderr
        assert server.process.poll() is None
    with uwsgi("--processes", "2", "--stats", f"127.0.0.1:{raw}", stats=False):
        ran = run("top", f"127.0.0.1:{raw}", "--json")
        assert len(json.loads(ran.stdout)["workers"]) == 2, ran.stderr


# ---------------------------------------------------------------- it holds no one up


class Stats(Struct):
    """A stats server that counts its readers. While it `holds`, it sends nothing; `left`: one reader has hung up."""

    address: str = ""
    readers: int = 0
    holds: bool = False
    held: threading.Event = field(default_factory=threading.Event)
    left: threading.Event = field(default_factory=threading.Event)


@pytest.fixture
def stats():
    """A stats server, until the test ends."""
    server = Stats()

    def behave(connection: socket.socket, ended: threading.Event) -> None:
        if server.holds:
            server.held.set()
            while not ended.is_set() and not server.left.is_set():
                if bad_servers.has_left(connection):
                    server.left.set()
                ended.wait(0.01)
            return
        server.readers += 1
        connection.settimeout(60)
        connection.sendall(document("minified"))

    with bad_servers.serving("unix", behave) as server.address:
        yield server


def test_a_terminal_that_takes_nothing_keeps_nothing_waiting(stats):
    """While the terminal takes no output, as after Ctrl-S, uWSGI is still read and a signal still ends top."""
    with driven(stats.address, "--interval", "0.25") as top:
        top.wait(rows)
        terminal = os.open(top.path, os.O_RDWR | os.O_NOCTTY)
        with contextlib.closing(os.fdopen(terminal, "wb", 0)):
            termios.tcflow(terminal, termios.TCOOFF)
            top.press("?t?e?")
            before = stats.readers
            wait_until(lambda: stats.readers > before + 5, what="reads that go on")
            top.process.send_signal(signal.SIGTERM)
            assert top.ended() == 0


@pytest.mark.parametrize("command", ["check", "top", "serve"])
def test_stopped_by_ctrl_z_it_has_let_go_of_uwsgi(stats, command):
    """A read under way ends before the process stops, because the master would wait; continued, top reads again."""
    arguments = {"check": ["check", stats.address], "top": ["top", stats.address, "--once", "--seconds", "30"]}
    serve = ["serve", "--stats", stats.address, "--web.listen-address", f"127.0.0.1:{real_uwsgi.free_port()}"]
    process = subprocess.Popen(
        [*COMMAND, *arguments.get(command, serve)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=clean_environment(),
        preexec_fn=os.setpgrp,  # noqa: PLW1509 - the thread that runs is idle
    )
    try:
        wait_until(lambda: stats.readers > 3, what="reads")
        stats.holds = True
        assert stats.held.wait(60), "no read is under way"
        process.send_signal(signal.SIGTSTP)
        wait_until(lambda: state(process.pid) == "T", what="it to stop")
        assert stats.left.wait(60)
        stats.holds, before = False, stats.readers
        process.send_signal(signal.SIGCONT)
        wait_until(lambda: stats.readers > before + 3, what="reads again")
    finally:
        process.kill()
        process.wait(60)
