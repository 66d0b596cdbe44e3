"""Starts the uWSGI of a scenario, and provides the addresses for its load and its check."""

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

from tools.scenarios.scenario import APP, Load, Server
from tools.support import real_uwsgi

_CPU_CGROUP = Path("/sys/fs/cgroup/cpu")
_NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class Place:
    """A running server. stats: its address for `check`; tcp: its address for requests over TCP, if it serves any."""

    uwsgi: real_uwsgi.Uwsgi
    stats: str
    tcp: tuple[str, int]

    def address_for(self, load: Load) -> str | tuple[str, int]:
        """Returns the address for a load."""
        return self.tcp if load.socket == "tcp" else str(self.uwsgi.directory / load.socket)


@contextlib.contextmanager
def started(server: Server) -> Iterator[Place]:
    """Runs a server during the block."""
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
    """Yields a program that starts uWSGI with this server's CPUs, quota and shell command."""
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
    """Yields a cgroup (version 1) whose processes may together use `quota` CPUs. Stop uWSGI before the block ends,
    because only an empty cgroup can be removed."""
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
    """Returns the reason why no cgroup with a quota can be made here, or None if it can."""
    try:
        with _cgroup(1.0):
            return None
    except OSError as error:
        return f"no cgroup of version 1 with a CPU quota can be made: {error.strerror}"


def why_no_gevent() -> str | None:
    """Returns the reason why uWSGI cannot use gevent here, or None if it can."""
    python = Path(real_uwsgi.uwsgi_binary()).with_name("python")
    found = subprocess.run([str(python), "-c", "import gevent"], capture_output=True, check=False)
    return "gevent is not installed beside uWSGI" if found.returncode else None


def why_not_root() -> str | None:
    """Returns the reason why the check cannot run as another user, or None if it can."""
    return None if os.geteuid() == 0 else "only root can run the check as another user"


@contextlib.contextmanager
def burning(processes: int) -> Iterator[None]:
    """Runs `processes` busy loops during the block."""
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
