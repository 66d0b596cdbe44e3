"""`uwsgi-headroom pids`: the command that it prints, run on real uWSGI, and what it refuses."""

import json
import re
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.support.exporter import exporter
from tests.support.real_uwsgi import Uwsgi, accepting, accepts, uwsgi, wait_until
from tests.support.top_screen import hot
from uwsgi_headroom import cli
from uwsgi_headroom.check import pids
from uwsgi_headroom.documents.schema import Identity, ServerDocument, Unknown
from uwsgi_headroom.errors import HeadroomError

HERE = socket.gethostname()


def _hot(host: str = HERE) -> ServerDocument:
    return replace(hot(), identity=Identity(pid=77, local_pid=77, host=host))


def _workers(server: Uwsgi) -> dict[int, tuple[int, int]]:
    document = json.loads(server.document(), strict=False)
    return {
        number: (worker["pid"], sum(core["in_request"] for core in worker["cores"]))
        for number, worker in enumerate(document["workers"], 1)
    }


@contextmanager
def _requests(server: Uwsgi, count: int) -> Iterator[list[socket.socket]]:
    """Requests in service that do not end by themselves while the test lasts."""
    clients = [socket.create_connection(("127.0.0.1", server.http), timeout=60) for _ in range(count)]
    try:
        wait_until(lambda: accepts(server.stats), what="its statistics")
        for client in clients:
            client.sendall(b"GET /?io_ms=600000 HTTP/1.0\r\n\r\n")
        wait_until(lambda: sum(busy for _, busy in _workers(server).values()) == count, what="requests in service")
        yield clients
    finally:
        for client in clients:
            client.close()


def _lost(clients: Sequence[socket.socket]) -> int:
    """How many of the clients' connections were closed without an answer."""
    lost = 0
    for client in clients:
        client.setblocking(False)
        try:
            lost += client.recv(1) == b""
        except BlockingIOError:
            continue
        except ConnectionResetError:
            lost += 1
    return lost


def _print(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = cli.main(["pids", *arguments])
    captured = capsys.readouterr()
    return status, captured.out + captured.err


def _command(text: str, signal: str) -> str:
    (found,) = re.findall(rf"^ *((?:sudo )?kill -{signal} [\d ]+)$", text, re.MULTILINE)
    return str(found)


@pytest.mark.integration
def test_the_command_restarts_these_workers_and_loses_what_it_said(capsys):
    """No other worker is touched, and no other request is lost."""
    with accepting("--processes", "4", "--threads", "2") as server, _requests(server, 5) as clients:
        before = _workers(server)
        busy = sorted(number for number, (_, requests) in before.items() if requests)[:2]
        numbers = ",".join(map(str, busy))
        status, text = _print(capsys, server.stats, "--worker", numbers)
        promised = sum(before[number][1] for number in busy)
        assert (status, f"This loses {promised} request" in text) == (0, True), text
        command = _command(text, "TERM")
        assert sorted(map(int, re.findall(r"\d+", command))) == sorted(before[number][0] for number in busy)
        subprocess.run(command, shell=True, check=True)
        wait_until(
            lambda: all(0 != _workers(server)[number][0] != before[number][0] for number in busy), what="new workers"
        )
        wait_until(lambda: _lost(clients) == promised, what="the lost requests")
        after = _workers(server)
        assert {number: after[number] for number in before if number not in busy} == {
            number: before[number] for number in before if number not in busy
        }


@pytest.mark.integration
def test_without_loss_the_worker_ends_after_its_last_request(capsys):
    """A worker that got SIGHUP completes what is in service, and is then replaced."""
    with accepting("--processes", "1", "--threads", "2") as server:
        with socket.create_connection(("127.0.0.1", server.http), timeout=60) as client:
            client.sendall(b"GET /?io_ms=3000 HTTP/1.0\r\n\r\n")
            wait_until(lambda: _workers(server)[1][1] == 1, what="a request in service")
            pid = _workers(server)[1][0]
            _, text = _print(capsys, server.stats, "--worker", "1")
            assert "requests wait until then" in text
            subprocess.run(_command(text, "HUP"), shell=True, check=True)
            assert client.makefile("rb").read().startswith(b"HTTP/1.")
        wait_until(lambda: _workers(server)[1][0] not in (0, pid), what="a new worker")


@pytest.mark.integration
def test_stuck_workers_by_name_from_an_exporter_or_without_one(capsys, monkeypatch):
    """The exporter knows the server by its name; when it is away, the server is found by its socket."""
    with tempfile.TemporaryDirectory(prefix="pids-") as folder:
        name = Path(folder).name
        stats, alias = f"{folder}/{name}.stats", f"shop-{name}"  # no other server here has these names
        with (
            uwsgi("--processes", "3", "--stats", stats, stats=False) as started,
            _requests(server := replace(started, stats=stats), 1),
        ):
            ((worker, (pid, _)),) = [each for each in _workers(server).items() if each[1][1]]
            with exporter("--stats", f"{alias}={stats}", "--stuck", "1s") as running:
                monkeypatch.setattr(pids, "LISTEN_ADDRESS", f"127.0.0.1:{running.port}")
                wait_until(lambda: _print(capsys, alias, "--stuck")[0] == 0, what="the request to be stuck")
                _, text = _print(capsys, alias, "--stuck")
                assert f"Restart worker {worker} now:" in text
                assert f"kill -TERM {pid}\n" in text
            status, text = _print(capsys, alias, "--worker", str(worker))
            assert (status, f"no server here has the name {alias}" in text) == (1, True)
            assert f"kill -TERM {pid}\n" in _print(capsys, name, "--worker", str(worker))[1]
            assert "no request has been in service for 30 s" in _print(capsys, stats, "--stuck")[1]


@pytest.mark.parametrize(
    ("numbers", "stuck", "why"),
    [
        ((9,), False, "shop has no worker 9: it has 4 workers, numbers 1, 2, 3 and 4"),
        ((1, 9, 12), False, "shop has no workers 9 and 12"),
    ],
)
def test_unknown_workers_are_refused(numbers, stuck, why):
    with pytest.raises(HeadroomError, match=why):
        pids._choose(_hot(), numbers, stuck=stuck)


def test_what_is_lost_and_who_serves_meanwhile():
    """A worker without a process is named, and in no command."""
    text = "\n".join(pids.render_lines(_hot("web1"), pids._choose(_hot(), (3,), stuck=True)))
    assert "       1      101  busy     70 s      1, for 62 s\n" in text
    assert "Restart workers 1 and 3 now, on web1:\n  kill -TERM 101 103\nThis loses 2 requests" in text
    assert "2 others serve meanwhile, with 7 free threads." in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= pids.WIDTH
    every = "\n".join(pids.render_lines(_hot(), _hot().workers))
    assert "no other accepts requests: requests wait until then" in " ".join(every.split())
    assert "Choose which to restart" in "\n".join(pids.render_lines(_hot(), ()))
    server = _hot()
    hostile = replace(server.workers[2], pid=-1, local_pid=None)
    idle = replace(server.workers[0], pid=None, local_pid=None, state="cheap", accepting=False)
    server = replace(server, workers=(idle, server.workers[1], hostile))
    text = "\n".join(pids.render_lines(server, pids._choose(server, (1, 2, 3), stuck=False)))
    assert "Workers 1 and 3 have no process now." in text
    assert "kill -TERM 102\n" in text
    assert "kill" not in "\n".join(pids.render_lines(server, pids._choose(server, (1,), stuck=False)))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            {"state": "down", "verdict": "Down: connection refused."},
            "its PIDs are not known. Down: connection refused.",
        ),
        ({"kind": "emperor"}, "is a uWSGI emperor, which has no workers"),
        ({"workers": ()}, "has no workers: if it is an emperor, give one of its vassals"),
        ({"identity": None}, "no master is known, which would start a new worker"),
    ],
)
def test_a_server_whose_workers_nobody_restarts_is_refused(changes, why):
    """A command that is wrong is worse than none."""
    with pytest.raises(HeadroomError, match=why):
        pids._refuse_what_has_no_workers(replace(_hot(), **changes))


def test_a_pid_that_only_the_document_names_is_in_no_command():
    """The table has uWSGI's own figures; the commands have a placeholder, and the text says why."""
    off = Unknown(what="processes", why="the stats server is on another host (10.0.0.9)", socket=None)
    server = _hot()
    workers = tuple(replace(worker, local_pid=None) for worker in server.workers)
    server = replace(server, identity=Identity(pid=77), workers=workers, unknown=(off,))
    text = "\n".join(pids.render_lines(server, server.workers[:2]))
    assert "       1      101  busy " in text
    assert {line for line in text.splitlines() if "kill" in line} == {
        f"  kill -{signal} PID" for signal in ("TERM", "KILL", "HUP")
    }
    assert "uWSGI's own figures" in text
    assert "the stats server is on another host (10.0.0.9)" in " ".join(text.split())
