"""A log is read from its end on, through rotation in every way, and nothing but a regular file is opened."""

import contextlib
import errno
import os
import re
import shutil
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.support.other_namespaces import as_root, in_child
from tests.support.real_uwsgi import wait_until
from tests.uwsgi_log.capture import APP, get, serving
from uwsgi_headroom.uwsgi_log import tail as module
from uwsgi_headroom.uwsgi_log.scan import BLOCK_BYTES, LONGEST_UNENDED
from uwsgi_headroom.uwsgi_log.tail import IDLE_SECONDS, MOST_BEHIND, Tail
from uwsgi_headroom.watch.log_reader import TURN_SECONDS

ALL = 1 << 30


class Read:
    def __init__(self, path):
        self.tail = Tail(str(path))
        self.now = 0.0

    def __call__(self, most=ALL):
        """What a look finds, without the marks where lines were left out."""
        self.now += 0.5
        return b"".join(block for block in self.tail.read(self.now, most) if block)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "shop.log"


@pytest.fixture
def read(path):
    return Read(path)


@pytest.fixture
def follow(path, read):
    path.touch()
    read()
    return read


def append(path, text):
    with path.open("ab") as file:
        file.write(text)


def test_it_begins_at_the_end(path, read):
    """What was there, or had begun, is not read. Lines are whole, and a look reads no more than it may."""
    path.write_bytes(b"old\nhalf a li")
    assert read() == b""
    append(path, b"ne\nnew\nhalf")
    assert read() == b"new\n"
    append(path, b" a line\n" + b"y" * 999_899 + b"\n")
    assert read(100) == b"half a line\n"


def test_a_file_that_appears_later_is_all_new(path, read):
    assert read() == b""
    assert read.tail.trouble == "there is no file of that name"
    path.write_bytes(b"first\n")
    assert read() == b"first\n"
    assert read.tail.trouble is None


def test_a_renamed_file_is_read_to_its_end(path, follow):
    """uWSGI writes to the old file until it opens the new one. Both are read, the old one as long as it grows."""
    append(path, b"1\n")
    old = path.rename(path.with_suffix(".log.1"))
    append(old, b"2\n")
    path.write_bytes(b"3\n")
    assert follow() == b"1\n2\n3\n"
    for line in (b"4\n", b"5\n"):
        follow.now += IDLE_SECONDS
        append(old, line)
        assert next(follow.tail.read(follow.now, ALL)) == line  # a turn without CPU time left ends so
        assert follow() == b""
    follow.now += IDLE_SECONDS
    follow()
    append(old, b"6\n")
    assert follow() == b""
    assert len(follow.tail._files) == 1


def test_a_file_that_gets_its_name_back_is_not_read_twice(path, follow):
    append(path, b"1\n")
    follow()
    old = path.rename(path.with_suffix(".log.1"))
    path.touch()
    follow()
    old.rename(path)
    append(path, b"2\n")
    assert follow() == b"2\n"


def test_a_truncated_file_is_read_from_its_beginning(path, follow):
    append(path, b"first\nsecond\n")
    follow()
    for text in (b"3\n", b"4\n", b"a longer line than before\n"):
        path.write_bytes(text)
        assert follow() == text


def test_a_copied_and_truncated_file_is_read_on(path, follow):
    append(path, b"1\nhalf")
    assert follow() == b"1\n"
    append(path, b" a line\n")
    shutil.copy(path, path.with_suffix(".log.1"))
    os.truncate(path, 0)
    append(path, b"2\n")
    assert follow() == b"2\n"


def test_a_hole_after_a_truncation_is_no_text(path, read):
    """A program that does not append writes on at its old place: what is before it reads as NUL."""
    with path.open("wb", buffering=0) as writer:
        writer.write(b"x" * 5000 + b"\n")
        read()
        writer.write(b"1\n")
        assert read() == b"1\n"
        os.truncate(path, 0)
        for line in (b"2\n", b"3\n"):
            writer.write(line)
            assert read() == line


def test_a_deleted_file_is_read_while_it_grows(path, follow):
    with path.open("ab", buffering=0) as writer:
        path.unlink()
        writer.write(b"1\n")
        assert follow() == b"1\n"
        assert follow.tail.trouble == "there is no file of that name"
        assert follow() == b""
        follow.now += IDLE_SECONDS
        follow()
        assert follow.tail._files == []
        path.write_bytes(b"2\n")
        assert follow() == b"2\n"


def test_a_long_line_is_left_out(path, follow):
    """Of a line without an end, no more than LONGEST_UNENDED is kept, and what follows it is follow."""
    with path.open("ab") as file:
        file.truncate(5 * MOST_BEHIND)  # a hole, which costs no disk
    append(path, b"x" * (2 * LONGEST_UNENDED) + b"\nnext\n")
    assert follow().endswith(b"next\n")
    assert len(follow.tail._files[-1]._lines._carry) <= LONGEST_UNENDED
    append(path, b"y" * (3 * BLOCK_BYTES))
    assert follow() == b""
    assert len(follow.tail._files[-1]._lines._carry) <= LONGEST_UNENDED
    append(path, b"\nlast\n")
    assert follow() == b"last\n"


def test_a_log_that_grows_too_fast_is_read_in_part(path, follow):
    line = b"x" * 99 + b"\n"
    with path.open("ab") as file:
        for _ in range(200):
            file.write(line * 10_000)
    found = follow(1_000_000)
    assert follow.tail.skipped == 200_000_000 - MOST_BEHIND
    assert set(found.split(b"\n")) == {line[:-1], b""}
    assert 900_000 < len(found) <= 1_000_000
    assert len(follow()) + len(found) + 200 >= MOST_BEHIND


@pytest.mark.parametrize(
    ("make", "trouble"),
    [
        (os.mkfifo, "it is no regular file"),
        (os.mkdir, "it is no regular file"),
        (lambda path: os.symlink("/dev/zero", path), "it is no regular file"),
        (lambda path: os.symlink("/dev/tty", path), "it is no regular file"),
        (lambda path: os.symlink(path, path), "it cannot be opened"),
        (lambda path: os.symlink(f"{path}.other", path), "there is no file of that name"),
    ],
)
def test_nothing_but_a_regular_file_is_opened(path, read, make, trouble):
    """A FIFO would lose what its reader reads, and a device may block without end."""
    make(str(path))
    assert read() == b""
    assert read.tail.trouble == trouble
    assert read.tail._files == []
    path.rmdir() if trouble == "it is no regular file" and path.is_dir() else path.unlink()
    path.write_bytes(b"new\n")
    read()
    append(path, b"next\n")
    assert read().endswith(b"next\n")


def test_a_link_is_followed(path, read):
    path.with_name("a").write_bytes(b"old\n")
    path.with_name("b").write_bytes(b"1\n")
    path.symlink_to("a")
    read()
    path.unlink()
    path.symlink_to("b")
    assert read() == b"1\n"


@as_root
def test_a_file_that_becomes_readable_is_read():
    """Without the right to read it, a log is not read. With one, it is read from its end at that moment."""

    def read_as_another_user():
        os.setgroups([])
        os.setegid(65534)
        os.seteuid(65534)
        read = Read(path)
        found = [read(), read.tail.trouble]
        for change in (lambda: path.chmod(0o644), lambda: append(path, b"new\n")):
            os.seteuid(0)
            change()
            os.seteuid(65534)
            found += [read(), read.tail.trouble]
        return found

    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = Path(folder, "shop.log")
        path.write_bytes(b"old\n")
        path.chmod(0)

        no_right = "the user that runs uwsgi-headroom has no right to read it"
        assert in_child(read_as_another_user) == [b"", no_right, b"", None, b"new\n", None]


@contextlib.contextmanager
def following(tail):
    """Looks at a log until the block ends, first at once: what was found, and an event that is set after each look."""
    found, stop, looked = bytearray(), threading.Event(), threading.Event()

    def look():
        found.extend(b"".join(block or b"" for block in tail.read(time.monotonic(), ALL)))
        looked.set()

    def follow():
        while not stop.wait(TURN_SECONDS):
            look()
        look()

    look()
    reader = threading.Thread(target=follow)
    reader.start()
    try:
        yield found, looked
    finally:
        stop.set()
        reader.join()


def test_a_hundred_rotations_in_a_second_break_nothing(path, read):
    before = len(os.listdir("/proc/self/fd"))
    path.touch()
    for number in range(100):
        append(path, b"x\n" * 100)
        path.rename(f"{path}.{number}")
        path.touch()
        if number % 10 == 0:
            read()
    append(path, b"last\n")
    assert read().endswith(b"last\n")
    assert len(read.tail._files) <= module._MOST_FILES + 1
    assert len(os.listdir("/proc/self/fd")) <= before + module._MOST_FILES + 1


MAXSIZE = 30_000
REQUESTS = 1200
BETWEEN_LOOKS = 100
"""The most requests between two looks at the log, also on a busy machine: fewer than uWSGI rotates after."""

ROTATIONS = 3


def rename(log, number):
    """As logrotate does with `create`: uWSGI writes to the old file until it is asked to open the log again."""
    log.rename(f"{log}.{number}")
    log.touch()
    time.sleep(0.3)
    later = time.time() + 10 * number
    os.utime(log.with_name("reopen"), (later, later))


def by_uwsgi(_log, _number):
    """uWSGI's master renames the log once a second, if it is larger than `log-maxsize`."""


@pytest.mark.integration
@pytest.mark.parametrize("rotate", [rename, by_uwsgi])
def test_every_request_is_read_once(rotate, tmp_path):
    """Some 200 requests a second, and a rotation between two looks at the log, over and over."""
    app, log, reopen = tmp_path / "shop.py", tmp_path / "shop.log", tmp_path / "reopen"
    app.write_text(APP)
    log.touch()
    reopen.touch()
    options = ["--logto", str(log), "--touch-logreopen", str(reopen)]
    options += ["--log-master", "--log-maxsize", str(MAXSIZE)] if rotate is by_uwsgi else []
    tail, rotated = Tail(str(log)), 0
    list(tail.read(time.monotonic(), ALL))
    # Begins with a look at the first lines: a second change within half a second of the first would not be seen.
    with serving(app, *options) as server, following(tail) as (found, looked):
        for number in range(REQUESTS):
            get(server, f"/{number}")
            if number % BETWEEN_LOOKS == 0:
                looked.clear()
                assert looked.wait(60)
            if number % (REQUESTS // 5) == REQUESTS // 10:
                rotated += 1
                rotate(log, rotated)
        wait_until(lambda: b"GET /%d " % (REQUESTS - 1) in found, what="the last request")
    assert Counter(map(int, re.findall(rb" GET /(\d+) ", found))) == Counter(range(REQUESTS))
    assert len(list(tmp_path.glob("shop.log*"))) > ROTATIONS
    assert not tail.skipped


def test_a_file_whose_status_cannot_be_read_is_closed(path, read, monkeypatch):
    append(path, b"a line\n")
    before, status, asked = os.listdir("/proc/self/fd"), os.fstat, []

    def fail_once(descriptor):
        asked.append(descriptor)
        if len(asked) == 2:  # `open_regular` asks first
            raise OSError(errno.EIO, "failed")
        return status(descriptor)

    monkeypatch.setattr(os, "fstat", fail_once)
    assert read() == b""
    assert (read.tail.trouble, os.listdir("/proc/self/fd")) == ("it cannot be opened", before)


def test_a_disk_that_fails_is_said_and_the_log_is_read_on(path, follow, monkeypatch):
    """An error of reading ends neither the task that reads all logs, nor the reading of this one."""
    append(path, b"a line\n")

    def fail(*_):
        raise OSError(errno.EIO, "failed")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", fail)
        assert follow() == b""
    assert follow.tail.trouble == "it cannot be read"
    assert follow() == b"a line\n"
    assert follow.tail.trouble is None
