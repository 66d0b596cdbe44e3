"""The real exporter under a stand-in for systemd: notification, reload, and sockets that were opened before it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from tests.support import bad_servers
from tests.support.captured_documents import document
from tests.support.exporter import COMMAND, clean_environment, exporter
from tests.support.real_uwsgi import ROOT, wait_until
from tests.support.service_manager import manager, passing

pytestmark = pytest.mark.integration

WELL = document("minified")


def write(path: Path, **servers: str) -> None:
    """Writes a configuration of these servers; JSON is YAML."""
    path.write_text(json.dumps({"servers": [{"name": name, "stats": stats} for name, stats in servers.items()]}))


def test_a_service_from_start_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """READY comes when the exporter answers, the watchdog is fed with a silent server, a reload keeps what did not
    change, a broken file is a sentence in the status, and STOPPING comes last."""
    path = tmp_path / "x.yml"
    with (
        manager() as heard,
        bad_servers.answers("unix", WELL) as well,
        bad_servers.accepts_and_never_writes("unix") as silent,
    ):
        monkeypatch.setenv("NOTIFY_SOCKET", heard.address)
        monkeypatch.setenv("WATCHDOG_USEC", "30000000")
        write(path, well=well, silent=silent)
        with exporter("--config", str(path)) as running:
            heard.await_state("READY", "1")
            heard.await_state("WATCHDOG", "1")
            samples = 'uwsgi_exporter_samples_total{server="well"}'
            wait_until(lambda: running.scrape()[samples] >= 3, what="samples")
            before = running.scrape()[samples]
            write(path, well=well, gone="/nowhere")
            running.process.send_signal(signal.SIGHUP)
            heard.await_state("READY", "1", 2)
            after = running.scrape()
            assert after[samples] >= before
            assert {name for name in after if name.startswith("uwsgi_up")} == {
                'uwsgi_up{server="well"}',
                'uwsgi_up{server="gone"}',
            }
            path.write_text("servers:\n  - stas: x\n")
            running.process.send_signal(signal.SIGHUP)
            heard.await_state("READY", "1", 3)
            assert f"{path}:2: unknown key 'stas'" in heard.states("STATUS")[-1]
            assert running.scrape().keys() == after.keys()
            running.process.send_signal(signal.SIGTERM)
            assert running.process.wait(20) == -signal.SIGTERM
            assert "Traceback" not in running.log.read_text()
        heard.await_state("STOPPING", "1")
    assert [name for message in heard.messages for name in ("RELOADING", "STOPPING") if name in message] == [
        "RELOADING",
        "RELOADING",
        "STOPPING",
    ]
    assert heard.messages[-1] == {"STOPPING": "1"}


def ask(listener: socket.socket) -> socket.socket:
    """A connection that has requested metrics."""
    client = socket.socket(listener.family)
    client.settimeout(30)
    client.connect(listener.getsockname())
    client.sendall(b"GET /metrics HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n")
    return client


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_a_request_before_the_exporter_starts(tmp_path: Path, kind: str) -> None:
    """A connection waits in the socket's queue, and the exporter answers it. A configured address is not opened, and
    the log says so."""
    log = tmp_path / "log"
    listener = socket.socket(socket.AF_UNIX if kind == "unix" else socket.AF_INET)
    listener.bind(str(tmp_path / "web.sock") if kind == "unix" else ("127.0.0.1", 0))
    listener.listen()
    arguments = ["--stats", "/nowhere", "--web.listen-address", "203.0.113.1:9", "--routes"]
    with listener, ask(listener) as client, log.open("wb") as output:
        process = subprocess.Popen(
            passing([*COMMAND, *arguments], listener.fileno()),
            cwd=ROOT,
            stdout=output,
            stderr=output,
            env=clean_environment(),
            pass_fds=[listener.fileno()],
        )
        try:
            answer = b""
            while part := client.recv(65536):
                answer += part
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == -signal.SIGTERM
        finally:
            process.kill()
            process.wait(20)
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert b"\nuwsgi_up{" in answer
        ask(listener).close()  # the port stays open
    text = log.read_text()
    assert "Traceback" not in text
    assert text.count("are ignored") == 1
    assert (f"path={tmp_path}/web.sock" if kind == "unix" else "url=http://127.0.0.1:") in text


def test_a_passed_descriptor_that_is_no_listener(tmp_path: Path) -> None:
    """The exporter ends with one sentence and the status of a wrong configuration."""
    with (tmp_path / "file").open("wb") as file:
        ran = subprocess.run(
            passing([*COMMAND, "--stats", "/nowhere"], file.fileno()),
            cwd=ROOT,
            capture_output=True,
            text=True,
            env=clean_environment(),
            pass_fds=[file.fileno()],
            timeout=60,
            check=False,
        )
    assert ran.returncode == 2
    assert "LISTEN_FDS: descriptor 3 (web) is not a socket" in ran.stderr
    assert "Traceback" not in ran.stderr
