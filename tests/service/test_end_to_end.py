"""The real exporter under a stand-in for systemd: notification, reload, and sockets that were opened before it."""

import json
import signal
import socket
import subprocess

import pytest

from tests.service.service_manager import manager, passing
from tests.support import bad_servers
from tests.support.captured_documents import document
from tests.support.exporter import COMMAND, clean_environment, exporter
from tests.support.real_uwsgi import wait_until
from tools.environments import ROOT

pytestmark = pytest.mark.integration

WELL = document("minified")


def write(path, **servers):
    """Writes a configuration of these servers; JSON is YAML."""
    path.write_text(json.dumps({"servers": [{"name": name, "stats": stats} for name, stats in servers.items()]}))


def test_a_service_from_start_to_end(tmp_path, monkeypatch):
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
            unwatched = "uwsgi_exporter_servers_not_watched"
            wait_until(lambda: any(each.startswith(unwatched) for each in running.scrape()), what="the first look")
            before = running.scrape()
            running.process.send_signal(signal.SIGUSR1)  # of log rotation
            write(path, well=well, gone="/nowhere")
            running.process.send_signal(signal.SIGHUP)
            heard.await_state("READY", "1", 2)
            after = running.scrape()
            assert after[samples] >= before[samples]
            assert {name for name in after if name.startswith("uwsgi_up")} == {
                'uwsgi_up{server="well"}',
                'uwsgi_up{server="gone"}',
            }
            path.write_text("servers:\n  - stas: x\n")
            running.process.send_signal(signal.SIGHUP)
            heard.await_state("READY", "1", 3)
            assert f"{path}:2: unknown key 'stas'" in heard.states("STATUS")[-1]
            broken = running.scrape()
            assert broken.keys() == after.keys()
            outcome = "uwsgi_exporter_config_last_reload_successful"
            assert (before[outcome], after[outcome], broken[outcome]) == (1, 1, 0)
            running.process.send_signal(signal.SIGTERM)
            assert running.process.wait(60) == -signal.SIGTERM
            assert "Traceback" not in running.log.read_text()
        heard.await_state("STOPPING", "1")
    assert [name for message in heard.messages for name in ("RELOADING", "STOPPING") if name in message] == [
        "RELOADING",
        "RELOADING",
        "STOPPING",
    ]
    assert heard.messages[-1] == {"STOPPING": "1"}


def ask(listener):
    client = socket.socket(listener.family)
    client.settimeout(60)
    client.connect(listener.getsockname())
    client.sendall(b"GET /metrics HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n")
    return client


def answer(client):
    received = b""
    while part := client.recv(65536):
        received += part
    return received


def test_requests_before_the_exporter_starts(tmp_path):
    """Connections wait in the queues of passed sockets, TCP and UNIX, and the exporter answers them."""
    log, path = tmp_path / "log", str(tmp_path / "web.sock")
    arguments = ["--stats", "/nowhere", "--web.listen-address", "203.0.113.1:9", "--routes"]
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(path)
        unix.listen()
        with ask(tcp) as one, ask(unix) as two, log.open("wb") as output:
            process = subprocess.Popen(
                passing([*COMMAND, *arguments], tcp.fileno(), unix.fileno()),
                cwd=ROOT,
                stdout=output,
                stderr=output,
                env=clean_environment(),
                pass_fds=[tcp.fileno(), unix.fileno()],
            )
            try:
                answers = [answer(one), answer(two)]
                process.send_signal(signal.SIGTERM)
                assert process.wait(60) == -signal.SIGTERM
            finally:
                process.kill()
                process.wait(60)
        ask(tcp).close()  # the sockets stay open
        ask(unix).close()
    for text in answers:
        assert text.startswith(b"HTTP/1.1 200 OK")
        assert b"\nuwsgi_up{" in text
    written = log.read_text()
    assert "Traceback" not in written
    assert written.count("are ignored") == 1
    assert f"path={path}" in written
    assert "url=http://127.0.0.1:" in written
