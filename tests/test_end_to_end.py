"""The exporter as its users run it, with real uWSGI servers and with every kind of bad input."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests import signalled
from tests.support import bad_servers
from tests.support.captured_documents import document
from tests.support.driven_top import driven
from tests.support.exporter import Exporter, clean_environment, exporter, run
from tests.support.other_namespaces import as_root, python_in
from tests.support.real_uwsgi import accepts, free_port, uwsgi, wait_until
from tools.environments import ROOT

pytestmark = pytest.mark.integration

WELL = document("minified")


def ask(server, path="/", times=1, at_once=4):
    def once(_):
        with socket.create_connection(("127.0.0.1", server.http), 20) as client:
            client.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
            while client.recv(65536):
                pass

    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(once, range(times)))


@contextlib.contextmanager
def in_service(server, path="/?io_ms=3600000"):
    """Keeps a request in service during the block, however long the block takes, or until its worker ends."""
    with socket.create_connection(("127.0.0.1", server.http), 20) as client:
        client.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        yield


def found_lines(running, server):
    """Log lines that report this server as found. A thread writes the log in order, so wait for a later line first."""
    wait_until(lambda: running.lines("msg=listening"), what="the log")
    return running.lines("msg=found", f"unix://{server.stats}")


def total(series, name, server):
    return sum(value for key, value in series.items() if key.startswith(f'{name}{{server="{server}"'))


BAD = ("missing", "refused", "silent", "half", "empty", "not_json", "other_json", "raw_for_http", "huge", "no_host")
CASES = (*BAD, "trailing_comma", "not_utf8", "hostile", "resets")
"""Inputs for a server: one that cannot be read for each reason, and some that can. tests/hostile/ has all others."""


@pytest.fixture(scope="module")
def bad_inputs(tmp_path_factory):
    """An exporter of all bad inputs and one good server, with three scrapes and its page."""
    folder = tmp_path_factory.mktemp("bad")
    with contextlib.ExitStack() as stack:

        def answers(body):
            return stack.enter_context(bad_servers.answers("unix", body))

        addresses = {
            "well": answers(WELL),
            "missing": str(folder / "missing"),
            "refused": f"127.0.0.1:{free_port()}",
            "silent": stack.enter_context(bad_servers.accepts_and_never_writes("unix")),
            "half": stack.enter_context(bad_servers.closes_half_way("unix", WELL)),
            "empty": stack.enter_context(bad_servers.answers_nothing("tcp")),
            "not_json": answers(b"uwsgi is fine\n"),
            "other_json": answers(b'{"status": "green", "workers": 4}'),
            "raw_for_http": "http://" + stack.enter_context(bad_servers.answers("tcp", WELL)),
            "huge": stack.enter_context(bad_servers.endless("unix")),
            "no_host": "tcp://no-such-host.invalid:1717",
            "trailing_comma": answers(document("router_both_invalid_json")),
            "not_utf8": answers(document("hostile_not_utf8")),
            "hostile": answers(document("hostile_everything")),
            "resets": stack.enter_context(bad_servers.resets("tcp", WELL)),
        }
        assert set(addresses) == {*CASES, "well"}
        # Only servers that never answer have a short timeout: on a busy machine the others must not time out.
        more = dict.fromkeys(["silent", "no_host"], ", timeout: 0.7") | {"huge": ", size_cap: 65536"}
        lines = [f"  - {{name: {name}, stats: '{address}'{more.get(name, '')}}}" for name, address in addresses.items()]
        (folder / "config.yml").write_text("\n".join(["servers:", *lines]))
        running = stack.enter_context(exporter("--config", str(folder / "config.yml")))
        scrapes = [running.scrape() for _ in range(3)]
        wait_until(lambda: all(running.lines("level=warning", f"server={name} ") for name in BAD), what="the log")
        yield running, scrapes, running.get("/")[1]


@pytest.mark.parametrize("name", CASES)
def test_bad_input(bad_inputs, name):
    running, scrapes, page = bad_inputs
    for series in scrapes:
        assert series[f'uwsgi_up{{server="{name}"}}'] == (name not in BAD)
    counted = "uwsgi_exporter_", "uwsgi_events_total", "uwsgi_verdict_"
    own = {key for key in scrapes[-1] if f'server="{name}"' in key and not key.startswith(counted)}
    row = next(part for part in page.split("<tr>") if f">{name}</a></b>" in part)
    if name in BAD:
        assert own == {f'uwsgi_up{{server="{name}"}}'}
        assert len(running.lines("level=warning", f"server={name} ")) == 1
        assert "✖ down" in row
        assert len(re.findall(r"(?:Down|Cannot be read): ([^<]*)", row)[0]) > 20
        errors = [v for key, v in scrapes[-1].items() if "read_errors" in key and f'server="{name}"' in key]
        assert sum(errors) >= 1
    else:
        assert len(own) >= 5
        assert not running.lines("cannot read", f"server={name} ")
        assert "✓ up" in row


def test_bad_input_leaves_others_alone(bad_inputs):
    """The good server has all its figures in every scrape."""
    running, scrapes, _page = bad_inputs
    for series in scrapes:
        assert series['uwsgi_up{server="well"}'] == 1
        assert total(series, "uwsgi_worker_requests_total", "well") == 10
    assert not running.lines("level=warning", "server=well")
    assert not running.lines("Traceback")
    assert not running.lines("internal")


def test_no_word_of_a_request_leaves(bad_inputs):
    running, _scrapes, page = bad_inputs
    everything = running.get()[1] + page + running.log.read_text()
    for word in ("HTTP_", "REQUEST_", "io_ms", "demo.test", "9.9.9", "REMOTE_ADDR"):
        assert word not in everything


def test_several_real_servers_one_of_them_down():
    with (
        uwsgi("--processes", "2", "--threads", "3") as two,
        uwsgi("--processes", "1") as one,
        exporter("--stats", f"two={two.stats}", "--stats", f"one={one.stats}", "--stats", "gone=/nowhere") as running,
    ):
        ask(two, times=10)
        with in_service(two):
            wait_until(lambda: total(running.scrape(), "uwsgi_worker_requests_total", "two") == 10)
            wait_until(lambda: running.scrape()['uwsgi_threads_busy{server="two"}'] == 1)
            series = running.scrape()
    socket_label = f'server="two",socket="{two.socket}"'
    expected = {
        'uwsgi_up{server="two"}': 1,
        'uwsgi_up{server="one"}': 1,
        'uwsgi_up{server="gone"}': 0,
        'uwsgi_threads_configured{server="two"}': 6,
        'uwsgi_threads_available{server="two"}': 6,
        'uwsgi_threads_configured{server="one"}': 1,
        'uwsgi_host_facts_available{server="two"}': 1,
        f"uwsgi_socket_queue_measurable{{{socket_label}}}": 1,
        f"uwsgi_socket_queue_length{{{socket_label}}}": 0,
        f"uwsgi_socket_max_queue_length{{{socket_label}}}": 100,
    }
    assert {key: series[key] for key in series if key in expected or key.startswith("uwsgi_up")} == expected
    assert [total(series, "uwsgi_worker_requests_total", name) for name in ("two", "one")] == [10, 0]
    assert total(series, "uwsgi_worker_resident_memory_bytes", "two") > 1_000_000


def test_a_server_that_vanishes_and_returns(tmp_path):
    """A server that has gone is down, with one log line; when it returns, its figures return, with another log line."""
    stats = str(tmp_path / "stats")
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(contextlib.ExitStack())
        first.enter_context(uwsgi("--stats", stats, stats=False))
        wait_until(lambda: os.path.exists(stats))
        running = stack.enter_context(exporter("--stats", f"shop={stats}"))
        assert running.scrape()['uwsgi_up{server="shop"}'] == 1
        first.close()
        wait_until(lambda: running.scrape()['uwsgi_up{server="shop"}'] == 0)
        for _ in range(3):
            assert running.scrape()['uwsgi_up{server="shop"}'] == 0
        stack.enter_context(uwsgi("--stats", stats, stats=False))
        wait_until(lambda: running.scrape()['uwsgi_up{server="shop"}'] == 1)
        assert 'uwsgi_worker_requests_total{server="shop",worker_id="1"}' in running.scrape()
        wait_until(lambda: len(running.lines("msg=reading", "server=shop")) == 2, what="the log")
        assert 1 <= len(running.lines("cannot read", "server=shop")) <= 2  # gone, and then still loading


def test_a_full_reload_resets_counters():
    """SIGHUP resets uWSGI's counters under the same master, and the exported counters restart from zero."""
    with uwsgi("--processes", "2") as server, exporter("--stats", f"shop={server.stats}") as running:
        ask(server, times=20)
        wait_until(lambda: total(running.scrape(), "uwsgi_worker_requests_total", "shop") == 20)
        os.kill(server.pid, signal.SIGHUP)
        wait_until(lambda: running.scrape().get('uwsgi_worker_requests_total{server="shop",worker_id="1"}') == 0)
        wait_until(lambda: accepts(("127.0.0.1", server.http)))
        ask(server, times=3)
        wait_until(lambda: total(running.scrape(), "uwsgi_worker_requests_total", "shop") == 3)
        after = running.scrape()
        assert after['uwsgi_worker_respawns_total{server="shop",worker_id="1"}'] == 1
        assert after['uwsgi_host_facts_available{server="shop"}'] == 1


def test_a_worker_killed_and_respawned():
    label = '{server="shop",worker_id="1"}'
    with uwsgi("--processes", "1", "--threads", "2") as server, exporter("--stats", f"shop={server.stats}") as running:
        ask(server, times=5)
        with in_service(server):
            wait_until(lambda: running.scrape()[f"uwsgi_worker_busy_threads{label}"] == 1)
            victim = int(re.findall(rb'"pid":(\d+)', server.document())[1])
            assert victim != server.pid
            os.kill(victim, signal.SIGKILL)
        wait_until(lambda: running.scrape().get(f"uwsgi_worker_respawns_total{label}") == 2)
        wait_until(lambda: running.scrape().get(f"uwsgi_worker_accepting{label}") == 1)
        series = running.scrape()
        assert series[f"uwsgi_worker_requests_total{label}"] == 5
        assert series[f"uwsgi_worker_busy_threads{label}"] == 0
        assert series[f"uwsgi_worker_open_fds{label}"] > 3


def test_shares_equal_uwsgitops():
    uwsgitop = Path(sys.executable).with_name("uwsgitop")
    assert uwsgitop.exists(), "uwsgitop is not installed: python3 -m tools.prepare test"
    with uwsgi("--processes", "4", "--threads", "2") as server, exporter("--stats", f"shop={server.stats}") as running:
        ask(server, "/?io_ms=3", times=137, at_once=6)

        def rows_of(lines):
            return [line.split() for line in lines[3:] if line]

        def drawn(text):
            """Whether the last count, which is drawn last, is there: a screen can be read when half of it is drawn."""
            lines = text.split("\n")
            counts = [float(row[3]) for row in rows_of(lines) if len(row) > 3 and row[3].isdecimal()]
            return "req: 137 " in lines[0] and len(counts) == 4 and sum(counts) == 137

        command, size = (sys.executable, str(uwsgitop)), {"LINES": "50", "COLUMNS": "200"}
        with driven(server.stats, columns=200, lines=50, command=command, TERM="linux", **size) as screen:
            rows = rows_of(screen.wait(drawn).split("\n"))

        def count_requests():
            series = running.scrape()
            name = 'uwsgi_worker_requests_total{{server="shop",worker_id="{}"}}'
            return {str(worker): series[name.format(worker)] for worker in range(1, 5)}

        # A scrape shows the last sample, which on a busy machine may be older than the requests.
        wait_until(lambda: sum(count_requests().values()) == 137, what="a sample after the last request")
        requests = count_requests()
    shown = {row[0]: row[1] for row in rows}
    assert {worker: f"{100 * count / 137:.1f}" for worker, count in requests.items()} == shown
    assert {row[0]: float(row[3]) for row in rows} == requests


@pytest.fixture(scope="module")
def endings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("endings")
    (folder / "well.json").write_bytes(WELL)
    (folder / "x.yml").write_text(f"servers: [well=file://{folder}/well.json]\n")
    arguments = ["--config", f"{folder}/x.yml", "--web.listen-address", "127.0.0.1:0"]
    command = [sys.executable, "-m", "tests.signalled", str(folder), *arguments]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=clean_environment(), check=True)
    return {name: (status, (folder / f"{name}.log").read_text()) for name, status in json.loads(ran.stdout).items()}


@pytest.mark.parametrize("signals", signalled.SIGNALS)
@pytest.mark.parametrize("moment", signalled.MOMENTS)
def test_a_signal_ends_it_at_any_moment(endings, moment, signals):
    """SIGINT and SIGTERM, once and twice, end the exporter in the same way at every moment, even with a scrape and a
    stream in progress: it logs nothing about its end, and its exit status is that of the first signal."""
    status, log = endings[f"{moment} {signals}"]
    first = signalled.SIGNALS[signals][0]
    assert status == (0 if first == signal.SIGINT else -first), log
    assert [line for line in log.splitlines() if " level=info " not in line] == []


@pytest.mark.parametrize("moment", signalled.HANGUPS)
def test_a_hangup_is_harmless_at_any_moment(endings, moment):
    """SIGHUP, twice, then SIGTERM: the exporter reloads or is already ending, and ends as after SIGTERM alone."""
    status, log = endings[f"{moment} SIGHUP"]
    assert status == -signal.SIGTERM, log
    assert [line for line in log.splitlines() if " level=info " not in line] == []


def test_several_addresses_to_listen_on():
    port = free_port()
    with exporter("--stats", "/nowhere", "--web.listen-address", f"127.0.0.1:{port}") as running:
        assert running.scrape()
        assert Exporter(running.process, port, running.log).scrape()


def test_without_an_address_it_finds_uwsgi():
    """Also two whose sockets have the same file name."""
    with uwsgi("--processes", "2") as server, exporter() as running:
        (line,) = found_lines(running, server)
        name = re.findall(r"server=(\S+)", line)[0]
        assert running.scrape()[f'uwsgi_threads_configured{{server="{name}"}}'] == 2
    with uwsgi() as one, uwsgi() as two, exporter() as running:
        for server in (one, two):
            assert len(found_lines(running, server)) == 1
            assert running.scrape()[f'uwsgi_up{{server="{server.stats}"}}'] == 1


def test_discover_prints_what_to_run():
    """`discover` prints one command for all servers that it found, and how to enable the stats of the others."""
    with uwsgi("--processes", "2", "--threads", "2") as server, uwsgi(stats=False) as mute:
        ask(mute, "/", times=1)  # it listens before it has workers, and is no master until then
        ran = run("discover")
    assert ran.returncode == 0
    parts = ran.stdout.split("\n\n")
    (part,) = [part for part in parts if f"master {server.pid} " in part]
    assert "2 workers of 2 threads" in part
    assert f"={part.split()[-1]}" in parts[-1]
    assert part.endswith(f"unix://{server.stats}")
    begin = next(number for number, part in enumerate(parts) if f"no stats server (master {mute.pid} " in part)
    assert any("--stats " in part and "--if-dir " in part for part in parts[begin : begin + 6])


def test_discover_finds_http_and_tcp():
    """`discover` distinguishes a raw stats server on TCP from one that speaks HTTP, and reads both."""
    raw, web = free_port(), free_port()
    with (
        uwsgi("--stats", f"127.0.0.1:{raw}", stats=False),
        uwsgi("--stats", f"127.0.0.1:{web}", "--stats-http", stats=False),
    ):
        wait_until(lambda: f"=http://127.0.0.1:{web}" in run("discover").stdout)
        ran = run("discover")
    assert f"=tcp://127.0.0.1:{raw}" in ran.stdout


def test_discover_touches_no_application_socket():
    """`discover` connects to no application socket: with the only worker busy, the queues stay empty."""
    with uwsgi("--processes", "1", "--listen", "16") as server, in_service(server):
        wait_until(lambda: b'"status":"busy"' in server.document())
        assert run("discover").returncode == 0
        with exporter() as running:
            name = re.findall(r"server=(\S+)", found_lines(running, server)[0])[0]
            series = running.scrape()
            queues = [key for key in series if key.startswith(f'uwsgi_socket_queue_length{{server="{name}"')]
            assert [series[key] for key in queues] == [0, 0]
        # Shows that a connection would be visible in the queue:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(server.socket)
            with exporter("--stats", f"shop={server.stats}") as running:
                assert running.scrape()[f'uwsgi_socket_queue_length{{server="shop",socket="{server.socket}"}}'] == 1


@as_root
def test_nothing_to_find():
    """Without an address and a uWSGI to watch, the exporter says how to enable stats, and the status is 1."""
    code = """
import contextlib
from tests.support.exporter import run
from tests.support.real_uwsgi import free_port, uwsgi
for there in (contextlib.nullcontext(), uwsgi(stats=False)):
    with there as there:
        ran = run("--web.listen-address", f"127.0.0.1:{free_port()}", *["--no-discover"] * bool(there))
    print(ran.returncode, ran.stderr)
"""
    nobody, mute = python_in("--pid --mount-proc", f"import sys; sys.path.insert(0, {str(ROOT)!r}){code}").split("\n1 ")
    assert nobody.startswith("1 uwsgi-headroom: no stats server was given, and none was found")
    assert "No uWSGI master runs here" in nobody
    assert "uwsgi-headroom --stats tcp://HOST:PORT" in nobody
    assert "uWSGI without a stats server" in mute
    assert "`uwsgi-headroom discover` prints the steps" in mute
    assert "Traceback" not in nobody + mute


def test_it_has_a_command():
    command = shutil.which("uwsgi-headroom", path=str(Path(sys.executable).parent))
    assert command, "the package is not installed: python3 -m tools.prepare test"
    assert run("--version").stdout.startswith("uwsgi-headroom ")
