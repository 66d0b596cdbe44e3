"""Runs `tune`: says what it will do, runs the settings that the search wants, and writes the diff."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shlex
import shutil
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import replace
from math import inf
from pathlib import Path
from statistics import median

from uwsgi_headroom.analysis.what_if.measured import Setting
from uwsgi_headroom.config.defaults import LEAST_CLIENTS
from uwsgi_headroom.errors import ConfigError, HeadroomError
from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.cpus import parse_stat, read_usable_cpus
from uwsgi_headroom.kernel.memory import read_available_memory
from uwsgi_headroom.terminal_text import print_lines, wrap
from uwsgi_headroom.tune.guard import guard_this_process, interrupt_on_signals
from uwsgi_headroom.tune.ini import Ini, edit_ini, is_kept, make_diff, read_ini
from uwsgi_headroom.tune.load import Load, Tally, measure
from uwsgi_headroom.tune.search import MOST_RUNS, Result, Run, Task, Trials, describe_errors, search
from uwsgi_headroom.tune.server import STATS, RunError, running
from uwsgi_headroom.words.formats import byte_size, counted, duration, figure

MOST_PATHS = 500
# The time is bounded, so that a line of many brackets takes no longer. A proxy's log may have the host, too.
_GET = re.compile(rb'\S+ \S+ .*?\[[^\]]{0,99}\] "GET (?:https?://[^/ ]+)?(\S+)(?: HTTP/[\d.]+)?" \d{3} ')


def find_paths(urls: tuple[str, ...], log: str | None) -> tuple[tuple[str, ...], str]:
    """The paths, and what they are in words. Raises ConfigError."""
    if log and urls:
        raise ConfigError("give --url or --access-log, not both")
    if log:
        paths = read_access_log(Path(log))
        return paths, f"{counted(len(paths), 'path')} of {Path(log).name}"
    for url in urls:
        if not is_path(url):
            raise ConfigError(f"--url: expected a path such as /items, not {url}: tune loads only its own server")
    # A query may hold a token.
    return urls or ("/",), " ".join(dict.fromkeys(url.partition("?")[0] for url in urls)) or "/"


def is_path(text: str) -> bool:
    """Whether a text can be requested: a path, perhaps with a query, in ASCII and without spaces."""
    return re.fullmatch(r"/([!-.0-~][!-~]{0,2000})?", text) is not None


def read_access_log(log: Path) -> tuple[str, ...]:
    """The paths of the last 500 GET requests in a log; others may change data. Raises ConfigError."""
    found = deque[str](maxlen=MOST_PATHS)
    try:
        with log.open("rb") as lines:
            for match in filter(None, map(_GET.match, lines)):
                escaped = re.sub(rb"\\x([0-9A-Fa-f]{2})", rb"%\1", match[1])  # how logs write bytes beyond ASCII
                found.extend(filter(is_path, [escaped.decode("ascii", errors="replace")]))
    except OSError as error:
        raise ConfigError(f"--access-log: {log} cannot be read: {error.strerror}") from None
    if not found:
        raise ConfigError(f"--access-log: {log} has no GET request in the common or combined log format")
    return tuple(found)


RECOMMENDED, NOTHING = 0, 1
WIDTH = 100
LONGEST_WARM_UP, BESIDE_SECONDS = 2.0, 3.0  # of each run: before the measured time, and beside its load
UNSUCCESSFUL, OTHERS, CLIENTS = 0.1, 0.15, 0.85
"""Worth a sentence: this part of redirects and errors; of the CPUs for other programs; CPUs of the clients, of one."""


def run(options: argparse.Namespace) -> int:
    """Run `tune` and return its exit status. Raises ConfigError, and HeadroomError if the application does not run."""
    ini = read_ini(options.ini)
    output = Path(options.output or f"{ini.path.name}.diff")
    if output.exists():
        raise ConfigError(f"--output: {output} exists already: give another file")
    paths, words = find_paths(tuple(options.url), options.access_log)
    clients = options.clients or max(LEAST_CLIENTS, ini.present.in_all)
    warm_up = min(LONGEST_WARM_UP, options.seconds / 5)
    load = Load(paths=paths, clients=clients, seconds=options.seconds, warm_up=warm_up)
    uwsgi, variables = find_uwsgi(options.uwsgi, ini), [name for name in os.environ if name.startswith("UWSGI_")]
    # uWSGI would take them as options: `UWSGI_INI` as `ini`.
    withheld = [name for name in variables if not is_kept(name[6:].lower().replace("_", "-"))]
    _say(*list_notes(ini, uwsgi, load, words, withheld))
    if not (options.yes or _is_confirmed()):
        _say("Nothing was started.")
        return NOTHING
    interrupt_on_signals()
    try:
        runs = Runs(ini, uwsgi, load, guard_this_process("headroom-tune-"), withheld)
        print_lines(finish(search(make_task(ini, options.max_memory, load), runs.measure, runs.ask_alone), ini, output))
    except KeyboardInterrupt:
        _say("Interrupted: there is no recommendation.")
        return NOTHING
    return RECOMMENDED


def make_task(ini: Ini, max_memory: float | None, load: Load) -> Task:
    usable, available = read_usable_cpus(os.getpid()), read_available_memory(os.getpid())
    cpus = usable.count if usable else float(len(os.sched_getaffinity(0)))
    memory = min(max_memory or inf, available.byte_count if available else inf)
    return Task(present=ini.present, clients=load.clients, cpus=cpus, memory=memory, fewest=ini.cheaper + 1)


def list_notes(ini: Ini, uwsgi: Path, load: Load, words: str, withheld: list[str]) -> Iterator[str]:
    seconds = MOST_RUNS * (load.warm_up + load.seconds + BESIDE_SECONDS)
    yield f"tune starts {ini.path.name} on 127.0.0.1 with {uwsgi}."
    yield f"{counted(load.clients, 'client')} will request {words}, in {MOST_RUNS} runs at most: {duration(seconds)}."
    if os.geteuid() == 0:
        yield "You are root, so the application runs as root, too: another user is safer."
    if left_out := [*ini.left_out, *withheld]:
        yield f"Left out of the ini file and the environment: {', '.join(left_out)}."
    yield "The application uses its own databases and other backends. Make sure that these are not the production ones."


def find_uwsgi(given: str | None, ini: Ini) -> Path:
    """The given uWSGI, else that of the ini's virtual environment, of this Python, or on PATH. Raises ConfigError."""
    homes = [f"{value}/bin/uwsgi" for key, value in ini.kept if key in ("virtualenv", "venv", "home", "pyhome")]
    wanted = [given] if given else [*homes, str(Path(sys.executable).with_name("uwsgi")), "uwsgi"]
    found = next(filter(None, map(shutil.which, wanted)), None)
    if found is None:
        raise ConfigError(f"--uwsgi: {given} is not a program" if given else "no uwsgi was found: give --uwsgi FILE")
    return Path(found).absolute()


def _is_confirmed() -> bool:
    if not sys.stdin.isatty():
        raise ConfigError("give --yes to start without a question, once you have checked which backends are used")
    print("Start? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


class Runs:
    """Runs settings one after the other, and says how far it is. directory: for the files of the runs."""

    def __init__(self, ini: Ini, uwsgi: Path, load: Load, directory: Path, withheld: list[str]) -> None:
        self._present, self._load, self._directory, self._count = ini.present, load, directory, 0
        self._environment = {name: value for name, value in os.environ.items() if name not in withheld}
        # After the file, so that these options count.
        more = ("--master", "--need-app", "--die-on-term", "--no-orphans", "--http-socket=127.0.0.1:{port}")
        self._command = (str(uwsgi), "--ini={directory}/measured.ini", *more, f"--stats={STATS}")
        (directory / "measured.ini").write_text(ini.render(), errors="surrogateescape")

    def ask_alone(self, setting: Setting) -> Tally:
        _say("One client alone:")
        return self._run(setting, replace(self._load, clients=1, seconds=self._load.seconds / 3)).tally

    def measure(self, setting: Setting) -> Run:
        """One run. Raises RunError if the present setting does not run."""
        self._count += 1
        _say(f"Run {self._count} of at most {MOST_RUNS}, {setting}:")
        try:
            return self._run(setting, self._load)
        except RunError as error:
            if setting == self._present:
                raise
            _say(f"  {error}")
            tally = Tally(errors=Counter({"it did not run": 1}))
            return Run(tally=tally, server_cpu=0.0, clients_cpu=0.0, other_cpu=0.0, memory=0)

    def _run(self, setting: Setting, load: Load) -> Run:
        command = (*self._command, f"--processes={setting.processes}", f"--threads={setting.threads}")
        with running(str(setting), command, self._directory, self._environment) as server:
            server.wait_until_ready(load.paths[0])
            begin = list[float]()

            def read() -> tuple[float, ...]:
                used = sum(parse_stat(procfs.read_file("/proc/stat"))[1].values())
                return time.monotonic(), server.read_cpu(), time.process_time(), used

            tally = asyncio.run(measure(load, server.address, lambda: begin.extend(read()), server.refuse_if_ended))
            seconds, *used = (now - then for now, then in zip(read(), begin, strict=True))
            memory = int(server.read_memory())
        own, clients, everything = (each / seconds for each in used)
        others = max(0.0, everything - own - clients)
        _say(f"  {figure(tally.throughput, 4)} requests/s, mean {duration(tally.mean)}{describe_errors(tally)}")
        return Run(tally=tally, server_cpu=own, clients_cpu=clients, other_cpu=others, memory=memory)


def finish(result: Result, ini: Ini, output: Path) -> Iterator[str]:
    """Write the diff, if any, and return the lines for the terminal. Raises HeadroomError."""
    yield from ("", *wrap(" ".join(result.sentences), WIDTH), "")
    if result.chosen:
        diff = make_diff(ini.text, edit_ini(ini, result.chosen), ini.path)
        try:
            # A new file, through no link; the lines around may hold a password.
            descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(descriptor, "wb") as file:
                file.write(diff.encode(errors="surrogateescape"))
        except OSError as error:
            raise HeadroomError(f"{output} cannot be written: {error.strerror}", diff.split("\n")) from None
        yield from (*diff.rstrip("\n").split("\n"), "")
    yield from (*render_table(result), "")
    for sentence in list_cautions(result.evidence, result.chosen):
        yield from wrap(sentence, WIDTH, "  * ", "    ")
    if result.chosen:
        patch = shlex.join(["patch", str(ini.path), str(output)])
        yield f"Nothing was changed. To apply it: {patch}; then reload uWSGI."


def render_table(result: Result) -> list[str]:
    rows = [("setting", "runs", "requests/s", "mean", "p99", "memory", "CPUs")]
    for setting, by_round in result.evidence.runs.items():
        runs = by_round.values()
        mark = "* " if setting == result.chosen else ""
        rate, mean = (median(getattr(run.tally, name) for run in runs) for name in ("throughput", "mean"))
        slowest = median(run.tally.percentile(0.99) for run in runs)
        memory, cpu = (median(getattr(run, name) for run in runs) for name in ("memory", "server_cpu"))
        times = duration(mean), duration(slowest)
        rows.append((f"{mark}{setting}", str(len(runs)), figure(rate, 4), *times, byte_size(memory), f"{cpu:.2f}"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]


def list_cautions(evidence: Trials, chosen: Setting | None) -> Iterator[str]:
    task, runs = evidence.task, [run for setting in evidence.runs for run in evidence.of(setting)]
    if chosen and task.present.threads == 1 < chosen.threads:
        yield f"{chosen} needs an application and libraries that are thread-safe. This load does not prove that."
    odd = sum((run.tally.unsuccessful for run in runs), Counter[int]())
    if odd.total() > UNSUCCESSFUL * sum(run.tally.answered for run in runs):
        named = ", ".join(f"{status}: {count:,}" for status, count in odd.most_common())
        yield f"Many answers were redirects or errors (status {named}): check that this is the load that you mean."
    clients, others = median(run.clients_cpu for run in runs), median(run.other_cpu for run in runs)
    took = f"They took {clients:.2f} CPUs of this machine{': they may be the limit' if clients > CLIENTS else ''}."
    yield f"{counted(task.clients, 'client')} asked without a pause: with more, more threads may help. {took}"
    if others > OTHERS * task.cpus:
        yield f"Other programs used {others:.1f} CPUs meanwhile. Run tune again while the machine is quiet."
    yield f"Measured with {figure(task.cpus)} CPUs, no proxy, no slow clients, and backends as fast as they are now."


def _say(*sentences: str) -> None:
    for sentence in sentences:
        print_lines(wrap(sentence, WIDTH), sys.stderr)
