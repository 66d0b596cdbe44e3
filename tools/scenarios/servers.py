"""Starts the uWSGI of a scenario, and says where its load and its check find it."""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support import real_uwsgi
from tools.scenarios.scenario import APP, Load, Server

_CPU_CGROUP = Path("/sys/fs/cgroup/cpu")
_NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class Place:
    """A running server. stats: its address for `check`; tcp: where it takes requests, if it does so over TCP."""

    uwsgi: real_uwsgi.Uwsgi
    stats: str
    tcp: tuple[str, int]

    def address_for(self, load: Load) -> str | tuple[str, int]:
        """Where this load goes."""
        return self.tcp if load.socket == "tcp" else str(self.uwsgi.directory / load.socket)


@contextlib.contextmanager
def started(server: Server) -> Iterator[Place]:
    """Run a server until the block ends."""
    tcp, stats_port = ("127.0.0.1", real_uwsgi.free_port()), real_uwsgi.free_port()
    stats = f"127.0.0.1:{stats_port}" if server.tcp_stats else "{directory}/stats"
    options = [option.replace("{tcp}", f"{tcp[0]}:{tcp[1]}") for option in server.options]
    if not server.bare:
        options = [*_fixed_options(server), "--stats", stats, *options]
    with contextlib.ExitStack() as stack:
        binary = stack.enter_context(_wrapped(server))
        ready = ("127.0.0.1", stats_port) if server.tcp_stats else None
        running = stack.enter_context(real_uwsgi.bare(*options, files=server.files, binary=binary, ready=ready))
        yield Place(running, stats.replace("{directory}", str(running.directory)), tcp)


def _fixed_options(server: Server) -> list[str]:
    options = ["--master", "--enable-threads", "--wsgi-file", str(APP), "--processes", str(server.processes)]
    if server.threads > 1 and not {"--async", "--gevent"} & set(server.options):
        options += ["--threads", str(server.threads)]
    if "--logto" not in server.options:
        options += ["--disable-logging"]
    if not {"--http-socket", "--map-socket"} & set(server.options):
        options += ["--http-socket", "{directory}/web"]
    return options


@contextlib.contextmanager
def _wrapped(server: Server) -> Iterator[str]:
    """A program that starts uWSGI as this server needs it: on some CPUs, within a quota, after a line of shell."""
    uwsgi = real_uwsgi.uwsgi_binary()
    if not (server.cpus or server.quota or server.before):
        yield uwsgi
        return
    with contextlib.ExitStack() as stack:
        lines = ["#!/bin/sh", server.before]
        if server.quota:
            cgroup = stack.enter_context(_cgroup(server.quota))
            lines.append(f"echo $$ > {shlex.quote(str(cgroup / 'cgroup.procs'))}")
        taskset = f"taskset -c {shlex.quote(server.cpus)} " if server.cpus else ""
        lines.append(f'exec {taskset}{shlex.quote(uwsgi)} "$@"')
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="headroom-"))
        script = Path(directory, "start")
        script.write_text("\n".join(lines) + "\n")
        script.chmod(0o700)
        yield str(script)


@contextlib.contextmanager
def _cgroup(quota: float) -> Iterator[Path]:
    """A cgroup (version 1) whose processes may use so many CPUs together. Its processes have ended when it is removed:
    uWSGI is stopped first."""
    cgroup = _CPU_CGROUP / f"headroom-{os.getpid()}-{next(_NUMBERS)}"
    cgroup.mkdir()
    try:
        (cgroup / "cpu.cfs_period_us").write_text("100000")
        (cgroup / "cpu.cfs_quota_us").write_text(str(round(100_000 * quota)))
        yield cgroup
    finally:
        real_uwsgi.wait_until(lambda: not (cgroup / "cgroup.procs").read_text(), what="the cgroup to be empty")
        cgroup.rmdir()


def why_no_quota() -> str | None:
    """Why no cgroup with a quota can be made here, or None if it can."""
    try:
        with _cgroup(1.0):
            return None
    except OSError as error:
        return f"no cgroup of version 1 with a CPU quota can be made: {error.strerror}"


def why_no_gevent() -> str | None:
    """Why uWSGI cannot use gevent here, or None if it can."""
    python = Path(real_uwsgi.uwsgi_binary()).with_name("python")
    found = subprocess.run([str(python), "-c", "import gevent"], capture_output=True, check=False)
    return "gevent is not installed beside uWSGI" if found.returncode else None


def why_not_root() -> str | None:
    """Why the check cannot run as another user, or None if it can."""
    return None if os.geteuid() == 0 else "only root can run the check as another user"


@contextlib.contextmanager
def burning(processes: int) -> Iterator[None]:
    """Programs that use all the CPU they get, while the block runs."""
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
