"""A real journald takes the output of a real uWSGI, and `check` reads it from there.

All of it runs in a mount namespace with a /run of its own. journald learns from the cgroup of a process which unit the
process belongs to.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.exporter import run
from tests.support.other_namespaces import as_root, in_child
from tests.support.real_uwsgi import accepting, uwsgi_binary, wait_until
from tests.uwsgi_log.test_check import repeated
from tests.uwsgi_log.test_real_uwsgi import packet, send
from uwsgi_headroom.kernel.procfs import read_begin

JOURNALD = Path("/lib/systemd/systemd-journald")
CGROUPS = next(filter(Path.is_dir, map(Path, ("/sys/fs/cgroup/unified", "/sys/fs/cgroup"))), Path("/nonexistent"))

pytestmark = [
    pytest.mark.integration,
    as_root,
    pytest.mark.skipif(
        not (JOURNALD.exists() and shutil.which("systemd-cat") and (CGROUPS / "cgroup.procs").exists()),
        reason="this machine has no journald, or no cgroup of version 2",
    ),
]


@contextlib.contextmanager
def journald() -> Iterator[None]:
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
def unit(name: str, folder: Path) -> Iterator[str]:
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


def followers(name: str) -> list[str]:
    """The command lines of processes that follow this unit."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = read_begin(1 << 16, path).split(b"\0")
            found += [str(path)] if f"_SYSTEMD_UNIT={name}".encode() in words else []
    return found


def test_a_message_in_the_journal_is_proven(tmp_path: Path) -> None:
    """A modifier without a plugin: the journal names it, the requests agree. Nobody follows the journal afterwards."""
    name = f"shop{os.getpid()}.service"

    def watch() -> tuple[dict[str, Any], str, list[str]]:
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
