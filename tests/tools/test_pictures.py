"""Tests that tools.pictures explains in one sentence why it cannot take a picture yet."""

from __future__ import annotations

import subprocess
import sys

from tests.support.captured_documents import path
from tests.support.real_uwsgi import free_port
from tests.support.web_server import serving
from tools.environments import ROOT
from tools.pictures import too_early

FIXTURE = path("2.0.31_threads")


def test_without_a_demo_it_says_what_to_start() -> None:
    """If no exporter listens, the sentence names the command to start."""
    port = free_port()
    assert f"no exporter answers on port {port}: start `make demo PORT={port}`" in (too_early(port) or "")


def test_of_a_young_demo_it_says_how_long_to_wait() -> None:
    """A picture needs figures over 59 s."""
    with serving(f"demo=file://{FIXTURE}") as port:
        assert "the figures are over 0 s so far, and a picture needs 59 s: try again in 59 s" in (too_early(port) or "")


def test_an_exporter_of_several_servers_is_not_the_demos() -> None:
    """The tool refuses an exporter with several servers, because its page at `/` is the list."""
    with serving(f"a=file://{FIXTURE}", f"b=file://{FIXTURE}") as port:
        assert "it has 2 servers" in (too_early(port) or "")


def test_it_ends_with_that_sentence() -> None:
    """The program ends with the sentence, without starting a browser and without a traceback."""
    port = free_port()
    command = [sys.executable, "-m", "tools.pictures", "page", str(port)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (1, f"{too_early(port)}\n")
