"""SIGHUP reloads a service or an exporter with a configuration file, and ends one whose terminal is closed."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.exporter import COMMAND, clean_environment
from tests.support.real_uwsgi import ROOT, wait_until

pytestmark = pytest.mark.integration

RELOADED = "the configuration is reloaded"


class Running:
    """A running exporter, and its terminal if it has one."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, keyboard: int) -> None:
        self.process, self.log, self.keyboard = process, log, keyboard

    def logs(self, text: str, count: int = 1) -> None:
        """Waits until the log has this text so many times."""

        def found() -> bool:
            return self.process.poll() is not None or self.log.read_text().count(text) >= count

        wait_until(found, what=text)
        assert self.process.poll() is None, self.log.read_text()


@contextlib.contextmanager
def started(folder: Path, *arguments: str, before: tuple[str, ...] = (), terminal: bool = False) -> Iterator[Running]:
    """Runs the exporter until the block ends, once it has read its server. before: a program that starts it."""
    keyboard, screen = pty.openpty() if terminal else (-1, os.open(os.devnull, os.O_RDWR))
    log = folder / "log"
    (folder / "well.json").write_bytes((ROOT / "tests/fixtures/minified.json").read_bytes())
    (folder / "x.yml").write_text(f"servers: [well=file://{folder}/well.json]\n")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*before, *COMMAND, *arguments, "--web.listen-address", "127.0.0.1:0"],
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
        process.wait(20)
        if terminal:
            with contextlib.suppress(OSError):
                os.close(keyboard)


def test_a_terminal_that_is_closed_ends_it(tmp_path: Path) -> None:
    """With a terminal, SIGHUP reloads; when the terminal is closed, its SIGHUP ends the exporter in order."""
    with started(tmp_path, "--config", f"{tmp_path}/x.yml", before=("setsid", "--ctty"), terminal=True) as running:
        for count in (1, 2):
            running.process.send_signal(signal.SIGHUP)
            running.logs(RELOADED, count)
        os.close(running.keyboard)
        assert running.process.wait(20) == -signal.SIGHUP
    assert "Traceback" not in running.log.read_text()


def test_without_a_terminal_it_reloads(tmp_path: Path) -> None:
    """A service has no terminal: SIGHUP always reloads, also twice at once, and SIGTERM ends it as usual."""
    with started(tmp_path, "--config", f"{tmp_path}/x.yml") as running:
        for _ in range(2):
            running.process.send_signal(signal.SIGHUP)
        running.logs(RELOADED)
        running.process.send_signal(signal.SIGHUP)
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(20) == -signal.SIGTERM
    assert "Traceback" not in running.log.read_text()


def test_without_a_file_it_ends(tmp_path: Path) -> None:
    """Without a configuration file or a service manager, SIGHUP ends the exporter, which writes its history first."""
    history = tmp_path / "history.sqlite"
    stats = ("--stats", f"well=file://{tmp_path}/well.json", "--history", str(history))
    with started(tmp_path, *stats) as running:
        wait_until(history.exists, what="the history")
        running.process.send_signal(signal.SIGHUP)
        assert running.process.wait(20) == -signal.SIGHUP
    assert not list(tmp_path.glob("history.sqlite-wal"))
    assert "Traceback" not in running.log.read_text()


def test_nohup_is_obeyed(tmp_path: Path) -> None:
    """If SIGHUP was ignored at start, it stays ignored, with a file and without."""
    with started(tmp_path, "--config", f"{tmp_path}/x.yml", before=("nohup",)) as running:
        running.process.send_signal(signal.SIGHUP)
        ignored = int(Path(f"/proc/{running.process.pid}/status").read_text().split("SigIgn:")[1].split()[0], 16)
        assert ignored & 1 << (signal.SIGHUP - 1)
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(20) == -signal.SIGTERM
    assert RELOADED not in running.log.read_text()
