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
import time
from collections.abc import Iterator

import msgspec
import pytest
from msgspec.structs import replace

from tests.check.documents import busy_server
from tests.kernel.waits.test_sampler import needs_known_calls
from tests.support.captured_documents import document
from tests.support.documents_with_times import code_line
from tests.support.driven_top import driven
from tests.support.exporter import COMMAND, clean_environment, exporter, run
from tests.support.real_uwsgi import APP, accepting, bare, free_port, uwsgi, wait_until
from uwsgi_headroom.analysis.capacity import LEAST_OWN
from uwsgi_headroom.analysis.deploys.judgement import Status
from uwsgi_headroom.analysis.findings.cpus import LOW_CPU
from uwsgi_headroom.check.compare_command import parse_moment
from uwsgi_headroom.check.reports import render_lines
from uwsgi_headroom.check.thresholds import apply_deploy, is_undecided
from uwsgi_headroom.documents.deploys import Deploy, DeploySide
from uwsgi_headroom.documents.schema import ServerDocument
from uwsgi_headroom.documents.subjects import Code
from uwsgi_headroom.errors import ConfigError


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


@pytest.mark.integration
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


@pytest.mark.integration
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


@pytest.mark.integration
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


@pytest.mark.integration
def test_every_thread_busy_is_critical():
    """More clients than threads saturate the server, and the verdict reports the wait in the listen queue."""
    with uwsgi("--processes", "2", "--threads", "2") as server, clients(*[server.http] * 12, path="/?io_ms=200"):
        ran = run("check", server.stats, "--seconds", "5")
    assert ran.returncode == 2, ran.stdout
    assert "CRITICAL  Requests wait in the listen queue: " in ran.stdout
    assert max(map(len, ran.stdout.splitlines())) <= 80
    assert "in the listen queue" in ran.stdout


@pytest.mark.integration
def test_an_idle_server_is_fine():
    """By its address, and by --all, which finds all servers of this machine."""
    with uwsgi("--processes", "2") as server:
        ran = run("check", server.stats, "--seconds", "2")
        every = run("check", "--all", "--seconds", "2", "--format", "json")
    assert ran.returncode == 0, ran.stdout
    assert "No requests yet: headroom not known" in " ".join(ran.stdout.split())
    found = {listed["address"]: listed["status"] for listed in json.loads(every.stdout)["servers"]}
    assert found[f"unix://{server.stats}"] == "ok"


@pytest.mark.integration
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


@pytest.mark.integration
@pytest.mark.parametrize("seconds", ["1", "-5", "nan", "soon", "99999"])
def test_lengths_that_make_no_sense(seconds):
    ran = run("check", "/nowhere", "--seconds", seconds)
    assert ran.returncode == 3
    assert "--seconds" in ran.stderr


@pytest.mark.integration
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


@pytest.mark.integration
def test_an_emperor_is_judged(tmp_path):
    """The verdict is that of the page and of `top`: a throttled vassal is a warning; --all has it whole."""
    path = tmp_path / "emperor"
    path.write_bytes(document("emperor"))
    for arguments, number in (((), 0), (("--all",), 1)):
        ran = run("check", f"file://{path}", *arguments)
        assert ran.returncode == 1
        assert "WARNING  1 vassal of the emperor fails to start." in ran.stdout
        assert ran.stdout.count("1. WARNING: 1 vassal of the emperor fails to start.") == number


@pytest.mark.integration
def test_an_application_is_no_stats_server():
    """The message identifies an application's own port, however it is read."""
    with uwsgi("--processes", "1") as server:
        for address in (f"127.0.0.1:{server.http}", f"http://127.0.0.1:{server.http}/"):
            ran = run("check", address, "--format", "nagios")
            assert ran.returncode == 3
            assert "`stats`" in ran.stdout
            assert "waits for HTTP" not in ran.stdout


@pytest.mark.integration
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


@pytest.mark.integration
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


@pytest.mark.integration
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


@pytest.mark.integration
def test_a_threshold_decides():
    """The verdict names the option that decided."""
    with uwsgi("--processes", "2") as server, clients(server.http, path="/?io_ms=50"):
        ran = run("check", server.stats, "--seconds", "3", "--max-response-time", "10ms:20ms", "--format", "nagios")
    assert ran.returncode == 2
    assert re.match(
        r"CRITICAL - stats: Requests take \d+ ms on average: --max-response-time allows 20 ms\.", ran.stdout
    )
    assert ";0.01;0.02;0 " in ran.stdout


@pytest.mark.integration
@needs_known_calls
@pytest.mark.integration
@pytest.mark.parametrize("place", ["unix", "tcp"])
def test_a_master_that_is_stopped_is_judged_by_the_kernel(place):
    """`check` of stats that do not answer looks at that uWSGI's workers, and says what its master needs."""
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


@pytest.mark.integration
def test_the_line_that_sleeps():
    """The line that sleeps has nearly the whole time of a request; text and document say so."""
    source = APP.read_text().splitlines()
    with uwsgi("--processes", "2", "--threads", "2") as server, clients(*[server.http] * 3, path="/?io_ms=100"):
        ran = run("check", server.stats, "--seconds", "4", "--code", "--format", "json")
    document = msgspec.json.decode(ran.stdout, type=ServerDocument)
    first = document.code.lines[0]
    assert first.share > 0.8, document.code
    assert (first.file, first.states[0].state) == (str(APP), "sleep")
    assert "sleep" in source[first.line - 1]
    assert document.flow.response_time
    assert first.per_request
    assert first.per_request == pytest.approx(first.share * document.flow.response_time)
    place = f"{first.function} ({'/'.join(APP.parts[-2:])}:{first.line}): sleep"
    assert place in re.sub(r"\s+", " ", "\n".join(render_lines(document)))


def test_the_block_of_the_report():
    """Five lines at most are shown, then how much is in others; names of any length stay within 80 columns."""
    line = code_line(function="f" * 90, file=f"/srv/{'x' * 90}/orders.py", callee="psycopg2 execute", share=0.1)
    outside = replace(line, function="", file="", line=0, callee="", per_request=None)
    shown = Code(why=None, samples=5, threads=100.0, lines=(outside, *[line] * 8), unread=0.1, changed=0.02)
    text = list(render_lines(replace(busy_server(), code=shown)))
    assert max(map(len, text)) <= 80
    flat = "".join("".join(text).split())
    assert flat.count("/orders.py:3),inpsycopg2execute:backend10.0.0.5:5432") == 4
    assert "outsideofPythoncode:backend" in flat
    assert "40%inotherlines,10%notreadable,2.0%dropped." in flat
    assert "Code: not known. No right." in "\n".join(render_lines(replace(busy_server(), code=Code(why="no right"))))


def test_code_is_for_servers_that_check_watches():
    ran = run("check", "/run/none", "--code-prefix", "/srv")
    assert ran.returncode == 3
    assert "--code-prefix needs --code" in ran.stderr


SIDE = DeploySide(requests=9000, seconds=1200.0, throughput=7.5, p95=0.4, queue_wait=None)


def deployed(status: Status, at: float = 1000.0) -> ServerDocument:
    """A server that is well, and what its exporter says of a reload."""
    deploy = Deploy(
        time=at,
        first=at,
        reloads=1,
        status=status,
        sentence=f"It is {status}.",
        before=SIDE,
        after=SIDE,
        changes=(),
        bound=None,
        needed=None,
        expected=1.0,
        is_over=False,
        parts=(),
        routes=(),
    )
    return replace(busy_server(), deploy=deploy)


@pytest.mark.parametrize(
    ("status", "verdict", "waits"),
    [
        ("worse", "critical", False),
        ("same", "ok", False),
        ("better", "ok", False),
        ("early", "unknown", True),
        ("unknown", "unknown", True),
    ],
)
def test_the_status_of_a_deploy(status, verdict, waits):
    """Worse is critical, what is not known is unknown and worth waiting for, and nothing makes a verdict better."""
    judged = apply_deploy(deployed(status), None)
    assert (judged.status, is_undecided([judged])) == (verdict, waits)
    assert f"It is {status}." in [finding.title for finding in judged.findings]
    ill = replace(deployed(status), status="critical")
    assert apply_deploy(ill, None).status == "critical"


def test_which_reload_and_which_server_counts():
    """Not an earlier reload; one that is worse ends the waiting for others."""
    assert apply_deploy(deployed("worse", at=1000.0), 1000.0).status == "critical"
    judged = apply_deploy(deployed("worse", at=999.0), 1000.0)
    assert (judged.status, is_undecided([judged])) == ("unknown", True)
    assert "has seen no reload since" in judged.verdict
    worse, early = (apply_deploy(deployed(status), None) for status in ("worse", "early"))
    assert not is_undecided([worse, early])


def test_moments():
    now = time.mktime((2026, 11, 26, 14, 30, 0, 0, 0, -1))
    assert [parse_moment(text, now) for text in ("14:02", "14:30", "14:40")] == [now - 1680, now, now + 600 - 86_400]
    assert parse_moment("2026-11-26T14:20", now) == now - 600
    assert parse_moment("1795000000.5", now) == 1_795_000_000.5
    for wrong in ("25:00", "yesterday", "9" * 30, ""):
        with pytest.raises(ConfigError):
            parse_moment(wrong, now)


@pytest.mark.integration
def test_end_to_end():
    """A real reload is seen; with so little before it, `compare` and `check` say that nothing is known."""
    with accepting("--processes", "2", "--lazy-apps") as server, exporter(f"--stats=shop={server.stats}") as watching:
        page = f"http://127.0.0.1:{watching.port}/servers/shop"
        wait_until(lambda: '"state":"up"' in watching.get("/api/v2/servers/shop")[1], what="the first reading")
        asked = run("compare", page)
        assert asked.returncode == 1
        assert "saw no reload of shop: give the time that divides before from after, as in `--around" in asked.stderr
        assert "it has no server ship; it watches shop" in run("compare", page.replace("shop", "ship")).stderr
        nobody = f"http://127.0.0.1:{free_port()}/servers/shop"
        assert "nothing listens" in run("compare", nobody).stderr
        assert "It cannot be read: nothing listens here" in run("check", nobody).stdout
        unseen = run("check", page, "--since-reload", "--wait", "1s")
        assert (unseen.returncode, "has seen no reload" in unseen.stdout) == (3, True), unseen
        began = time.time()
        os.kill(server.pid, signal.SIGHUP)
        wait_until(lambda: json.loads(watching.get("/api/v2/servers/shop")[1])["deploy"] is not None, what="the reload")
        compared = run("compare", "shop", "--exporter", f"http://127.0.0.1:{watching.port}", "--json")
        deploy = json.loads(compared.stdout)["deploy"]
        assert (deploy["status"], deploy["reloads"]) == ("unknown", 1)
        assert "of the 10 min before this time are known" in deploy["sentence"]
        assert "before" in run("compare", page, "--around", str(began), "--before", "10m", "--after", "1m").stdout
        checked = run("check", page, "--since-reload", "--not-before", str(began - 1))
        assert (checked.returncode, "nothing can be said" in checked.stdout) == (3, True), checked
        refused = run("check", server.stats, "--since-reload")
        assert refused.returncode == 3
        assert "only an exporter knows" in refused.stdout + refused.stderr
