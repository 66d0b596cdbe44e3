"""`uwsgi-headroom check` against real uWSGI: verdicts, exit status, formats, and targets that cannot be judged."""

import contextlib
import http.client
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import msgspec
import pytest

from tests.kernel.waits.test_sampler import needs_known_calls
from tests.support.captured_documents import document
from tests.support.driven_top import driven
from tests.support.exporter import COMMAND, clean_environment, exporter, run
from tests.support.real_uwsgi import bare, free_port, uwsgi, wait_until
from uwsgi_headroom.analysis.capacity import LEAST_OWN
from uwsgi_headroom.analysis.findings.load import LOW_CPU
from uwsgi_headroom.check.reports import render_lines
from uwsgi_headroom.documents.schema import ServerDocument

pytestmark = pytest.mark.integration


@contextlib.contextmanager
def clients(*ports: int, path: str) -> Iterator[None]:
    """A closed loop of one client for each given port, until the block ends. Each asks the ports in turn: how many
    requests a port gets does not depend on how fast they are."""
    stop = threading.Event()

    def ask(first: int) -> None:
        for port in itertools.cycle(ports[first:] + ports[:first]):
            if stop.is_set():
                return
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                with contextlib.closing(connection):
                    connection.request("GET", path)
                    connection.getresponse().read()

    threads = [threading.Thread(target=ask, args=(first,)) for first in range(len(ports))]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)


def test_a_worker_behind_a_mapped_socket_that_is_saturated_is_costly():
    """With seven requests of nine to one worker's socket, check reports the worker, the cost and advice."""
    hot, calm = free_port(), free_port()
    options = ["--processes", "2", "--threads", "8", "--map-socket", "2:1", "--map-socket", "3:2"]
    options += ["--http-socket", f"127.0.0.1:{hot}", "--http-socket", f"127.0.0.1:{calm}"]
    with uwsgi(*options) as server, clients(*[hot] * 7, *[calm] * 2, path="/?cpu_ms=30&io_ms=100"):
        ran = run("check", f"shop={server.stats}", "--seconds", "8", "--format", "json")
    verdict = json.loads(ran.stdout)
    first, second = verdict["workers"]
    assert 0.55 < first["share"] < 0.85
    by_code = {finding["code"]: finding for finding in verdict["findings"]}
    hurts = first["interpreter_load"] >= 0.5 and first["response_time"] >= 1.2 * second["response_time"]
    assert ("unevenness_hurts" in by_code) == (hurts and (verdict["balance"]["cost"] or 0) >= 0.1)
    if "unevenness_hurts" in by_code:
        assert by_code["unevenness_hurts"]["title"].startswith(
            "Worker 1 takes too much of the load: its interpreter is "
        )
        assert "the mean response time would be" in by_code["unevenness_hurts"]["meaning"]
        change = by_code["unevenness_hurts"]["change"]
        assert "spread the load evenly over the sockets of `map-socket`" in change
        assert ran.returncode in (1, 2)


@contextlib.contextmanager
def burners(count: int) -> Iterator[None]:
    """This many processes that use all CPU they get, until the block ends."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(process.kill)
        yield


@pytest.mark.slow
def test_other_programs_that_fill_the_machine_leave_a_twentieth_of_it():
    """Beside as many burners as CPUs, the CPUs are the limit, and check reports who uses them."""
    cpus = len(os.sched_getaffinity(0))
    with uwsgi("--processes", "2") as server, clients(server.http, path="/?cpu_ms=2&io_ms=50"):
        before = json.loads(run("check", server.stats, "--seconds", "5", "--format", "json").stdout)
        with burners(cpus):
            ran = run("check", server.stats, "--seconds", "5", "--format", "json")
    during = json.loads(ran.stdout)
    for verdict in (before, during):
        cpu, headroom = verdict["cpu"], verdict["headroom"]["by_limit"].get("cpu")
        capacity = cpu["own"] + cpu["idle"] + cpu["others"]
        assert any(capacity == pytest.approx(limit, rel=0.1) for limit in (cpus, verdict["host"]["cpus"]))
        assert cpu["own"] > 0
        factor = max(cpu["own"] + cpu["idle"], LEAST_OWN * verdict["host"]["cpus"]) / cpu["own"]
        assert headroom == (pytest.approx(factor) if factor <= 100 else None)
    assert during["cpu"]["idle"] < 0.1 * capacity
    assert during["cpu"]["others"] > 0.5 * capacity
    assert during["cpu"]["idle"] < before["cpu"]["idle"] + 0.1
    (finding,) = [each for each in during["findings"] if each["code"] in ("cpu_used_by_others", "cpu_bound")]
    low = during["headroom"]["by_limit"]["cpu"] < LOW_CPU and during["cpu"]["own"] >= LEAST_OWN * capacity
    if finding["code"] == "cpu_used_by_others":  # beside still more programs, requests wait for a CPU
        assert finding["severity"] == ("warning" if low else "info")
    runbook = {"cpu_bound": "UwsgiCpuBound", "cpu_used_by_others": "UwsgiHostFull"}[finding["code"]]
    assert finding["runbook"].startswith(f"/runbooks/{runbook}?server=")


def test_requests_that_sleep_spend_their_time_asleep():
    """Most of the time per request is in the state `sleep`; where the kernel hides it, the document has the reason."""
    with uwsgi("--processes", "2") as server, clients(server.http, path="/?io_ms=100"):
        ran = run("check", server.stats, "--seconds", "4", "--format", "json")
    document = msgspec.json.decode(ran.stdout, type=ServerDocument)
    lines = [line for line in render_lines(document) if line.startswith("  time ")]
    reasons = [unknown.why for unknown in document.unknown if unknown.what == "waits"]
    if document.waits is None:
        assert (len(reasons), lines) == (1, [])
    else:
        assert document.waits.states[0].state == "sleep"
        assert re.match(r"  time +\d+ ms sleep(,| per request$)", lines[0])  # which goes on below if it has many parts


def test_every_thread_busy_is_critical():
    """More clients than threads saturate the server, and the verdict reports the wait in the listen queue."""
    with uwsgi("--processes", "2", "--threads", "2") as server, clients(*[server.http] * 12, path="/?io_ms=200"):
        ran = run("check", server.stats, "--seconds", "5")
    assert ran.returncode == 2, ran.stdout
    assert "CRITICAL  Requests wait in the listen queue: " in ran.stdout
    assert max(map(len, ran.stdout.splitlines())) <= 80
    assert "in the listen queue" in ran.stdout


def test_an_idle_server_is_fine():
    """By its address, and by --all, which finds all servers of this machine."""
    with uwsgi("--processes", "2") as server:
        ran = run("check", server.stats, "--seconds", "2")
        every = run("check", "--all", "--seconds", "2", "--format", "json")
    assert ran.returncode == 0, ran.stdout
    assert "No requests yet: headroom not known" in " ".join(ran.stdout.split())
    found = {listed["address"]: listed["status"] for listed in json.loads(every.stdout)["servers"]}
    assert found[f"unix://{server.stats}"] == "ok"


def test_interrupted_it_judges_what_it_has_seen():
    """Ctrl-C prints the verdict at once."""
    with (
        uwsgi("--processes", "2") as server,
        clients(server.http, path="/?io_ms=5"),
        driven(server.stats, "--seconds", "600", command=(*COMMAND, "check"), columns=200, lines=60) as terminal,
    ):
        terminal.wait(lambda text: re.search(r"watching for 59[0-7] s", text))
        terminal.press("\x03")
        assert terminal.ended() in (0, 1, 2), terminal.text()
        assert "watched for" in terminal.text()


@pytest.mark.parametrize("seconds", ["1", "-5", "nan", "soon", "99999"])
def test_lengths_that_make_no_sense(seconds):
    ran = run("check", "/nowhere", "--seconds", seconds)
    assert ran.returncode == 3
    assert "--seconds" in ran.stderr


def test_what_cannot_be_read_is_unknown(tmp_path):
    """The status is 3, with the address, the reason and what to do: nothing listens, no socket, not uWSGI, or damaged
    by uWSGI."""
    other, damaged = tmp_path / "other", tmp_path / "damaged"
    other.write_text("{}")
    damaged.write_text('{"version":"2.0.31","cwd":"/srv/a"b","workers":[]}')
    for address, verdict, word, act in (
        ("/nowhere/stats", "Down", "no such file", "Start uWSGI"),
        (str(other), "Down", "is not a socket", "Give the exporter the address"),
        (f"file://{other}", "Cannot be read", "not a stats document of uWSGI", "Give the exporter the address"),
        (f"file://{damaged}", "Cannot be read", "uWSGI's JSON is damaged", "Rename the directory, socket or file"),
    ):
        ran = run("check", address)
        assert (ran.returncode, ran.stderr) == (3, "")
        said = " ".join(ran.stdout.split())
        assert f"UNKNOWN {verdict}: " in said
        assert word in said
        assert f"DO {act}" in said


def test_an_emperor_is_judged(tmp_path):
    """The verdict is that of the page and of `top`: a throttled vassal is a warning; --all has it whole."""
    path = tmp_path / "emperor"
    path.write_bytes(document("emperor"))
    for arguments, number in (((), 0), (("--all",), 1)):
        ran = run("check", f"file://{path}", *arguments)
        assert ran.returncode == 1
        assert "WARNING  1 vassal of the emperor fails to start." in ran.stdout
        assert ran.stdout.count("1. WARNING: 1 vassal of the emperor fails to start.") == number


def test_an_application_is_no_stats_server():
    """The message identifies an application's own port, however it is read."""
    with uwsgi("--processes", "1") as server:
        for address in (f"127.0.0.1:{server.http}", f"http://127.0.0.1:{server.http}/"):
            ran = run("check", address, "--format", "nagios")
            assert ran.returncode == 3
            assert "`stats`" in ran.stdout
            assert "waits for HTTP" not in ran.stdout


def test_a_relative_path_is_a_path():
    with uwsgi("--processes", "1") as server:
        ran = subprocess.run(
            [*COMMAND, "check", "stats", f"../{server.directory.name}/st*ts", "--seconds", "2", "--format", "json"],
            capture_output=True,
            text=True,
            check=False,
            cwd=server.directory,
            env=clean_environment(),
        )
    assert [listed["state"] for listed in json.loads(ran.stdout)["servers"]] == ["up", "up"]


def test_several_servers_of_every_kind():
    """Globs, exporters and single servers are judged together, with a line for each and the worst status."""
    with uwsgi("--processes", "1") as one, uwsgi("--processes", "2") as other, exporter("--stats", other.stats) as web:
        wait_until(lambda: '"flow":{' in web.get("/api/v2/servers/stats")[1], what="figures")
        ran = run(
            "check", f"{one.directory}/st*ts", f"http://127.0.0.1:{web.port}/", "/nowhere/stats", "--seconds", "2"
        )
    lines = ran.stdout.splitlines()
    assert lines[0] == "UNKNOWN  3 servers: 1 unknown, 2 ok"
    assert [line.split()[0] for line in lines[2:] if line and line[0] != " "] == ["UNKNOWN", "OK", "OK"]
    assert ran.returncode == 3


def test_an_exporter_answers_from_its_memory():
    """The URL of an exporter, or of one of its servers, is judged at once over a window of its history."""
    with uwsgi("--processes", "1") as server, exporter("--stats", f"my.shop={server.stats}") as web:
        wait_until(lambda: json.loads(web.get("/api/v2/servers/my.shop")[1])["window"], what="figures")
        for path in ("/servers/my.shop", "/api/v2/servers/my.shop", "/servers/my.shop?window=300"):
            ran = run("check", f"http://127.0.0.1:{web.port}{path}", "--seconds", "200", "--format", "json")
            verdict = json.loads(ran.stdout)
            assert (ran.returncode, verdict["name"], verdict["window"]["asked"]) == (0, "my.shop", 300)
        ran = run("check", f"127.0.0.1:{web.port}", "--format", "nagios")
        assert ran.returncode == 0
        assert ran.stdout.startswith("OK - my.shop: ")
        ran = run("check", f"http://127.0.0.1:{web.port}/", "--stuck", "5m")
        assert ran.returncode == 3
        assert "--stuck: an exporter judges by its own setting" in ran.stderr
        ran = run("check", f"http://127.0.0.1:{web.port}/", "--read-locks")
        assert ran.returncode == 3
        assert "--read-locks: an exporter reads by its own setting" in ran.stderr
        ran = run("check", f"http://127.0.0.1:{web.port}/servers/other")
        assert ran.returncode == 3
        assert f"The exporter at http://127.0.0.1:{web.port} has no server other, or is of an" in ran.stdout


def test_a_threshold_decides():
    """The verdict names the option that decided."""
    with uwsgi("--processes", "2") as server, clients(server.http, path="/?io_ms=50"):
        ran = run("check", server.stats, "--seconds", "3", "--max-response-time", "10ms:20ms", "--format", "nagios")
    assert ran.returncode == 2
    assert re.match(
        r"CRITICAL - stats: Requests take \d+ ms on average: --max-response-time allows 20 ms\.", ran.stdout
    )
    assert ";0.01;0.02;0 " in ran.stdout


@needs_known_calls
@pytest.mark.integration
@pytest.mark.parametrize("place", ["unix", "tcp"])
def test_a_master_that_is_stopped_is_judged_by_the_kernel(place):
    """`check` of stats that do not answer looks at the workers of that uWSGI, and says what its master needs."""
    port = free_port()
    stats, ready = {"unix": ("{directory}/stats", None), "tcp": (f"127.0.0.1:{port}", ("127.0.0.1", port))}[place]
    options = ["--master", "--processes", "2", "--socket", "{directory}/app", "--stats", stats]
    with bare(*options, ready=ready) as server:
        os.kill(server.pid, signal.SIGSTOP)
        try:
            ran = run("check", stats.format(directory=server.directory), "--seconds", "2", "--format", "json")
        finally:
            os.kill(server.pid, signal.SIGCONT)
    document = json.loads(ran.stdout)
    assert (document["source"], document["address"][: len(place)]) == ("kernel", place)
    assert [each["code"] for each in document["findings"]][:1] == ["master_silent"]
    assert document["findings"][0]["title"] == "uWSGI's master does not answer."  # nobody was seen to be served
    assert f"kill -CONT {server.pid}" in document["findings"][0]["change"]
