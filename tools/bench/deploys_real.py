"""Deploys of a real uWSGI, watched by a real exporter: versions of an application with planted regressions.

Many servers run side by side, each with its own load, and are reloaded at the same time after ten minutes. What the
exporter's API says of each is noted until it is certain, or ten minutes have passed.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.support import real_uwsgi
from tests.support.exporter import Exporter, exporter
from tests.support.real_uwsgi import Uwsgi
from tools.bench.clients import Kind, Plan, running
from tools.scenarios.servers import standing_in

APP = Path(__file__).with_name("deploys_app.py")

Fault = Literal["none", "cpu", "backend", "lock", "memory", "exceptions", "mix"]

BASE: Mapping[str, float] = {"cpu": 0.004, "backend": 0.02, "lock": 0.004, "leak": 0, "errors": 0.001}

BEFORE_SECONDS, AFTER_SECONDS, WARM_SECONDS = 660.0, 660.0, 20.0
RATE = 6.0
"""Requests a second of each server."""

WORKERS = 2


@dataclass(frozen=True)
class Planted:
    """A deploy. how: `reload` the master, or the workers in a `chain`."""

    fault: Fault
    size: float = 0.0
    how: str = "reload"

    @property
    def version(self) -> dict[str, float]:
        whole = BASE["cpu"] + BASE["backend"] + BASE["lock"]
        changes: dict[Fault, dict[str, float]] = {
            "none": {},
            "cpu": {"cpu": BASE["cpu"] * (1 + self.size)},
            "backend": {"backend": BASE["backend"] + self.size * whole},
            "lock": {"lock": BASE["lock"] + self.size * whole},
            "memory": {"leak": int(self.size * WORKERS / RATE)},
            "exceptions": {"errors": BASE["errors"] + self.size},
            "mix": {},
        }
        return {**BASE, **changes[self.fault]}


PLANTED: Sequence[Planted] = (
    *[Planted("none")] * 6,
    *[Planted("none", how="chain")] * 2,
    *[Planted("cpu", size) for size in (0.2, 0.5)],
    *[Planted("backend", size) for size in (0.1, 0.2, 0.5)],
    *[Planted("lock", size) for size in (0.2, 0.5)],
    *[Planted("memory", size) for size in (5e6 / 60, 10e6 / 60)],
    *[Planted("exceptions", size) for size in (0.02, 0.05)],
    Planted("backend", 0.5, how="chain"),
)
"""A round: twenty deploys. `memory` is in bytes a second of a mean worker."""


@dataclass
class Found:
    """What the exporter said of a deploy. after: seconds from the reload until it was certain."""

    planted: Planted
    status: str = "early"
    worse: tuple[str, ...] = ()
    after: float | None = None
    sentence: str = ""


@contextlib.contextmanager
def _running(ports: Sequence[int], version: Mapping[str, float]) -> Iterator[list[Uwsgi]]:
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(
                real_uwsgi.bare(
                    *("--master", "--need-app", "--enable-threads", "--lazy-apps", "--disable-logging"),
                    *("--processes", str(WORKERS), "--threads", "2", "--wsgi-file", str(APP)),
                    *("--http-socket", f"127.0.0.1:{port}", "--stats", "{directory}/stats"),
                    *("--master-fifo", "{directory}/fifo"),
                    files={"version.json": json.dumps(version)},
                )
            )
            for port in ports
        ]


def run_round(planted: Sequence[Planted], before: float = BEFORE_SECONDS, after: float = AFTER_SECONDS) -> list[Found]:
    """Deploys all of these at once, `before` seconds after the load began, and returns what the exporter said in the
    next `after` seconds. The arrivals of each server are random (Poisson)."""
    ports = [real_uwsgi.free_port() for _ in planted]
    sockets = tuple((port, 1 / len(ports)) for port in ports)
    load = Plan(sockets, (Kind(1.0, "/"),), ((RATE * len(ports), math.inf),))
    with standing_in("backend:1000") as backend:
        backend_port = int(backend.rpartition(":")[2])
        with _running(ports, {**BASE, "port": backend_port}) as servers, running(load):
            names = [f"shop{place:02}" for place in range(len(servers))]
            arguments = [f"--stats={name}={server.stats}" for name, server in zip(names, servers, strict=True)]
            time.sleep(WARM_SECONDS)
            with exporter(*arguments) as watching:
                time.sleep(before)
                for each, server in zip(planted, servers, strict=True):
                    _deploy(each, server, backend_port)
                return follow(watching, dict(zip(names, planted, strict=True)), after)


def _deploy(planted: Planted, server: Uwsgi, port: int) -> None:
    (server.directory / "version.json").write_text(json.dumps({**planted.version, "port": port}))
    if planted.how == "chain":
        (server.directory / "fifo").write_text("c")
    else:
        os.kill(server.pid, signal.SIGHUP)


def follow(watching: Exporter, planted: Mapping[str, Planted], seconds: float) -> list[Found]:
    """What the exporter says of each of these servers, by name, in the next seconds, from when it was certain on."""
    found = {name: Found(each) for name, each in planted.items()}
    began = time.monotonic()
    while time.monotonic() < began + seconds:
        time.sleep(5)
        for name, each in found.items():
            if each.status == "worse":
                continue
            status, body = watching.get(f"/api/v1/servers/{name}")
            deploy = json.loads(body)["deploy"] if status == 200 else None
            if deploy is None:
                continue
            if deploy["status"] != each.status:
                each.after = time.monotonic() - began
            each.status, each.sentence = deploy["status"], deploy["sentence"]
            each.worse = tuple(change["subject"] for change in deploy["changes"] if change["state"] == "worse")
    return list(found.values())
