"""Log lines are written, and no caller waits for that."""

from __future__ import annotations

import os
import subprocess
import sys

SCRIPT = """
import logging, sys
from uwsgi_headroom import logs
logs.configure("info", sys.argv[1])
for number in range(int(sys.argv[2])):
    logging.info("a line", extra={"fields": {"number": number, "padding": "x" * 100}})
print("done", flush=True)
"""


def command(style: str, lines: int) -> list[str]:
    return [sys.executable, "-c", SCRIPT, style, str(lines)]


def test_the_last_lines_get_out() -> None:
    """A program that ends right after logging has written all lines. JSON has the same fields."""
    done = subprocess.run(command("logfmt", 500), capture_output=True, text=True, check=True, timeout=60)
    lines = done.stderr.splitlines()
    assert len(lines) == 500
    assert 'level=info msg="a line" number=499' in lines[-1]
    done = subprocess.run(command("json", 1), capture_output=True, text=True, check=True, timeout=60)
    assert '"msg": "a line", "number": 0' in done.stderr


def test_level_and_style_change_while_it_runs() -> None:
    """After `adjust`, lines have the other style, and lines below the level are left out, each line once."""
    script = SCRIPT + 'logs.adjust("warning", "json"); logging.info("quiet"); logging.warning("loud")'
    done = subprocess.run(
        [sys.executable, "-c", script, "logfmt", "1"], capture_output=True, text=True, check=True, timeout=60
    )
    first, last = done.stderr.splitlines()
    assert 'msg="a line"' in first
    assert '"level": "warning", "msg": "loud"' in last


def test_nobody_waits_for_a_full_pipe() -> None:
    """If nobody reads, lines that do not fit into the pipe are dropped, and the program continues and ends."""
    reader, writer = os.pipe()
    try:
        done = subprocess.run(command("logfmt", 5000), stdout=subprocess.PIPE, stderr=writer, check=True, timeout=60)
    finally:
        os.close(reader)
        os.close(writer)
    assert done.stdout == b"done\n"


def test_dropped_lines_are_counted() -> None:
    reader, writer = os.pipe()
    script = SCRIPT + "sys.stdin.readline(); logging.info('after')"
    program = [sys.executable, "-c", script, "logfmt", "5000"]
    with (
        subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=writer) as running,
        open(reader, "rb") as pipe,
    ):
        os.close(writer)
        assert running.stdin is not None
        assert running.stdout.readline() == b"done\n"
        for _ in range(1000):  # reading makes room for as many lines
            pipe.readline()
        running.stdin.write(b"\n")
        running.stdin.close()
        last = pipe.read().decode().splitlines()[-1]
    assert "msg=after lines_dropped=" in last
