"""A log that `check` finds by itself is read in a process that can be ended, and only if uWSGI has it open."""

import asyncio
import os
import time

import pytest

from tests.support.simulated_server import MovableClock
from tests.watch.test_log_reader import KNOWN, Watched, reader_of, turns
from uwsgi_headroom.kernel.aside import LOGS
from uwsgi_headroom.uwsgi_log.log import UwsgiLog

ENDED = KNOWN % 7


@pytest.fixture
def writer(tmp_path):
    """A log that this process has open, as a master has."""
    with (tmp_path / "log").open("ab", buffering=0) as file:
        yield file


async def read(watched, *acts):
    """The lines that were read; between two turns, one act is done."""
    clock = MovableClock()
    reader = reader_of([watched], clock)
    await turns(reader, clock, 1)
    for act in acts:
        act()
        await turns(reader, clock, 1)
    return watched.lines


def found(path):
    return Watched(UwsgiLog(str(path), os.getpid()))


@pytest.mark.parametrize("before", [b"\n", ENDED, b"\0" * 5000 + b"x" * 5_000_000])
async def test_it_begins_at_its_end(writer, before):
    """What was there before says nothing about now: not even the rest of a line."""
    writer.write(before)
    watched = found(writer.name)
    end = b"\n" * (not before.endswith(b"\n"))
    assert await read(watched, lambda: writer.write(end + ENDED * 3)) == 3
    assert watched.batches[-1].seen.total() == 3
    assert watched.batches[-1].trouble is None


async def test_one_of_ten_gigabytes_is_read_at_once(writer):
    writer.truncate(10 << 30)
    began = time.process_time()
    assert await read(found(writer.name), lambda: writer.write(b"\n" + ENDED)) == 1
    assert time.process_time() - began < 2.0


async def test_rotated_and_deleted(writer, tmp_path):
    """A file that was renamed or deleted is read on, and the new one once uWSGI has opened that."""
    path, new = tmp_path / "log", []

    def rotate():
        path.rename(tmp_path / "log.1")
        path.write_bytes(b"")
        writer.write(ENDED)

    def open_new():
        new.append(path.open("ab", buffering=0))
        new[0].write(ENDED)

    def delete():
        path.unlink()
        new[0].write(ENDED)

    watched = found(path)
    assert await read(watched, rotate, open_new, delete) == 3
    new[0].close()


@pytest.mark.parametrize("flags", [None, os.O_PATH, os.O_RDONLY])
async def test_what_uwsgi_has_not_opened_is_not_read(writer, tmp_path, flags):
    """A link of a user to another file: root would read what the user may not, and may not write."""
    secret, link = tmp_path / "secret", tmp_path / "link"
    secret.write_bytes(ENDED)
    link.symlink_to(secret)
    place = None if flags is None else os.open(secret, flags)
    watched = found(link)
    assert await read(watched, lambda: secret.write_bytes(ENDED * 9)) == 0
    assert watched.batches[-1].trouble == "it cannot be opened"
    if place is not None:
        os.close(place)


async def test_what_is_no_regular_file_is_not_opened(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path in (fifo, "/dev/null"):
        watched = found(path)
        assert await read(watched) == 0
        assert watched.batches[-1].trouble == "it is no regular file"


def test_one_that_hangs_is_given_up(monkeypatch, writer):
    monkeypatch.setattr("uwsgi_headroom.watch.log_reader.read_found", hang)
    watched = found(writer.name)
    assert asyncio.run(read(watched)) == 0
    assert watched.log.is_given_up
    assert watched.batches[-1].trouble == "its file system does not answer"
    assert LOGS._process is None


def hang(*_arguments):
    time.sleep(60)
