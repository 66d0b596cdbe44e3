"""Small files of /proc, and those that stay open."""

import errno
import os
import resource
import subprocess
from pathlib import Path

import pytest

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.procfs import (
    KeptFiles,
    count_descriptors,
    read_descriptor_limit,
    read_state,
)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_file_that_is_too_long(tmp_path: Path) -> None:
    (tmp_path / "locks").write_bytes(b"x" * 100_000)
    assert len(procfs.read_file(tmp_path, "locks", most=100_000)) == 100_000
    with pytest.raises(OSError, match="File too large"):
        procfs.read_file(tmp_path, "locks", most=99_999)


def test_kept_files_show_what_is_in_them_now(tmp_path: Path) -> None:
    """Each read returns the present text; at most so many files stay open as allowed."""
    kept, before = KeptFiles(3), open_files()
    paths = [tmp_path / str(number) for number in range(5)]
    for text in ("first", "then"):
        for path in paths:
            path.write_text(f"{text} {path.name}")
        assert [kept.read_line(str(path)) for path in paths] == [f"{text} {path.name}".encode() for path in paths]
    assert open_files() == before + 3
    kept.close()
    assert open_files() == before


def test_few_files_are_kept_if_few_may_be_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sixteenth of the descriptors at most: the others are for connections."""
    kept, before = KeptFiles(99), open_files()
    monkeypatch.setattr(resource, "getrlimit", lambda _what: (64, 64))
    for number in range(9):
        path = tmp_path / str(number)
        path.write_text("text")
        assert kept.read_line(str(path)) == b"text"
    assert open_files() == before + 4
    kept.close()


def test_a_kept_file_of_a_process_that_has_ended() -> None:
    """The file of a process that has ended is closed, and the read fails as if it had not been open."""
    kept, before = KeptFiles(3), open_files()
    process = subprocess.Popen(["sleep", "60"])
    path = f"/proc/{process.pid}/stat"
    assert kept.read_line(path).startswith(f"{process.pid} (".encode())
    process.kill()
    process.wait()
    with pytest.raises(FileNotFoundError):
        kept.read_line(path)
    assert open_files() == before


def test_kept_files_yield_when_descriptors_run_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If no file can be opened any more, all kept ones are closed, and the file is read."""
    kept, before = KeptFiles(9), open_files()
    first, second = tmp_path / "1", tmp_path / "2"
    first.write_text("1")
    second.write_text("2")
    kept.read_line(str(first))
    honest = os.open

    def open_few(path: str, flags: int) -> int:
        if open_files() > before:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return honest(path, flags)

    monkeypatch.setattr(os, "open", open_few)
    assert kept.read_line(str(second)) == b"2"
    assert open_files() == before + 1
    kept.close()


def test_the_state_of_a_process_that_ends() -> None:
    """A process is a zombie until its parent has noticed its end; then it has no state."""
    process = subprocess.Popen(["sleep", "60"])
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert read_state(process.pid) == b"Z"
    process.wait()
    assert read_state(process.pid) == b""


def test_descriptors_are_counted() -> None:
    """The size of the folder is their number since Linux 6.2; a process that has ended raises an error."""
    reader, writer = os.pipe()
    before = count_descriptors(os.getpid())
    assert before
    os.close(reader)
    assert count_descriptors(os.getpid()) == before - 1
    os.close(writer)
    assert read_descriptor_limit(os.getpid()) == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    with pytest.raises(FileNotFoundError):
        count_descriptors(2**22 + 1)
    with pytest.raises(FileNotFoundError):
        read_descriptor_limit(2**22 + 1)


def test_descriptors_are_counted_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before Linux 6.2 each is listed, up to a bound: the number of a process with more is unknown."""
    listed = os.listdir("/proc/self/fd")
    stat = os.stat
    monkeypatch.setattr(os, "stat", lambda path: stat("/proc/version") if path.endswith("/fd") else stat(path))
    assert os.stat(f"/proc/{os.getpid()}/fd").st_size == 0
    assert abs((count_descriptors(os.getpid()) or 0) - len(listed)) <= 1
    monkeypatch.setattr(procfs, "MOST_DESCRIPTORS", 2)
    assert count_descriptors(os.getpid()) is None
