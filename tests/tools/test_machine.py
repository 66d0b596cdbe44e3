"""Commands in a terminal, as a person runs them. The machine itself needs root; `make bare-machine` tests it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace

from tests.support.real_uwsgi import wait_until
from tools.machine import Machine, in_terminal

WAITS = """
import time
try:
    print("\\x1b[Kone\\rtwo\\nwaiting", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    print("stopped", flush=True)
    input()  # the kernel discards what was not received when a session's first process ends
"""


def test_ctrl_c_is_a_signal_and_lines_written_over_are_kept():
    """The kernel interrupts the command, and its output is kept as lines, without control sequences."""
    with in_terminal(["setsid", "--ctty", sys.executable, "-c", WAITS]) as terminal:
        wait_until(lambda: "waiting" in terminal.text())
        terminal.interrupt()
        assert terminal.process.wait(60) == 0
        wait_until(lambda: "stopped" in terminal.text())
        os.write(terminal.keyboard, b"\n")
    assert terminal.text().splitlines()[:2] == ["one", "two"]
    assert terminal.silence() > 0


def test_a_command_gets_a_clean_environment_and_the_ways_into_the_network(monkeypatch):
    """The command gets only proxies and pip's index from the caller's environment, and runs as the given user there."""
    monkeypatch.setenv("https_proxy", "http://proxy.example.org")
    monkeypatch.setenv("PIP_INDEX_URL", "http://index.example.org")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    bare = Machine(Path("/root-of-it"), SimpleNamespace(pid=7))
    words = bare.command(["make", "demo"], "visitor", "/home/visitor/x", terminal=True)
    assert words[-2:] == ["make", "demo"]
    assert {"https_proxy=http://proxy.example.org", "PIP_INDEX_URL=http://index.example.org"} <= set(words)
    assert {"--userspec=visitor:visitor", "/root-of-it", "--chdir=/home/visitor/x", "HOME=/home/visitor"} <= set(words)
    assert "--ctty" in words
    assert not any("PYTHONPATH" in word for word in words)
