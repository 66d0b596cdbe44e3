"""Plans what a call of `tune` will do: checks the options together, and says it before anything starts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.kernel.cpus import read_usable_cpus
from uwsgi_headroom.kernel.memory import read_available_memory
from uwsgi_headroom.kernel.setup import read_somaxconn
from uwsgi_headroom.tune.application.application import (
    Application,
    is_path,
    list_withheld,
    load_app,
    load_ini,
    read_access_log,
)
from uwsgi_headroom.tune.experiment.run import seconds_of
from uwsgi_headroom.tune.loads.load_tools import Load
from uwsgi_headroom.tune.request import LEAST_CLIENTS, TuneRequest
from uwsgi_headroom.tune.search.evidence import DEFAULT_QUEUE_LIMIT, Limits, Task
from uwsgi_headroom.words.formats import byte_size, counted, duration

LONGEST_WARM_UP = 2.0
"""Seconds of the load before the measured time."""

BACKENDS = (
    "The application uses its own databases and other backends during the runs. Make sure that these are not the "
    "production ones: requests that change data do so here too."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A search that can start."""

    application: Application
    task: Task
    limits: Limits
    load_words: str
    """The load as half a sentence."""
    notes: tuple[str, ...]
    """What is left out of the log, and what memory limit applies."""

    def list_lines(self) -> Iterator[str]:
        """What will happen, as sentences."""
        application, task = self.application, self.task
        yield f"tune starts {application.name} on 127.0.0.1 with {application.uwsgi}."
        yield f"The load is {self.load_words}."
        seconds = task.load.warm_up + task.load.seconds
        yield (
            f"At most {counted(task.most_runs, 'run')} of {duration(seconds)}, one after the other: about "
            f"{duration(task.most_runs * seconds_of(task.load))}."
        )
        yield from self.notes
        if os.geteuid() == 0:
            yield "You are root, so the application runs as root, too: another user is safer."
        if application.off:
            yield f"Left out of the ini file: {'; '.join(application.off)}."
        if withheld := list_withheld(os.environ):
            yield f"Left out of the environment, because uWSGI takes them as options: {', '.join(withheld)}."


def make_plan(request: TuneRequest) -> Plan:
    """Check the options, and read the ini file and the log. Raises ConfigError, HeadroomError."""
    _refuse_contradictions(request)
    usable = read_usable_cpus(os.getpid())
    cpus = usable.count if usable else float(len(os.sched_getaffinity(0)))
    directory = Path(request.chdir) if request.chdir else None
    if request.ini:
        application = load_ini(Path(request.ini), directory, request.uwsgi, len(os.sched_getaffinity(0)))
    else:
        application = load_app(request.app or "", directory, request.pythonpath, request.virtualenv, request.uwsgi)
    paths, words, notes = _find_paths(request)
    load, load_words = _make_load(request, application, paths)
    memory, memory_note = _find_memory_limit(request)
    return Plan(
        application=application,
        task=Task(
            present=application.present,
            load=load,
            cpus=cpus,
            most_runs=request.most_runs,
            longest_queue=read_somaxconn(os.getpid()) or DEFAULT_QUEUE_LIMIT,
        ),
        limits=Limits(memory=memory, p99=request.max_p99, rate=load.rate),
        load_words=f"{load_words} for {words}",
        notes=(*notes, *memory_note),
    )


def _refuse_contradictions(request: TuneRequest) -> None:
    if bool(request.ini) == bool(request.app):
        raise ConfigError("give --ini FILE or --app MODULE:CALLABLE")
    if request.ini and (request.pythonpath or request.virtualenv):
        raise ConfigError("--pythonpath and --virtualenv are for --app: an ini file has options for them")
    if request.urls and request.access_log:
        raise ConfigError("give --url or --access-log, not both")
    if request.clients and request.rate:
        raise ConfigError("give --clients or --rate, not both")


def _find_paths(request: TuneRequest) -> tuple[tuple[str, ...], str, list[str]]:
    """The paths to request, what they are in words, and notes."""
    if request.access_log:
        log = Path(request.access_log)
        replay = read_access_log(log, request.methods)
        notes = []
        if len(replay.paths) < replay.requests:
            notes.append(
                f"{len(replay.paths):,} of the {replay.requests:,} requests in {log.name} are used, at random."
            )
        if replay.left_out:
            methods = ", ".join(f"{count:,} {method}" for method, count in sorted(replay.left_out.items()))
            notes.append(f"Not replayed: {methods}.")
        if replay.unreadable:
            notes.append(f"{counted(replay.unreadable, 'line')} of {log.name} could not be read.")
        return replay.paths, f"{counted(len(replay.paths), 'path')} of {log.name}", notes
    urls = request.urls or ("/",)
    for url in urls:
        if not is_path(url):
            raise ConfigError(
                f"--url: expected a path such as /items, not {url}: tune loads only the server that it starts"
            )
    # A query may hold a token: the evidence has the path alone.
    return urls, " ".join(dict.fromkeys(url.partition("?")[0] for url in urls)), []


def _make_load(request: TuneRequest, application: Application, paths: tuple[str, ...]) -> tuple[Load, str]:
    warm_up = min(LONGEST_WARM_UP, request.seconds / 5)
    if request.rate:
        load = Load(paths=paths, rate=request.rate, seconds=request.seconds, warm_up=warm_up)
        return load, f"{request.rate:g} requests/s"
    clients = request.clients or max(LEAST_CLIENTS, application.present.setting.in_all)
    load = Load(paths=paths, clients=clients, seconds=request.seconds, warm_up=warm_up)
    return load, counted(clients, "client")


def _find_memory_limit(request: TuneRequest) -> tuple[float | None, list[str]]:
    """The limit in bytes: at most the memory that this machine has left."""
    available = read_available_memory(os.getpid())
    left = float(available.byte_count) if available else None
    if request.max_memory is None:
        return left, []
    if left is not None and left < request.max_memory:
        return left, [f"This machine has only {byte_size(left)} of memory left: that is the limit."]
    return request.max_memory, []
