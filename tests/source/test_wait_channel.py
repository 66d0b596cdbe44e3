"""A process that waits for a full pipe is recognised, and no other process is mistaken for one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tools.support.real_uwsgi import wait_until
from uwsgi_headroom.source.read import waits_to_write_a_pipe

WRITER = "import os\nwhile True: os.write(1, bytes(65536))"


def test_a_writer_at_a_full_pipe() -> None:
    """A process that writes to a pipe without a reader is recognised while it lives."""
    with subprocess.Popen([sys.executable, "-c", WRITER], stdout=subprocess.PIPE) as process:
        try:
            wait_until(lambda: waits_to_write_a_pipe(process.pid), what="the pipe to fill")
        finally:
            process.kill()
    assert not waits_to_write_a_pipe(process.pid)


def test_a_process_that_waits_for_something_else() -> None:
    """A reader of a pipe does not count as a waiting writer, nor does a process whose wait channel is unreadable."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        assert not waits_to_write_a_pipe(process.pid)
        process.kill()
    assert not waits_to_write_a_pipe(1, proc=Path("/nowhere"))
