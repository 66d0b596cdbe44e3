"""Deploys two versions of a real application from PyPI: pypiserver, an index of packages.

Version 1 writes an MD5 of each file into its pages, version 2 a SHA-256, which this decade's CPUs compute faster. So an
upgrade makes requests faster, and going back to version 1 makes them slower. What the clients see is the truth.
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tools.bench.deploys import real
from tools.support import real_uwsgi
from tools.support.exporter import exporter

OLD, NEW = "1.5.2", "2.4.1"
DEPLOYS = ((OLD, NEW), (NEW, OLD), (OLD, OLD), (NEW, NEW))

PROJECTS, FILES, BYTES = 20, 5, 600_000

SCRIPT = """
import pypiserver
roots = {"roots": [%r]} if pypiserver.__version__ >= "2" else {"root": %r}
application = pypiserver.app(**roots)
"""


def run() -> list[str]:
    """Deploys for 23 minutes; returns the rows of a table."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        place = Path(folder)
        for version in (OLD, NEW):
            pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
            subprocess.run([*pip, "--target", place / version, f"pypiserver=={version}"], check=True)
        packages = place / "packages"
        packages.mkdir()
        for number in range(PROJECTS * FILES):
            name = f"project{number // FILES}-1.{number % FILES}.tar.gz"
            (packages / name).write_bytes(random.randbytes(BYTES))
        ports = [real_uwsgi.free_port() for _ in DEPLOYS]
        around = real.Surroundings(ports, ["/simple/", *[f"/simple/project{each}/" for each in range(PROJECTS)]])
        around.start()
        stack.callback(around.stop)
        servers = []
        for (version, _), port in zip(DEPLOYS, ports, strict=True):
            link = place / str(port)
            link.symlink_to(version)
            options = ["--master", "--need-app", "--lazy-apps", "--disable-logging", "--processes", "2"]
            options += ["--pythonpath", str(link), "--wsgi-file", "{directory}/app.py", "--stats", "{directory}/stats"]
            script = SCRIPT % (str(packages), str(packages))
            options += ["--http-socket", f"127.0.0.1:{port}"]
            servers.append(stack.enter_context(real_uwsgi.bare(*options, files={"app.py": script})))
        names = [f"pypi{number}" for number in range(len(DEPLOYS))]
        arguments = [f"--stats={name}={server.stats}" for name, server in zip(names, servers, strict=True)]
        around.begin_load()
        time.sleep(real.WARM_SECONDS)
        with exporter(*arguments) as watching:
            time.sleep(real.BEFORE_SECONDS)
            counts = [len(around.seconds[port]) for port in ports]
            for (_, version), port, server in zip(DEPLOYS, ports, servers, strict=True):
                (place / str(port)).unlink()
                (place / str(port)).symlink_to(version)
                os.kill(server.pid, signal.SIGHUP)
            found = real.follow(watching, {name: real.Planted("none") for name in names}, real.AFTER_SECONDS)
        rows = []
        for (before, after), port, count, each in zip(DEPLOYS, ports, counts, found, strict=True):
            then, now = (
                statistics.fmean(part) for part in (around.seconds[port][:count], around.seconds[port][count:])
            )
            clients = f"{1e3 * then:.1f} → {1e3 * now:.1f} ms ({100 * (now / then - 1):+.0f} %)"
            when = "" if each.after is None else f"{each.after:.0f} s"
            rows.append(f"{before} → {after} | {clients} | {each.status} | {when} | {each.sentence}")
        return rows
