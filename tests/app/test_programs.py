"""The programs of a demo, and its line of figures."""

import http.client
import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from app import demo, loopback, programs
from app.loopback import PREFIX, listener
from app.programs import Program, ProgramError, running
from tests.app.stand_in import DOCUMENT
from tests.support import real_uwsgi
from tools.environments import ROOT


def shell(name, script, ready=lambda: True, *, required=True):
    return Program(name=name, sentence=f"starting {name}", command=["sh", "-c", script], ready=ready, required=required)


def lasting(name, diary):
    """A program that writes its start and its end into the diary, and is ready when its start is written."""
    script = f"trap 'echo {name} ends >> {diary}; exit' TERM; echo {name} starts >> {diary}; sleep 60 & wait"
    return shell(name, script, ready=lambda: diary.exists() and f"{name} starts" in diary.read_text())


def test_each_starts_when_the_one_before_is_ready(tmp_path):
    diary = tmp_path / "diary"
    with running([lasting("a", diary), lasting("b", diary)], tmp_path, tmp_path) as up:
        up.check()
        assert diary.read_text().splitlines() == ["a starts", "b starts"]
    assert sorted(diary.read_text().splitlines()[2:]) == ["a ends", "b ends"]


def test_one_that_ends_is_reported_with_its_last_words(tmp_path):
    """The check raises, because the demo is useless without a required program."""
    programs_ = [lasting("a", tmp_path / "diary"), shell("b", "echo the disk is full; sleep 0.1; exit 7")]
    ended = ""
    with running(programs_, tmp_path, tmp_path) as up:

        def has_ended():
            nonlocal ended
            try:
                up.check()
            except ProgramError as error:
                ended = str(error)
            return bool(ended)

        real_uwsgi.wait_until(has_ended, what="the end to be noticed")
    assert ended == "b ended (status 7). Its log ends with:\n  | the disk is full"
    assert "a ends" in (tmp_path / "diary").read_text()


def test_one_that_ends_before_it_is_ready_ends_all(tmp_path):
    diary = tmp_path / "diary"
    failing = shell("b", "kill -9 $$", ready=lambda: False)
    with (
        pytest.raises(ProgramError, match=r"^b ended \(SIGKILL\) without output$"),
        running([lasting("a", diary), failing], tmp_path, tmp_path),
    ):
        pass
    assert diary.read_text().splitlines() == ["a starts", "a ends"]


def test_one_that_is_not_required_is_left_out(tmp_path, capsys):
    """The reason is reported, whether the program fails at its start or later, and the others continue."""
    diary, end = tmp_path / "diary", tmp_path / "end"
    failing = shell("b", "echo no such file; exit 1", ready=lambda: False, required=False)
    ending = shell("c", f"while [ ! -e {end} ]; do sleep 0.02; done; echo bye; exit 2", required=False)
    with running([failing, lasting("a", diary), ending], tmp_path, tmp_path) as up:
        assert up.names() == ["a", "c"]
        assert capsys.readouterr().out.splitlines()[1:3] == [
            "  Going on without b, which ended (status 1). Its log ends with:",
            "  | no such file",
        ]
        end.touch()
        news = []

        def is_reported():
            up.check()
            news.extend(up.news())
            return bool(news)

        real_uwsgi.wait_until(is_reported, what="the end of c to be reported")
        assert news == ["  Going on without c, which ended (status 2). Its log ends with:\n  | bye"]
        assert up.names() == ["a"]
        assert up.news() == []
    assert diary.read_text().splitlines() == ["a starts", "a ends"]


def test_required_one_that_ends_while_another_starts_ends_all(tmp_path, capsys):
    slow = shell("b", "exec sleep 60", ready=lambda: False, required=False)
    with (
        pytest.raises(ProgramError, match=r"^a ended \(status 4\)"),
        running([shell("a", "sleep 0.2; exit 4"), slow], tmp_path, tmp_path),
    ):
        pass
    with running([lasting("a", tmp_path / "diary")], tmp_path, tmp_path, ending="ending"):
        assert "ending" not in capsys.readouterr().out
    assert capsys.readouterr().out.startswith("  ending  ")


def test_one_that_never_becomes_ready_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "START_SECONDS", 0.2)
    stuck = shell("a", "echo waiting for a lock; exec sleep 60", ready=lambda: False)
    with (
        pytest.raises(ProgramError, match=r"a is not ready after 0\.2 s.*\n.*waiting for a lock"),
        running([stuck], tmp_path, tmp_path),
    ):
        pass


def test_one_that_is_not_required_may_take_long(tmp_path, monkeypatch, capsys):
    """The program continues to start, and the others no longer wait for it."""
    monkeypatch.setattr(programs, "START_SECONDS", 0.2)
    diary = tmp_path / "diary"
    slow = shell("b", f"trap 'echo b ends >> {diary}; exit' TERM; sleep 60 & wait", lambda: False, required=False)
    with running([slow, lasting("a", diary)], tmp_path, tmp_path) as up:
        up.check()
        assert up.names() == ["b", "a"]
        assert "  b is not ready after 0.2 s; it continues to start in the background\n" in capsys.readouterr().out
    assert "b ends" in diary.read_text()


def test_one_that_ignores_the_end_is_ended_for_certain(tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "STOP_SECONDS", 0.2)
    marker = tmp_path / "marker"
    script = f"trap '' TERM; echo > {marker}; while :; do sleep 60; done"
    with running([shell("a", script, ready=marker.exists)], tmp_path, tmp_path):
        pass  # if the program is not killed, this test takes a minute


def test_a_line_has_shares_busy_threads_and_headroom():
    """Workers without a request have no share. A server that is down says so, whatever its last verdict was."""
    line = "shares 75%/25%; 3.0 of 32 threads busy; headroom 2.5x, first limit: hottest interpreter"
    assert demo.read_figures(json.dumps(DOCUMENT)) == line
    assert demo.read_verdict(json.dumps(DOCUMENT)) == "WARNING: Worker 1 takes 75 % of the requests."
    assert demo.read_verdict(json.dumps(DOCUMENT | {"state": "down"})) == "DOWN: the server cannot be read."


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"workers": []}, "3.0 of 32 threads busy; headroom 2.5x, first limit: hottest interpreter"),
        ({"threads": {"available": None}}, "shares 75%/25%; headroom 2.5x, first limit: hottest interpreter"),
        ({"headroom": {"factor": None, "first": None}}, "shares 75%/25%; 3.0 of 32 threads busy"),
        ({"flow": None}, None),
        ({"state": "down"}, None),
    ],
)
def test_figures_that_are_not_known_are_left_out(change, line):
    assert demo.read_figures(json.dumps(DOCUMENT | change)) == line


@pytest.mark.parametrize("text", [None, "", json.dumps(DOCUMENT | {"flow": None})])
def test_no_figures_are_no_verdict(text):
    assert demo.read_verdict(text) is None
    assert demo.read_figures(text) is None


def test_a_free_port_is_chosen(monkeypatch):
    """The preferred one if it is free, else one that the kernel gives to nobody, if there is one."""
    port = loopback.free_port()
    assert loopback.free_port(port) == port
    assert loopback.server_ports().stop == int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    monkeypatch.setattr(loopback, "server_ports", lambda: range(15_000, 25_000))
    assert loopback.free_port() in range(15_000, 25_000)
    monkeypatch.setattr(loopback, "server_ports", lambda: range(0))
    assert loopback.why_taken(loopback.free_port()) is None
    chosen = iter([15_000, 15_000, 15_000, 15_001])
    monkeypatch.setattr(loopback, "free_port", lambda: next(chosen))
    assert sorted(loopback.free_ports(2)) == [15_000, 15_001]


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_another_port_is_chosen_if_it_is_taken(host):
    """A port also counts as taken if a process listens on every address."""
    with socket.create_server((host, 0)) as taken:
        port = taken.getsockname()[1]
        assert loopback.free_port(port) != port
        assert "in use" in loopback.why_taken(port)


LISTEN = """\
import socket, sys
with socket.create_server(("127.0.0.1", int(sys.argv[1]))):
    print("listens", flush=True)
    sys.stdin.read()
"""


def test_who_listens():
    with socket.create_server(("127.0.0.1", 0)) as server:
        owner = listener(server.getsockname()[1])
        assert owner.pid == os.getpid()
        assert str(owner).endswith(f" (process {os.getpid()})")
    assert listener(real_uwsgi.free_port()) is None
    assert loopback.get(loopback.free_port(), "/") is None


@pytest.mark.parametrize(("directory", "demo"), [(f"/tmp/{PREFIX}1234", True), ("/tmp/else", False)])
def test_program_of_a_demo_is_told_from_others(directory, demo):
    """A demo's program is recognized by its TMPDIR, and the demo itself is named as the process to end."""
    port = real_uwsgi.free_port()
    with subprocess.Popen(
        [sys.executable, "-c", LISTEN, str(port)],
        env={**os.environ, "TMPDIR": directory},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout.readline() == b"listens\n"
        owner = listener(port)
        assert owner.pid == process.pid
        assert (str(owner) == f"another demo (process {os.getpid()})") is demo
        process.communicate()


@pytest.mark.integration
def test_four_workers_of_eight_threads_with_stats_for_the_group(served):
    assert [len(worker["cores"]) for worker in served.workers()] == [8, 8, 8, 8]
    assert stat.S_IMODE(served.stats.stat().st_mode) == 0o660


@pytest.mark.integration
@pytest.mark.parametrize("path", ["/", "/9000", "/pong", "/fib/5", "/mixed?cpu_ms=1&io_ms=1", "/slow?s=0"])
def test_routes_answer(served, path):
    assert served.get(path).status == 200


@pytest.mark.integration
def test_error_is_counted_as_one_exception(served):
    """The client gets no response, uWSGI counts one exception, and the worker survives."""
    before, workers = served.exceptions(), [worker["pid"] for worker in served.workers()]
    with pytest.raises(http.client.RemoteDisconnected):
        served.get("/error")
    real_uwsgi.wait_until(lambda: served.exceptions() == before + 1, what="the exception to be counted")
    assert [worker["pid"] for worker in served.workers()] == workers


@pytest.mark.integration
@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("listen = 100", "lisen = 100"), "unknown config directive: lisen"),
        (("RUN_DIR", "NOT_SET"), "the-environment-variable-NOT_SET-is-not-set"),
    ],
)
def test_mistakes_are_refused(tmp_path, change, complaint):
    changed = tmp_path / "uwsgi.ini"
    changed.write_text((ROOT / "app" / "uwsgi.ini").read_text().replace(*change))
    ended = subprocess.run(
        [real_uwsgi.uwsgi_binary(), "--ini", changed],
        env={**os.environ, "RUN_DIR": str(tmp_path), "HTTP": f"127.0.0.1:{real_uwsgi.free_port()}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    assert complaint in ended.stdout + ended.stderr
