"""Where a running uWSGI writes its log: its descriptors say it, else its options, if this user can see that file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernel.options.trees import options_of
from uwsgi_headroom.kernel import setup
from uwsgi_headroom.kernel.setup import find_log_file
from uwsgi_headroom.record import Options


def tree(folder: Path, **descriptors: str) -> Path:
    """A `/proc` with the descriptors of process 7."""
    fds = folder / "proc" / "7" / "fd"
    fds.mkdir(parents=True)
    for number, target in descriptors.items():
        (fds / number.removeprefix("fd")).symlink_to(target)
    return folder / "proc"


def test_the_descriptors_come_first(tmp_path: Path) -> None:
    """Descriptor 2 is the log; 1 is it where 2 is no file."""
    one, two = tmp_path / "one.log", tmp_path / "two.log"
    one.touch()
    two.touch()
    assert find_log_file(7, Options(log_files=(str(one),)), proc=tree(tmp_path, fd1=str(one), fd2=str(two))) == str(two)
    other = tmp_path / "other"
    assert find_log_file(7, Options(), proc=tree(other, fd1=str(one), fd2="pipe:[4711]")) == str(one)


@pytest.mark.parametrize("target", ["/dev/null", "pipe:[4711]", "socket:[4711]", "/nonexistent/log", "/tmp"])
def test_what_is_no_file_is_no_log(target: str, tmp_path: Path) -> None:
    """A pipe, a device or a directory cannot be read."""
    assert find_log_file(7, Options(), proc=tree(tmp_path, fd2=target)) == ""


def test_the_output_of_a_unit_goes_to_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket, in a unit of systemd: journald is at its other end. Outside of a unit, nothing is known of a socket."""
    proc = tree(tmp_path, fd1="/dev/null", fd2="socket:[4711]")
    monkeypatch.setattr(setup, "_HAS_JOURNAL", tmp_path)
    assert find_log_file(7, Options(), proc=proc) == ""
    (proc / "7" / "cgroup").write_text("0::/system.slice/shop.service\n")
    assert find_log_file(7, Options(), proc=proc) == "journal:shop.service"
    monkeypatch.setattr(setup, "_HAS_JOURNAL", tmp_path / "nowhere")
    assert find_log_file(7, Options(), proc=proc) == ""


def test_without_the_right_the_options_say_it(tmp_path: Path) -> None:
    """The last option that names a file that is there."""
    log = tmp_path / "shop.log"
    log.touch()
    options = Options(log_files=(str(tmp_path / "older"), str(log), str(tmp_path / "missing")))
    assert find_log_file(7, options, proc=tmp_path / "proc") == str(log)


def test_a_name_that_is_not_plain_is_not_printed(tmp_path: Path) -> None:
    """It goes into a command line that people paste."""
    log = tmp_path / "a b;rm.log"
    log.touch()
    assert find_log_file(7, Options(), proc=tree(tmp_path, fd2=str(log))) == ""


@pytest.mark.parametrize(
    ("words", "files"),
    [
        ("--logto /var/log/a.log", ("/var/log/a.log",)),
        ("--logto2=/var/log/a.log", ("/var/log/a.log",)),
        ("--daemonize /var/log/a.log", ("/var/log/a.log",)),
        ("-d /var/log/a.log", ("/var/log/a.log",)),
        ("--logger file:/var/log/a.log", ("/var/log/a.log",)),
        ("--logger file:logfile=/var/log/a.log,maxsize=1", ("/var/log/a.log",)),
        ("--logto /var/log/a.log --req-logger file:/var/log/r.log", ("/var/log/a.log",)),
        ("--logto 10.0.0.5:514", ()),
        ("--logger socket:10.0.0.5:514", ()),
        ("--logger syslog:password", ()),
        ("--logto relative.log", ()),
        ("--logto /var/log/%n.log", ()),
        ("--if-env X --logto /var/log/a.log --endif", ()),
    ],
)
def test_options_that_name_a_log(words: str, files: tuple[str, ...], tmp_path: Path) -> None:
    """Absolute paths of plain names are kept, and no address."""
    assert options_of(tmp_path, *words.split()).log_files == files


def test_a_named_logger(tmp_path: Path) -> None:
    """A logger may have a name of its own."""
    assert options_of(tmp_path, "--logger", "mylog file:/var/log/a.log").log_files == ("/var/log/a.log",)
