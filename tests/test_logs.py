"""The log, and the writer behind it."""

import contextlib
import os
import queue
import subprocess
import sys

from uwsgi_headroom.logs import BackgroundWriter

SCRIPT = """
import logging, sys
from uwsgi_headroom import logs
logs.configure("info", sys.argv[1])
for number in range(int(sys.argv[2])):
    logging.info("a line", extra={"fields": {"number": number, "padding": "x" * 100}})
print("done", flush=True)
"""


def command(style, lines, more=""):
    return [sys.executable, "-c", SCRIPT + more, style, str(lines)]


def logged(*arguments):
    return subprocess.run(command(*arguments), capture_output=True, text=True, check=True, timeout=60).stderr


def test_the_last_lines_get_out():
    """After `adjust`, in the other style."""
    lines = logged("logfmt", 500).splitlines()
    assert len(lines) == 500
    assert 'level=info msg="a line" number=499' in lines[-1]
    assert '"msg": "a line", "number": 0' in logged("json", 1)
    more = 'logs.adjust("warning", "json"); logging.info("quiet"); logging.warning("loud")'
    first, last = logged("logfmt", 1, more).splitlines()
    assert 'msg="a line"' in first
    assert '"level": "warning", "msg": "loud"' in last


def test_nobody_waits_for_a_full_pipe():
    """If nobody reads, lines that do not fit into the pipe are dropped, and the program continues and ends."""
    reader, writer = os.pipe()
    try:
        done = subprocess.run(command("logfmt", 5000), stdout=subprocess.PIPE, stderr=writer, check=True, timeout=60)
    finally:
        os.close(reader)
        os.close(writer)
    assert done.stdout == b"done\n"


def test_dropped_lines_are_counted():
    reader, writer = os.pipe()
    program = command("logfmt", 5000, "sys.stdin.readline(); logging.info('after')")
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


MORE_THAN_A_PIPE_HOLDS = b"x" * 1_000_000
PATIENCE = 60.0


@contextlib.contextmanager
def written(**options):
    """A pipe: the file of its reading end, and a writer at the other one."""
    reader, descriptor = os.pipe()
    try:
        with open(reader, "rb") as file:
            yield file, BackgroundWriter(descriptor, "test", **options)
    finally:
        os.close(descriptor)


def fits(writer, text):
    try:
        writer.put(text)
    except queue.Full:
        return False
    return True


def test_texts_are_written_in_order():
    """A text larger than the pipe is written whole, as the reader makes room."""
    with written() as (reader, writer):
        for text in (b"one ", b"two ", b"three"):
            writer.put(text)
        writer.finish(PATIENCE)
        assert not writer.busy
        assert reader.read(len(b"one two three")) == b"one two three"
    with written() as (reader, writer):
        writer.put(MORE_THAN_A_PIPE_HOLDS)
        writer.put(b"end")
        assert reader.read(len(MORE_THAN_A_PIPE_HOLDS) + 3) == MORE_THAN_A_PIPE_HOLDS + b"end"


def test_it_is_busy_while_nobody_reads():
    """`finish` gives up after its timeout; when the reader continues, the text still arrives."""
    with written() as (reader, writer):
        writer.put(MORE_THAN_A_PIPE_HOLDS)
        writer.finish(0.01)
        assert writer.busy
        assert reader.read(len(MORE_THAN_A_PIPE_HOLDS)) == MORE_THAN_A_PIPE_HOLDS
        writer.finish(PATIENCE)
        assert not writer.busy


def test_a_bounded_writer_refuses_what_does_not_fit():
    """Two texts may wait behind the one in progress; accepted texts are written, and then there is room again."""
    with written(most_waiting=2) as (reader, writer):
        writer.put(MORE_THAN_A_PIPE_HOLDS)
        accepted = sum(fits(writer, b"y") for _ in range(3))
        assert 1 <= accepted <= 2
        expected = MORE_THAN_A_PIPE_HOLDS + b"y" * accepted
        assert reader.read(len(expected)) == expected
        writer.finish(PATIENCE)
        writer.put(b"z")
        assert reader.read(1) == b"z"


def test_what_a_writer_does_by_default():
    """It refuses nothing, and ignores a failed write."""
    with written() as (reader, writer):
        writer.put(MORE_THAN_A_PIPE_HOLDS)
        for _ in range(5000):
            writer.put(b"y")
        assert reader.read(len(MORE_THAN_A_PIPE_HOLDS) + 5000) == MORE_THAN_A_PIPE_HOLDS + b"y" * 5000
    with written() as (reader, writer):
        reader.close()
        writer.put(b"one")
        writer.finish(PATIENCE)
        assert not writer.busy


def test_a_reader_that_is_gone_is_reported():
    """Each failed write is reported once, including those of waiting texts, and the writer continues."""
    failures = []
    with written(on_failure=lambda: failures.append("gone")) as (reader, writer):
        reader.close()
        writer.put(b"one")
        writer.put(b"two")
        writer.finish(PATIENCE)
    assert failures == ["gone", "gone"]
    assert not writer.busy
