"""Applies a load with a program: this package's clients, ApacheBench (ab) or wrk.

Here is how each program is called, how its output is read while the server is watched, and what the output says. The
program runs under a guard, so that it does not outlive the run.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import select
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Literal

import msgspec

from uwsgi_headroom.tune.processes.guarded import CHECK_SECONDS, Guarded, RunError, guarded

Tool = Literal["own", "ab", "wrk"]
"""own: this package's asyncio clients. ab: ApacheBench. wrk: wrk, which always keeps connections alive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Requests on one server, in one of two shapes: one of `clients` and `rate` is 0."""

    paths: tuple[str, ...] = ("/",)
    """Requested in turn, each with its query."""
    clients: int = 0
    """Closed loop: so many clients repeat their requests without a pause."""
    rate: float = 0.0
    """Open loop: arrivals per second that do not wait for earlier answers."""
    idle: int = 0
    """Connections that are opened before the others, and send nothing."""
    keep_alive: int = 1
    """Calls per connection; 1 is HTTP/1.0 without keep-alive."""
    tool: Tool = "own"
    warm_up: float = 2.0
    """Seconds of the same load that do not count."""
    seconds: float = 15.0
    """Of the measurement."""
    timeout: float = 30.0
    """Seconds after which a request counts as failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What the clients of a load saw in the measured time. Times in seconds.

    In an open loop, response times count from the time at which the request was due, so that a server that stops for a
    second delays all requests of that second (no coordinated omission). A figure that the tool does not report is None.
    """

    seconds: float
    answered: int
    """Complete responses with a status below 500."""
    errors: Mapping[str, int] = field(default_factory=dict)
    """The other requests, by kind: `refused`, `timeout`, `reset`, `status 503`, `left out` (not sent because too many
    were in flight)."""
    mean: float | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    longest: float | None = None
    statuses: Mapping[int, int] = field(default_factory=dict)
    """How many of those answered had a status of 300 or more, by status."""

    @property
    def throughput(self) -> float:
        """Answers per second."""
        return self.answered / self.seconds


PACKAGES = {"ab": "apache2-utils", "wrk": "wrk"}
"""The package of Debian and Ubuntu that holds each tool."""

_AB_MOST_PER_SECOND = 50_000  # ab reserves 32 bytes for each request in advance


@dataclass(frozen=True, slots=True)
class LoadTool:
    name: str
    warm_up: Sequence[str] | None
    """The command of the warm-up; None if `measured` warms up itself, and prints `begin` and the time when the measured
    time begins."""
    measured: Sequence[str]
    """The command of the measured load."""
    parse: Callable[[str], Answers]
    """Makes the answers of the output of `measured`. Raises ValueError."""


def find_tool(load: Load, port: int, directory: Path) -> LoadTool:
    """Return how a load is applied to a port of 127.0.0.1. Raises `RunError` if its tool is missing, or cannot do it.

    directory: where a script, or the task of the clients, may be written.
    """
    if load.tool == "own":
        command = [sys.executable, "-m", "uwsgi_headroom.tune.loads", str(_write_task(load, port, directory))]
        return LoadTool("the clients", None, command, lambda text: msgspec.json.decode(text, type=Answers))
    binary = shutil.which(load.tool)
    if not binary:
        raise RunError(f"{load.tool} is not installed: install the package {PACKAGES[load.tool]}.")
    _refuse_impossible(load)
    make = _ab if load.tool == "ab" else _wrk
    warm_up = make(binary, load, port, load.warm_up, directory) if load.warm_up else ["true"]
    parse = functools.partial(_read_ab, file=_percentiles(directory)) if load.tool == "ab" else parse_wrk
    return LoadTool(load.tool, warm_up, make(binary, load, port, load.seconds, directory), parse)


def _write_task(load: Load, port: int, directory: Path) -> Path:
    """Write what the clients have to do into a file that they remove."""
    path = directory / "task.json"
    with open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(msgspec.json.encode((load, port)))
    return path


def _percentiles(directory: Path) -> Path:
    """The file for the percentiles of ab: those on its standard output are whole milliseconds."""
    return directory / "percentiles.csv"


def _read_ab(text: str, file: Path) -> Answers:
    """Return the answers of ab, which writes no percentiles if there was no answer."""
    return parse_ab(text, file.read_text() if file.exists() else "")


def _refuse_impossible(load: Load) -> None:
    for is_asked, what in (
        (load.rate > 0 or load.clients < 1, "only loads with a number of clients (a closed loop)"),
        (load.idle > 0, "no idle connections"),
        (load.tool == "ab" and len(load.paths) > 1, "one path only"),
    ):
        if is_asked:
            raise RunError(f"{load.tool} knows {what}: use the tool `own` for this load.")


def _url(load: Load, port: int) -> str:
    return f"http://127.0.0.1:{port}{load.paths[0]}"


def _ab(binary: str, load: Load, port: int, seconds: float, directory: Path) -> list[str]:
    """The command of ab. -r: go on after a failure; -l: responses may differ in length; -n after -t, which sets it."""
    seconds = max(1, ceil(seconds))  # whole seconds are all that it takes
    command = [binary, "-q", "-r", "-l", "-t", str(seconds), "-n", str(_AB_MOST_PER_SECOND * seconds)]
    command += ["-c", str(load.clients), "-s", str(max(1, ceil(load.timeout)))]
    return [*command, "-e", str(_percentiles(directory)), *(["-k"] if load.keep_alive > 1 else []), _url(load, port)]


def _wrk(binary: str, load: Load, port: int, seconds: float, directory: Path) -> list[str]:
    script = []
    if len(load.paths) > 1:
        lua = directory / "paths.lua"
        lua.write_text(lua_script(load.paths))
        script = ["-s", str(lua)]
    times = ["-d", f"{max(1, ceil(seconds))}s", "--timeout", f"{max(1, ceil(load.timeout))}s"]
    return [binary, "-t", "1", "-c", str(load.clients), *times, "--latency", *script, _url(load, port)]


def lua_script(paths: Sequence[str]) -> str:
    """Return a script for wrk that requests paths in turn."""
    quoted = ", ".join('"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"' for path in paths)
    return (
        f"local paths = {{{quoted}}}\nlocal place = 0\n"
        "request = function()\n  place = place % #paths + 1\n  return wrk.format(nil, paths[place])\nend\n"
    )


_BEGIN = re.compile(rb"begin ([\d.]+)\n")
"""The first line of clients that warm up themselves."""

_LATE_SECONDS = 60.0
"""How much longer than planned a load tool may take: on a busy machine, starting Python alone takes seconds."""


@dataclass
class Loading:
    """A load that is being applied, by a program whose output is read meanwhile."""

    tool: LoadTool
    guarded: Guarded
    _pipe: int
    _check: Callable[[], None]
    """Raises `RunError` if the server has ended."""
    _longest: float
    _output: bytearray = field(default_factory=bytearray)

    def wait_for_begin(self) -> float:
        """Return when the measured time begins, with the time at which it began, as `time.monotonic` has it. On a busy
        machine that is some tenths of a second ago. Raises `RunError` if the server or the tool ends before."""
        if self.tool.warm_up is not None:
            return time.monotonic()  # its process has just been started, after that of the warm-up
        self._read(lambda: _BEGIN.match(self._output) is not None)
        begun = _BEGIN.match(self._output)
        if begun is None:
            self.refuse_if_failed()
            raise RunError(f"{self.tool.name} ended before the measured time{self.guarded.last_words()}")
        return float(begun[1])

    @property
    def is_running(self) -> bool:
        """Whether the tool has not ended yet."""
        return self.guarded.process.poll() is None

    def refuse_if_failed(self) -> None:
        """Raise `RunError` if the server has ended, or the tool without a result."""
        self._check()
        if self.guarded.process.poll():
            self.guarded.refuse_if_ended()

    def wait(self) -> None:
        """Wait for the end of the tool. Raises `RunError` if it fails."""
        self._read(lambda: False)
        self.guarded.process.wait(_LATE_SECONDS)
        self.refuse_if_failed()

    def answers(self) -> Answers:
        """Wait for the end of the load and return what its clients saw. Raises `RunError`."""
        self.wait()
        try:
            return self.tool.parse(_BEGIN.sub(b"", self._output, count=1).decode())
        except ValueError as error:
            raise RunError(
                f"The output of {self.tool.name} cannot be read: {error}{self.guarded.last_words()}"
            ) from error

    def _read(self, enough: Callable[[], bool]) -> None:
        """Read the output until there is enough of it, or to its end."""
        give_up_at = time.monotonic() + self._longest + _LATE_SECONDS
        while not enough():
            ready, _, _ = select.select([self._pipe], [], [], CHECK_SECONDS)
            if ready:
                received = os.read(self._pipe, 1 << 16)
                if not received:
                    return
                self._output += received
            self._check()
            if time.monotonic() > give_up_at:
                raise RunError(f"{self.tool.name} did not end in time{self.guarded.last_words()}")


@contextlib.contextmanager
def loading(
    tool: LoadTool, load: Load, check: Callable[[], None], directory: Path, temporary: Path | None = None
) -> Iterator[Loading]:
    """Warm up the server, then run the measured load during the block.

    check: raises `RunError` if the server has ended. directory: for the tool's log. temporary: as for `guarded`.
    """

    @contextlib.contextmanager
    def started(command: Sequence[str]) -> Iterator[Loading]:
        reading, writing = os.pipe()
        log, longest = directory / "clients.log", load.warm_up + load.seconds + load.timeout
        with (
            os.fdopen(reading, "rb"),
            os.fdopen(writing, "wb") as output,
            guarded(tool.name, command, log=log, temporary=temporary, output=output) as process,
        ):
            output.close()  # the end of the output is the end of the tool
            yield Loading(tool, process, reading, check, longest)

    if tool.warm_up is not None:
        with started(tool.warm_up) as warming:
            warming.wait()
    with started(tool.measured) as measured:
        yield measured


_TEXT = {
    "seconds": r"^Time taken for tests: +([\d.]+) seconds",
    "complete": r"^Complete requests: +(\d+)",
    "failed": r"^Failed requests: +(\d+)",
}
_KINDS = r"\(Connect: (\d+), Receive: (\d+), Length: (\d+), Exceptions: (\d+)\)"


def parse_ab(text: str, percentiles: str = "") -> Answers:
    """Return the answers of a run with `-r -l`. text: standard output; percentiles: the file of option `-e`.

    ab only counts statuses beyond 299, so a 404 is an error too. It takes a connection that is closed without a
    response for an answer: this is seen only if all are. It has no mean of the response times: `mean` is that of
    Little's law, clients x seconds / requests. Raises ValueError if this is not the output of ab.
    """
    found = {name: re.search(pattern, text, re.MULTILINE) for name, pattern in _TEXT.items()}
    if not all(found.values()):
        raise ValueError("the output of ab has no results")
    seconds, complete, failed = (float(match[1]) for match in found.values() if match)
    if not seconds:
        raise ValueError("ab measured for no time")
    errors = {"status not 2xx": _count(r"^Non-2xx responses: +(\d+)", text)}
    if kinds := re.search(_KINDS, text):
        connect, receive, _, exceptions = map(int, kinds.groups())
        errors |= {"connect": connect, "reset": receive, "exception": exceptions}
    elif failed:
        errors["failed"] = int(failed)
    errors = {kind: count for kind, count in errors.items() if count}
    if _count(r"^Total transferred: +(\d+) bytes", text) == 0 and not errors:
        errors = {"empty": int(complete)}
    # A failed request is complete for ab, but for those that could not connect.
    answered = max(0, int(complete) - sum(count for kind, count in errors.items() if kind != "connect"))
    if not answered:
        return Answers(seconds=seconds, answered=0, errors=errors)
    mean = re.search(r"^Time per request: +([\d.]+) \[ms\] \(mean\)", text, re.MULTILINE)
    longest = re.search(r"^ *100% +(\d+)", text, re.MULTILINE)
    at = {int(percent): float(value) / 1000 for percent, value in re.findall(r"^(\d+),([\d.]+)", percentiles, re.M)}
    return Answers(
        seconds=seconds,
        answered=answered,
        errors=errors,
        mean=float(mean[1]) / 1000 if mean else None,
        p50=at.get(50),
        p95=at.get(95),
        p99=at.get(99),
        longest=int(longest[1]) / 1000 if longest else None,
    )


def _count(pattern: str, text: str) -> int:
    match = re.search(pattern, text, re.MULTILINE)
    return int(match[1]) if match else 0


_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_TIME = r"([\d.]+)(us|ms|s|m|h)"


def parse_wrk(text: str) -> Answers:
    """Return the answers of a run with `--latency`. It has no 95th percentile.

    wrk keeps connections open. If the server closes each one after the response without announcing it, as uWSGI's
    `http-socket` does, wrk counts a read error for each answer: those are no failed requests. It counts statuses beyond
    399 together, and late answers both as answers and as timeouts. Raises ValueError if this is not the output of wrk.
    """
    total = re.search(rf"^ *(\d+) requests in {_TIME},", text, re.MULTILINE)
    if not total or not _seconds(total[2], total[3]):
        raise ValueError("the output of wrk has no results")
    complete, errors = int(total[1]), _errors(text, int(total[1]))
    answered = max(0, complete - errors.get("status not 2xx or 3xx", 0))
    times = re.search(rf"^ *Latency +{_TIME} +{_TIME} +{_TIME}", text, re.MULTILINE)
    at = {
        int(percent): _seconds(value, unit) for percent, value, unit in re.findall(rf"^ *(\d+)% +{_TIME}$", text, re.M)
    }
    has_times = bool(answered and times and float(times[5]))  # zeros if all answers were late
    return Answers(
        seconds=_seconds(total[2], total[3]),
        answered=answered,
        errors=errors,
        mean=_seconds(times[1], times[2]) if times and has_times else None,
        p50=at.get(50) if has_times else None,
        p99=at.get(99) if has_times else None,
        longest=_seconds(times[5], times[6]) if times and has_times else None,
    )


def _errors(text: str, complete: int) -> dict[str, int]:
    errors = {}
    if counts := re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text):
        connect, read, write, timeout = map(int, counts.groups())
        clients = re.search(r"(\d+) connections", text)
        is_closed_after_each = read >= complete - int(clients[1] if clients else 0) and complete > 0
        reset = write + (max(0, read - complete) if is_closed_after_each else read)
        errors = {"connect": connect, "reset": reset, "timeout": timeout}
    if status := re.search(r"Non-2xx or 3xx responses: (\d+)", text):
        errors["status not 2xx or 3xx"] = int(status[1])
    return {kind: count for kind, count in errors.items() if count}


def _seconds(value: str, unit: str) -> float:
    return float(value) * _SECONDS[unit]
