"""Runs one load on uWSGI in a container, which every exporter watches at once, and records what happened."""

from __future__ import annotations

import contextlib
import functools
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from app.load import Load
from app.loopback import free_port
from tools.container_trial import truth
from tools.container_trial.exporters import APP, STATS, VOLUME, WAYS, Way
from tools.container_trial.images import APP as APP_IMAGE
from tools.container_trial.images import EXPORTER
from tools.container_trial.podman import Podman
from tools.container_trial.reading import SERVER, Address, Reading, is_up, reasons, scrape
from tools.progress import show_step

CPUS, MEMORY = 1.5, 512 * 2**20
THREADS, QUEUED = 32, 12
# Fewer clients than threads: no request waits in the listen queue, so that response times are times in service.
CLIENTS, REQUESTS, CPU_MS, IO_MS = 8, 150, 5.0, 100.0
HELD_SECONDS = 6.0
START_SECONDS = 180.0
WEB_PORT, FIRST_PORT = 8000, 9238

_LIMITS = (f"--cpus={CPUS}", f"--memory={MEMORY}")
_APP = ("--read-only", "--cap-drop=all", "--security-opt=no-new-privileges", f"--volume={VOLUME}:/run/uwsgi")


@dataclass(frozen=True)
class Truth:
    """What happened. requests: answered; cpu_seconds: of the workers, by the kernel; request_seconds: sum of the
    response times that the clients saw; queue: connections that the kernel held, with all threads busy."""

    requests: int
    cpu_seconds: float
    request_seconds: float
    queue: int


@dataclass(frozen=True)
class Figures:
    """What one exporter said. before, after: readings while nothing was in service; held: with all threads busy;
    reasons: why figures are unknown."""

    way: Way
    before: Reading
    held: Reading
    after: Reading
    reasons: dict[str, str]


@dataclass
class Trial:
    """The running containers. addresses: of the exporters, in the order of WAYS."""

    podman: Podman
    ip: str
    addresses: list[Address] = field(default_factory=list)


@contextlib.contextmanager
def running(podman: Podman) -> Iterator[Trial]:
    """Starts uWSGI and all exporters; yields them once each exporter reads uWSGI."""
    podman.run("volume", "create", VOLUME)
    podman.start(APP, APP_IMAGE, [*_LIMITS, *_APP])
    trial = Trial(podman, podman.inspect(APP, ".NetworkSettings.IPAddress"))
    with contextlib.ExitStack() as stack, show_step(f"starting {len(WAYS)} exporters"):
        for number, way in enumerate(WAYS):
            place = _on_host(stack, podman) if way.options is None else _in_container(trial, number, way)
            trial.addresses.append(place)
        for address, way in zip(trial.addresses, WAYS, strict=True):
            truth.wait_for(functools.partial(is_up, address), START_SECONDS, f"exporter: {way.title}")
        host_exporter = stack.pop_all()
    with host_exporter:
        yield trial


def _in_container(trial: Trial, number: int, way: Way) -> Address:
    assert way.options is not None
    name, port = f"trial-exporter-{number}", FIRST_PORT + number  # free: the network namespace is the trial's own
    listen = f"UWSGI_HEADROOM_WEB_LISTEN_ADDRESS=:{port}"
    options = [*way.options, f"--volume={VOLUME}:/run/uwsgi", f"--env={listen}"]
    trial.podman.start(name, EXPORTER, options, ["--stats", f"{SERVER}={STATS}"])
    return trial.ip if way.shares_network else trial.podman.inspect(name, ".NetworkSettings.IPAddress"), port


def _on_host(stack: contextlib.ExitStack, podman: Podman) -> Address:
    port = free_port()
    mounted = Path(podman.run("volume", "inspect", "--format", "{{.Mountpoint}}", VOLUME))
    socket = mounted / Path(STATS).name
    command = ["-m", "uwsgi_headroom", "--stats", f"{SERVER}={socket}", "--web.listen-address", f"127.0.0.1:{port}"]
    process = subprocess.Popen([sys.executable, *command], stderr=subprocess.DEVNULL)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return "127.0.0.1", port


def measure(trial: Trial) -> tuple[Truth, list[Figures]]:
    """Runs the load, then holds more requests than there are threads. Returns the truth and each exporter's figures."""
    master = int(trial.podman.inspect(APP, ".State.Pid"))
    web = trial.ip, WEB_PORT
    time.sleep(2)
    before, cpu = [scrape(address) for address in trial.addresses], truth.cpu_seconds(master)
    load = Load(clients=CLIENTS, requests=REQUESTS, cpu_ms=CPU_MS, io_ms=IO_MS, path="/mixed")
    with show_step(f"{CLIENTS * REQUESTS} requests of {CLIENTS} clients"):
        tally = truth.make_requests(load, web)
    time.sleep(2)  # the last sample of each exporter is after the last request
    after, cpu = [scrape(address) for address in trial.addresses], truth.cpu_seconds(master) - cpu
    with (
        show_step(f"{THREADS + QUEUED} requests at once on {THREADS} threads"),
        truth.waiting_requests(THREADS + QUEUED, f"/slow?s={HELD_SECONDS:g}", web, 3 * HELD_SECONDS),
    ):
        time.sleep(HELD_SECONDS / 2)
        held, queue = [scrape(address) for address in trial.addresses], truth.queue_length(master, WEB_PORT)
    unknown = [reasons(address) for address in trial.addresses]
    happened = Truth(tally.answered, cpu, tally.total, queue)
    return happened, [Figures(*parts) for parts in zip(WAYS, before, held, after, unknown, strict=True)]
