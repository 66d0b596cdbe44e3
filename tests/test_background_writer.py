"""A background writer writes texts in order, and no caller waits for the reader."""

from __future__ import annotations

import contextlib
import os
import queue
from collections.abc import Iterator
from typing import BinaryIO

from uwsgi_headroom.background_writer import BackgroundWriter

MORE_THAN_A_PIPE_HOLDS = b"x" * 1_000_000
PATIENCE = 60.0


@contextlib.contextmanager
def pipe() -> Iterator[tuple[BinaryIO, int]]:
    """A pipe: the reading end as a file, and the descriptor of the writing end."""
    reader, writer = os.pipe()
    try:
        with open(reader, "rb") as file:
            yield file, writer
    finally:
        os.close(writer)


def fits(writer: BackgroundWriter, text: bytes) -> bool:
    try:
        writer.put(text)
    except queue.Full:
        return False
    return True


def test_texts_are_written_in_order() -> None:
    """A text larger than the pipe is written whole, as the reader makes room."""
    with pipe() as (reader, descriptor):
        writer = BackgroundWriter(descriptor, "test")
        for text in (b"one ", b"two ", b"three"):
            writer.put(text)
        writer.finish(PATIENCE)
        assert not writer.busy
        assert reader.read(len(b"one two three")) == b"one two three"
    with pipe() as (reader, descriptor):
        writer = BackgroundWriter(descriptor, "test")
        writer.put(MORE_THAN_A_PIPE_HOLDS)
        writer.put(b"end")
        assert reader.read(len(MORE_THAN_A_PIPE_HOLDS) + 3) == MORE_THAN_A_PIPE_HOLDS + b"end"


def test_it_is_busy_while_nobody_reads() -> None:
    """`finish` gives up after its timeout; when the reader continues, the text still arrives."""
    with pipe() as (reader, descriptor):
        writer = BackgroundWriter(descriptor, "test")
        writer.put(MORE_THAN_A_PIPE_HOLDS)
        writer.finish(0.01)
        assert writer.busy
        assert reader.read(len(MORE_THAN_A_PIPE_HOLDS)) == MORE_THAN_A_PIPE_HOLDS
        writer.finish(PATIENCE)
        assert not writer.busy


def test_a_bounded_writer_refuses_what_does_not_fit() -> None:
    """Two texts may wait behind the one in progress; accepted texts are written, and then there is room again."""
    with pipe() as (reader, descriptor):
        writer = BackgroundWriter(descriptor, "test", most_waiting=2)
        writer.put(MORE_THAN_A_PIPE_HOLDS)
        accepted = sum(fits(writer, b"y") for _ in range(3))
        assert 1 <= accepted <= 2
        expected = MORE_THAN_A_PIPE_HOLDS + b"y" * accepted
        assert reader.read(len(expected)) == expected
        writer.finish(PATIENCE)
        writer.put(b"z")
        assert reader.read(1) == b"z"


def test_an_unbounded_writer_refuses_nothing() -> None:
    with pipe() as (reader, descriptor):
        writer = BackgroundWriter(descriptor, "test")
        writer.put(MORE_THAN_A_PIPE_HOLDS)
        for _ in range(5000):
            writer.put(b"y")
        assert reader.read(len(MORE_THAN_A_PIPE_HOLDS) + 5000) == MORE_THAN_A_PIPE_HOLDS + b"y" * 5000


def test_a_reader_that_is_gone_is_reported() -> None:
    """Each failed write is reported once, including those of waiting texts, and the writer continues."""
    failures: list[str] = []
    with pipe() as (reader, descriptor):
        writer = BackgroundWriter(descriptor, "test", on_failure=lambda: failures.append("gone"))
        reader.close()
        writer.put(b"one")
        writer.put(b"two")
        writer.finish(PATIENCE)
    assert failures == ["gone", "gone"]
    assert not writer.busy


def test_a_failed_write_is_ignored_by_default() -> None:
    with pipe() as (reader, descriptor):
        writer = BackgroundWriter(descriptor, "test")
        reader.close()
        writer.put(b"one")
        writer.finish(PATIENCE)
        assert not writer.busy
