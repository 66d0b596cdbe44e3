"""The journal of a systemd unit is read through a child process, which ends with what reads it.

A stand-in follows a file here as `journalctl` follows the journal; the last test has a real journald.
"""

import asyncio
import contextlib
import ctypes
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import cast

import pytest

from tests.support.exporter import run
from tests.support.other_namespaces import as_nobody, as_root, in_child
from tests.support.real_uwsgi import accepting, uwsgi_binary, wait_until
from tests.uwsgi_log.capture import packet, send
from tests.uwsgi_log.test_check import repeated
from uwsgi_headroom.kernel.procfs import read_begin
from uwsgi_headroom.uwsgi_log import tail as module
from uwsgi_headroom.uwsgi_log.log import UwsgiLog
from uwsgi_headroom.uwsgi_log.tail import UnitJournal
from uwsgi_headroom.watch.log_reader import LogReader
from uwsgi_headroom.watch.watch import Watch

ALL = 1 << 30
LINE = b"DAMN ! worker 1 (pid: 7) died, killed by signal 11 :( trying respawn ...\n"


class StandIn:
    """A `journalctl` that follows the file `lines`, and notes its arguments and its PID."""

    def __init__(self, folder):
        self.folder, self.lines = folder, folder / "lines"
        self.lines.touch()
        program = folder / "bin" / "journalctl"
        program.parent.mkdir()
        program.write_text(
            f'#!/bin/sh\necho "$@" > {folder}/arguments\necho $$ > {folder}/pid\n'
            f"exec tail --lines=0 --follow=name --sleep-interval=0.05 {self.lines}\n"
        )
        program.chmod(0o755)

    def pid(self):
        text = (self.folder / "pid").read_text() if (self.folder / "pid").exists() else ""
        return int(text) if text.endswith("\n") else 0

    def runs(self):
        """Whether it follows the file. One that has ended has no command line, even before it is waited for."""
        try:
            return self.pid() > 0 and Path(f"/proc/{self.pid()}/cmdline").read_bytes().startswith(b"tail\0")
        except FileNotFoundError:
            return False

    def write(self, data):
        with self.lines.open("ab") as file:
            file.write(data)


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    made = StandIn(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin")
    with_journal(tmp_path, monkeypatch)
    return made


def with_journal(folder, monkeypatch):
    file = folder / "journal" / "machine" / "system.journal"
    file.parent.mkdir(parents=True)
    file.touch()
    monkeypatch.setattr(module, "_FOLDERS", (f"{folder}/journal",))
    return file


@pytest.fixture
def journal():
    made = UnitJournal("shop.service")
    yield made
    made.stop()


def read(journal, now=0.0):
    return b"".join(block or b"" for block in journal.read(now, ALL))


def started(journal, stand_in, now=0.0):
    """Starts it, and returns a function that reads until a line is whole."""
    read(journal, now)
    wait_until(stand_in.runs)
    time.sleep(0.2)  # until it waits at the end of the file; nothing says that it does

    def following():
        found = bytearray()
        wait_until(lambda: found.extend(read(journal, now)) or found.endswith(b"\n"))
        return bytes(found)

    return following


def test_the_lines_of_the_unit_are_read(stand_in, journal):
    stand_in.write(b"old\n")
    following = started(journal, stand_in)
    assert journal.trouble is None
    stand_in.write(LINE * 1000 + b"half")
    assert following() == LINE * 1000
    stand_in.write(b" a line\n")
    assert following() == b"half a line\n"
    arguments = (stand_in.folder / "arguments").read_text().split()
    assert arguments[-1] == "_SYSTEMD_UNIT=shop.service"
    assert {"--follow", "--lines=0", "--output=cat"} <= {*arguments}


def test_what_is_not_read_waits(stand_in, journal):
    """A turn is bounded. The rest stays in a pipe, and what is beyond that in the journal; nothing is lost."""
    following = started(journal, stand_in)
    stand_in.write(LINE * 50_000)
    wait_until(lambda: next(journal.read(0.0, 100), None) is not None)
    found = 100 // len(LINE)
    while found < 50_000:
        found += following().count(b"\n")
    assert found == 50_000


def test_a_child_that_ends_is_started_again_after_a_pause(stand_in, journal):
    now, pauses = 0.0, []
    for _ in range(2):
        started(journal, stand_in, now)
        os.kill(stand_in.pid(), 9)
        wait_until(lambda at=now: read(journal, at) == b"" and journal.trouble == module.ENDED)
        (stand_in.folder / "pid").unlink()
        begun = now
        while not (stand_in.folder / "pid").exists() and now < begun + 100:
            now += 1.0
            read(journal, now)
            time.sleep(0.02 if journal._process is None else 0.3)
        pauses.append(now - begun)
    assert pauses == [module.PAUSE_SECONDS] * 2
    assert journal.trouble is None


def test_the_child_ends_with_its_reader(stand_in):
    """When reading is cancelled, and when the log is no longer configured; it does not come back."""

    class Watched:
        name = "shop"

        def __init__(self):
            self.log = UwsgiLog("journal:shop.service")

        def take_log(self, batch):
            pass

    async def follow(watched, *, is_cancelled):
        reader = LogReader(lambda: [cast("Watch", watched)], time.monotonic)
        reading = asyncio.create_task(reader.run())
        await asyncio.to_thread(wait_until, stand_in.runs)
        if is_cancelled:
            reading.cancel()
            await asyncio.wait({reading})
        else:
            watched.log = None
            await asyncio.to_thread(wait_until, lambda: not stand_in.runs())
            reading.cancel()

    for is_cancelled in (True, False):
        asyncio.run(follow(Watched(), is_cancelled=is_cancelled))
        wait_until(lambda: not stand_in.runs())  # a signal takes its time
        (stand_in.folder / "pid").unlink()


def test_why_it_cannot_be_read(stand_in, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_FOLDERS", (f"{tmp_path}/nowhere",))
    log = UwsgiLog("journal:shop.service")
    assert log.read(0.0, ALL, float("inf")).trouble == "there is no journal of systemd here"
    monkeypatch.setenv("PATH", "/nonexistent")
    batch = log.read(100.0, ALL, float("inf"))
    assert batch.trouble == "there is no `journalctl` here"
    log.take(batch, 100.0, lambda *_: None)
    assert not log.totals.is_read
    assert not stand_in.pid()


@as_root
def test_a_user_without_the_right_is_named_the_group(monkeypatch):
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        file = with_journal(Path(folder), monkeypatch)
        file.chmod(0o640)

        assert as_nobody(module._find_trouble) == module.NOT_ALLOWED
        file.parent.parent.chmod(0o700)
        assert as_nobody(module._find_trouble) == module.NOT_ALLOWED
        assert module._find_trouble() is None


JOURNALD = Path("/lib/systemd/systemd-journald")
CGROUPS = next(filter(Path.is_dir, map(Path, ("/sys/fs/cgroup/unified", "/sys/fs/cgroup"))), Path("/nonexistent"))


@contextlib.contextmanager
def journald():
    """Gives this process a journald that keeps its files in memory."""
    clone_newns = 0x00020000
    assert ctypes.CDLL(None).unshare(clone_newns) == 0
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    for folder in ("/run", "/var/log"):
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], check=True)
    for folder in ("/run/systemd/journal", "/run/log/journal"):
        Path(folder).mkdir(parents=True)
    machine = Path("/run/machine-id")
    machine.write_text(f"{'0' * 31}1\n")
    subprocess.run(["mount", "--bind", str(machine), "/etc/machine-id"], check=True)
    with subprocess.Popen([str(JOURNALD)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(Path("/run/systemd/journal/stdout").is_socket)
            yield
        finally:
            process.kill()


@contextlib.contextmanager
def unit(name, folder):
    """Yields a program that runs uWSGI in a unit of this name, with its output to the journal."""
    slice_ = CGROUPS / f"headroom{os.getpid()}.slice"
    cgroup = slice_ / name
    cgroup.mkdir(parents=True)
    script = folder / "start"
    script.write_text(f'#!/bin/sh\necho $$ > {cgroup}/cgroup.procs\nexec systemd-cat {uwsgi_binary()} "$@"\n')
    script.chmod(0o755)
    try:
        yield str(script)
    finally:
        wait_until(lambda: not (cgroup / "cgroup.procs").read_text())
        cgroup.rmdir()
        slice_.rmdir()


def followers(name):
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = read_begin(1 << 16, path).split(b"\0")
            found += [str(path)] if f"_SYSTEMD_UNIT={name}".encode() in words else []
    return found


@pytest.mark.integration
@as_root
@pytest.mark.skipif(
    not (JOURNALD.exists() and shutil.which("systemd-cat") and (CGROUPS / "cgroup.procs").exists()),
    reason="this machine has no journald, or no cgroup of version 2",
)
def test_a_message_in_the_journal_is_proven(tmp_path):
    """A modifier without a plugin: the journal names it, the requests agree. Nobody follows the journal afterwards."""
    name = f"shop{os.getpid()}.service"

    def watch():
        with (
            journald(),
            unit(name, tmp_path) as binary,
            accepting("--disable-logging", binary=binary) as server,
            repeated(lambda: send(server.socket, packet(5, REQUEST_METHOD="GET"))),
        ):
            found = run("discover").stdout
            ran = run("check", server.stats, "--log", f"journal:{name}", "--seconds", "8", "--format", "json")
            assert not ran.stderr, ran.stderr
            return json.loads(ran.stdout), found, followers(name)

    document, found, left = in_child(watch)
    assert f"=journal:{name}" in found
    assert document["verdict"] == "uWSGI's log says that no plugin serves the requests that the web server passes on."
    assert "(now 5)" in document["findings"][0]["change"]
    assert not left
