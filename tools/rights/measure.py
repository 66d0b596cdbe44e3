"""Runs the exporter as each user beside a loaded uWSGI, and lists the figures that it has."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.loopback import get
from tests.support.real_uwsgi import APP, free_port, running, uwsgi_binary
from tools.rights.mounts import open_ways
from tools.rights.users import SERVER, User

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 25.0
"""How long each exporter samples before it is asked: longer than the 5 s between two readings of slow facts, and than a
window of waits needs."""

_OF_THE_VERDICT = {"uwsgi_verdict_since_time_seconds"}  # there once the verdict has changed, with any right

_MORE_SECONDS = 90.0
_LAST = "uwsgi_response_time_percentile_seconds"
"""The figure that takes the most requests, and how much longer to wait for it where the machine is busy."""

_AT_ONCE = 9
"""Exporters that run at a time."""

_OPTIONS = """\
[uwsgi]
master = true
need-app = true
enable-threads = true
die-on-term = true
disable-logging = true
processes = 2
threads = 2
harakiri = 30
listen = 64
chmod-socket = 660
"""


@dataclass(frozen=True)
class Measured:
    """What an exporter knows. figures: the metrics about the server, and the parts of the API's sections `identity` and
    `setup` that are known; unknown: the API's list of what and why; problem: why the server is down, empty if it is
    up."""

    figures: frozenset[str]
    unknown: frozenset[tuple[str, str]]
    problem: str


def measure_all(users: Sequence[User]) -> dict[tuple[str, str], Measured]:
    """Measure every user over "unix" and "tcp"; the keys are the letter and the kind of socket. Needs root."""
    open_ways([Path(sys.base_prefix), Path(sys.prefix).resolve(), Path(uwsgi_binary()).resolve().parents[1], ROOT])
    os.chdir(ROOT)
    with contextlib.ExitStack() as stack:
        runs = [(user, over) for user in users for over in ("unix", "tcp")]
        servers = {
            kind: stack.enter_context(_running_server(*kind))
            for kind in sorted({(user.started_by_root, over) for user, over in runs})
        }
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            found = pool.map(lambda run: _measure(run[0], servers[run[0].started_by_root, run[1]]), runs)
            return {(user.letter, over): measured for (user, over), measured in zip(runs, found, strict=True)}


@contextlib.contextmanager
def _running_server(by_root: bool, over: str) -> Iterator[str]:
    """Runs a loaded uWSGI as its user, which has a file of options that only this user may read. Yields the address of
    its stats."""
    directory = Path(tempfile.mkdtemp(prefix="headroom-rights-"))
    directory.chmod(0o755)
    shutil.chown(directory, SERVER, SERVER)
    stats, web = (str(directory / "stats") if over == "unix" else f"127.0.0.1:{free_port()}"), free_port()
    lines = [f"wsgi-file = {APP}", f"stats = {stats}"]
    lines += [f"socket = {directory}/app", f"http-socket = 127.0.0.1:{web}"]
    lines += [f"uid = {SERVER}", f"gid = {SERVER}"] if by_root else []
    configuration = directory / "uwsgi.ini"
    configuration.write_text(_OPTIONS + "\n".join(lines) + "\n")
    configuration.chmod(0o600)
    shutil.chown(configuration, SERVER, SERVER)
    command = [uwsgi_binary(), str(configuration)]
    if not by_root:
        command = User("", "", SERVER).command() + command
    with _running(command, web, "/", directory, directory):
        ended = threading.Event()
        threads = [threading.Thread(target=_load, args=(web, ended)) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            yield stats
        finally:
            ended.set()
            for thread in threads:
                thread.join()
    shutil.rmtree(directory)


def _running(
    command: Sequence[str], port: int, path: str, directory: Path, cwd: Path
) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """Runs a server with its log in `directory`, from when it answers a request of `path`."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'exporter'}:{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
    return running(
        command,
        lambda: get(port, path, timeout=60),
        "a server",
        cwd=cwd,
        log=directory / "log",
        environment=environment,
        seconds=300,
    )


def _load(port: int, ended: threading.Event) -> None:
    while not ended.is_set():
        get(port, "/?io_ms=100&cpu_ms=5", timeout=60)


def _measure(user: User, address: str) -> Measured:
    port = free_port()
    directory = Path(tempfile.mkdtemp(prefix="headroom-rights-"))
    command = [*user.command(), sys.executable, "-m", "uwsgi_headroom", "--stats", f"shop={address}"]
    command += ["--web.listen-address", f"127.0.0.1:{port}", "--cpu-residency"]
    with _running(command, port, "/-/healthy", directory, ROOT):
        time.sleep(SECONDS)
        end = time.monotonic() + _MORE_SECONDS
        while True:
            exposition = get(port, "/metrics", timeout=60) or ""
            document = json.loads(get(port, "/api/v1/servers/shop", timeout=60) or "")
            if f"\n{_LAST}{{" in exposition or document["state"] != "up" or time.monotonic() > end:
                break
            time.sleep(2)
    shutil.rmtree(directory)
    names = {line.partition(" ")[0].partition("{")[0] for line in exposition.splitlines()}
    metrics = {name for name in names if name.startswith("uwsgi_") and not name.startswith("uwsgi_exporter_")}
    metrics -= _OF_THE_VERDICT
    return Measured(
        figures=frozenset(metrics | set(_known(document))),
        unknown=frozenset((entry["what"], entry["why"]) for entry in document["unknown"]),
        problem=(document["error"] or {}).get("reason", "") if document["state"] != "up" else "",
    )


def _known(document: Mapping[str, Any]) -> Iterator[str]:
    for section in ("identity", "setup"):
        for name, value in (document[section] or {}).items():
            if value not in (None, False, {}, []):
                yield f"{section}.{name}"
