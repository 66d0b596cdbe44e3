"""SIGHUP reloads a service or an exporter with a configuration file, and ends one whose terminal is closed."""

import contextlib
import os
import pty
import signal
import subprocess

import pytest

from tests.support.captured_documents import document
from tests.support.exporter import COMMAND, clean_environment
from tests.support.real_uwsgi import wait_until
from tools.environments import ROOT
from uwsgi_headroom.service.reload import Hangup

pytestmark = pytest.mark.integration

RELOADED = "the configuration is reloaded"


class Running:
    """A running exporter, and its terminal if it has one."""

    def __init__(self, process, log, keyboard):
        self.process, self.log, self.keyboard = process, log, keyboard

    def logs(self, text, count=1):
        """Waits until the log has this text so many times."""

        def found():
            return self.process.poll() is not None or self.log.read_text().count(text) >= count

        wait_until(found, what=text)
        assert self.process.poll() is None, self.log.read_text()


@contextlib.contextmanager
def started(folder, *arguments, terminal=False):
    """Runs the exporter until the block ends, once it has read its server. terminal: in a terminal of its own."""
    keyboard, screen = pty.openpty() if terminal else (-1, os.open(os.devnull, os.O_RDWR))
    log = folder / "log"
    (folder / "well.json").write_bytes(document("minified"))
    (folder / "x.yml").write_text(f"servers: [well=file://{folder}/well.json]\n")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*(["setsid", "--ctty"] if terminal else []), *COMMAND, *arguments, "--web.listen-address", "127.0.0.1:0"],
            cwd=ROOT,
            stdin=screen,
            stdout=output,
            stderr=output,
            env=clean_environment(),
            start_new_session=not terminal,
        )
    os.close(screen)
    running = Running(process, log, keyboard)
    try:
        running.logs("msg=reading")
        yield running
    finally:
        process.kill()
        process.wait(60)
        if terminal:
            with contextlib.suppress(OSError):
                os.close(keyboard)
    assert "Traceback" not in log.read_text()


def test_a_terminal_that_is_closed_ends_it(tmp_path):
    with started(tmp_path, "--config", f"{tmp_path}/x.yml", terminal=True) as running:
        for count in (1, 2):
            running.process.send_signal(signal.SIGHUP)
            running.logs(RELOADED, count)
        os.close(running.keyboard)
        assert running.process.wait(60) == -signal.SIGHUP


def test_without_a_terminal_it_reloads(tmp_path):
    """A service has no terminal: SIGHUP always reloads, also twice at once, and SIGTERM ends it as usual."""
    with started(tmp_path, "--config", f"{tmp_path}/x.yml") as running:
        for _ in range(2):
            running.process.send_signal(signal.SIGHUP)
        running.logs(RELOADED)
        running.process.send_signal(signal.SIGHUP)
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(60) == -signal.SIGTERM


def test_without_a_file_it_ends(tmp_path):
    """Without a configuration file or a service manager, SIGHUP ends the exporter, which writes its history first."""
    history = tmp_path / "history.sqlite"
    stats = ("--stats", f"well=file://{tmp_path}/well.json", "--history", str(history))
    with started(tmp_path, *stats) as running:
        wait_until(history.exists, what="the history")
        running.process.send_signal(signal.SIGHUP)
        assert running.process.wait(60) == -signal.SIGHUP
    assert not list(tmp_path.glob("history.sqlite-wal"))


@pytest.mark.parametrize("reloads", [False, True])
def test_nohup_is_obeyed(reloads):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        Hangup(reloads=reloads).attach(lambda _signal, _frame: None, lambda: None)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_request_before_the_exporter_serves_is_kept():
    """A SIGHUP while the exporter starts reloads once it serves."""
    before = signal.getsignal(signal.SIGHUP)
    reloads = []
    try:
        hangup = Hangup(reloads=True)
        signal.raise_signal(signal.SIGHUP)
        assert not reloads
        hangup.attach(lambda _signal, _frame: reloads.append("end"), lambda: reloads.append("reload"))
        assert reloads == ["reload"]
        signal.raise_signal(signal.SIGHUP)
        assert reloads == ["reload"] * 2
    finally:
        signal.signal(signal.SIGHUP, before)
