"""Starts the uWSGI of a scenario and its load, and provides the addresses for its load and its check."""

import contextlib
import itertools
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from app.load import as_json
from tests.support.real_uwsgi import Uwsgi, bare, free_port, uwsgi_binary, wait_until
from tools.environments import ROOT
from tools.scenarios import beside
from tools.scenarios.scenario import Load, Scenario, Server
from uwsgi_headroom.tune.load import Address

_CGROUPS = Path("/sys/fs/cgroup")
_DNS_PORT = 53
"""What distinguishes a name server: each that is stood in for has a loopback address of its own, 127.0.9.NUMBER."""

_NUMBERS = itertools.count(1)


class Place(NamedTuple):
    """A running server. stats: its address for `check`; tcp: its address for requests over TCP, if it serves any."""

    uwsgi: Uwsgi
    stats: str
    tcp: tuple[str, int]

    def address_for(self, load: Load) -> str | tuple[str, int]:
        return self.tcp if load.socket == "tcp" else str(self.uwsgi.directory / load.socket)


@contextlib.contextmanager
def started(server: Server) -> Iterator[Place]:
    tcp, stats_port = ("127.0.0.1", free_port()), free_port()
    backend = ("127.0.0.1", free_port())
    stats = f"127.0.0.1:{stats_port}" if server.tcp_stats else "{directory}/stats"
    known = {"{tcp}": f"{tcp[0]}:{tcp[1]}", "{backend}": str(backend[1]), "{clients}": str(beside.PACKAGES)}
    options = [re.sub("|".join(known), lambda found: known[found[0]], option) for option in server.options]
    if not server.bare:
        options = [*_fixed_options(server), "--stats", stats, *options]
    with contextlib.ExitStack() as stack:
        if server.backend:
            options += ["--env", f"BACKEND_PORT={backend[1]}"]
            stack.enter_context(standing_in(f"backend:{server.backend}", backend))
        if server.beside:
            outside = [stack.enter_context(_beside(kind)) for kind in server.beside]
            options += ["--env", f"OUTSIDE={','.join(outside)}"]
        binary = stack.enter_context(_wrapped(server))
        ready = ("127.0.0.1", stats_port) if server.tcp_stats else None
        running = stack.enter_context(
            bare(*options, files=server.files, binary=binary, ready=ready, die_on_term=server.die_on_term)
        )
        if server.nginx:
            stack.enter_context(beside.nginx_in_front(running.directory, server.nginx))
        yield Place(running, stats.replace("{directory}", str(running.directory)), tcp)


def _beside(kind: str) -> contextlib.AbstractContextManager[str]:
    real = beside.BESIDE.get(kind)
    return real(f"127.0.9.{next(_NUMBERS) % 250 + 1}") if real else standing_in(kind)


@contextlib.contextmanager
def standing_in(kind: str, address: tuple[str, int] | None = None) -> Iterator[str]:
    """Runs a stand-in during the block, and yields its address. kind: as in `Server.beside`. address: None for a free
    one."""
    name, _, seconds = kind.partition(":")
    of_dns = (f"127.0.9.{next(_NUMBERS) % 250 + 1}", _DNS_PORT)
    host, port = address or (of_dns if name == "dns" else ("127.0.0.1", free_port()))
    command = [sys.executable, "-m", "tools.scenarios.beside", name, host, str(port), *filter(None, [seconds])]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        try:
            if not process.stdout or not process.stdout.readline():
                raise AssertionError(f"the stand-in {kind} did not start")
            yield f"{host}:{port}"
        finally:
            process.kill()


def _fixed_options(server: Server) -> list[str]:
    options = ["--master", "--enable-threads", "--wsgi-file", str(server.app), "--processes", str(server.processes)]
    if server.threads > 1 and not {"--async", "--gevent"} & set(server.options):
        options += ["--threads", str(server.threads)]
    if "--logto" not in server.options:
        options += ["--disable-logging"]
    if not {"--http-socket", "--http11-socket", "--map-socket"} & set(server.options):
        options += ["--http-socket", "{directory}/web"]
    return options


@contextlib.contextmanager
def _wrapped(server: Server) -> Iterator[str]:
    uwsgi = uwsgi_binary()
    limited = server.cpus or server.quota or server.memory or server.somaxconn
    if not (limited or server.before or server.output or server.restarts):
        yield uwsgi
        return
    with contextlib.ExitStack() as stack:
        lines = ["#!/bin/sh", server.before]
        for controller, values in _limits(server):
            cgroup = stack.enter_context(_cgroup(controller, values))
            lines.append(f"echo $$ > {shlex.quote(str(cgroup / 'cgroup.procs'))}")
        taskset = f"taskset -c {shlex.quote(server.cpus)} " if server.cpus else ""
        network = f"{_in_network_with(server.somaxconn)} " if server.somaxconn else ""
        command = f'{network}{taskset}{shlex.quote(uwsgi)} "$@" {server.output}'
        again = f"while :; do {command}; sleep {server.restarts:g}; done"
        lines.append(again if server.restarts else f"exec {command}")
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="headroom-"))
        script = Path(directory, "start")
        script.write_text("\n".join(lines) + "\n")
        script.chmod(0o700)
        yield str(script)


def _limits(server: Server) -> Iterator[tuple[str, dict[str, int]]]:
    if server.quota:
        yield "cpu", {"cpu.cfs_period_us": 100_000, "cpu.cfs_quota_us": round(100_000 * server.quota)}
    if server.memory:
        yield "memory", {"memory.limit_in_bytes": server.memory}


def _in_network_with(somaxconn: int) -> str:
    """A command that runs another one in a network namespace of its own, with this net.core.somaxconn."""
    return f"""unshare --net sh -c 'echo {somaxconn} > /proc/sys/net/core/somaxconn && exec "$0" "$@"'"""


@contextlib.contextmanager
def _cgroup(controller: str, values: Mapping[str, int]) -> Iterator[Path]:
    """Yields a cgroup (version 1) with these values in its files. Stop uWSGI before the block ends, because only an
    empty cgroup can be removed."""
    cgroup = _CGROUPS / controller / f"headroom-{os.getpid()}-{next(_NUMBERS)}"
    cgroup.mkdir()
    try:
        for name, value in values.items():
            (cgroup / name).write_text(str(value))
        yield cgroup
    finally:
        wait_until(lambda: not (cgroup / "cgroup.procs").read_text(), what="the cgroup to be empty")
        cgroup.rmdir()


def why_not(row: Scenario) -> str | None:
    server = row.server
    if row.as_nobody and os.geteuid() != 0:
        return "only root can run the check as another user"
    if server.quota or server.memory:
        try:
            for controller, values in _limits(server):
                with _cgroup(controller, values):
                    pass
        except OSError as error:
            return f"no cgroup of version 1 with this limit can be made: {error.strerror}"
    if server.somaxconn:
        command = ["sh", "-c", f"{_in_network_with(40)} true"]
        tried = subprocess.run(command, capture_output=True, text=True, check=False)
        if tried.returncode:
            return f"no network namespace can be made: {tried.stderr.strip()}"
    if any(kind.startswith("dns") for kind in server.beside):
        try:
            with socket.socket(type=socket.SOCK_DGRAM) as probe:
                probe.bind(("127.0.9.254", _DNS_PORT))
        except OSError as error:
            return f"port {_DNS_PORT} cannot be served: {error.strerror}"
    if "--gevent" in server.options:
        python = Path(uwsgi_binary()).with_name("python")
        if subprocess.run([str(python), "-c", "import gevent"], capture_output=True, check=False).returncode:
            return "gevent is not installed beside uWSGI"
    return row.skip()


class Running:
    """A running load. tally: empty until the load has ended."""

    def __init__(self) -> None:
        self.tally: dict[str, float] = {}


@contextlib.contextmanager
def loaded(loads: Sequence[tuple[Load, Address]], *before: str) -> Iterator[Running]:
    """Makes the requests of these loads during the block. before: the words before the command of the clients."""
    load = Running()
    if not loads:
        yield load
        return
    command = [*before, sys.executable, "-m", "app.load", as_json(loads), "--input-ends"]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield load
        output, _ = process.communicate(timeout=20)
        load.tally = json.loads(output)
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def burning(processes: int) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for _ in range(processes):
            burner = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(burner.kill)
        yield
