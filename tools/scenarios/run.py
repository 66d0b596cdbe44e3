"""Runs scenarios: starts the server and its load, runs `check` beside them, and keeps what it said."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace

from tests.support.real_uwsgi import ROOT
from tools.scenarios import loads
from tools.scenarios.judge import Seen, differences, read_document
from tools.scenarios.scenario import Event, Load, Scenario, Server
from tools.scenarios.servers import Place, burning, started

BESIDE = 4
"""Rows that need no CPU run so many at a time."""

PATIENCE = 60.0
"""Seconds that `check` may take longer than it was asked for."""


@dataclass(frozen=True)
class Result:
    """A row and what came of it: what was seen and how it differs, or why it was skipped."""

    row: Scenario
    seen: Seen | None
    different: tuple[str, ...] = ()
    skipped: str = ""

    @property
    def mark(self) -> str:
        """Whether it is as expected."""
        return "-" if self.skipped else "✗" if self.different else "✓"


def run_row(row: Scenario) -> Result:
    """Run one scenario to its end."""
    if reason := row.skip():
        return Result(row, None, skipped=reason)
    with started(row.server) as place, burning(row.burners):
        addressed = [(_counted(load, row.server), place.address_for(load)) for load in row.loads]
        with loads.running(addressed) as load:
            time.sleep(row.lead)
            seen = _check(row, place)
        seen = replace(seen, tally=load.tally)
    return Result(row, seen, tuple(differences(row, seen)))


def run_rows(rows: Iterable[Scenario], report: Callable[[Result], None], beside: int = BESIDE) -> list[Result]:
    """Run scenarios, those that need no CPU side by side, then the others one after the other. Results are reported as
    they come, and returned in the order of the rows."""
    rows = list(rows)
    results: dict[str, Result] = {}
    together = sorted((row for row in rows if not row.alone), key=lambda row: -(row.lead + row.seconds))
    with ThreadPoolExecutor(beside) as pool:
        for future in as_completed([pool.submit(run_row, row) for row in together]):
            results[future.result().row.name] = future.result()
            report(future.result())
    for row in rows:
        if row.alone:
            results[row.name] = run_row(row)
            report(results[row.name])
    return [results[row.name] for row in rows]


def _counted(load: Load, server: Server) -> Load:
    """The load in requests a second where it was given as a part of the capacity."""
    if not load.part:
        return load
    return replace(load, rate=load.part * server.capacity * 1000 / (load.io_ms + load.cpu_ms))


def _check(row: Scenario, place: Place) -> Seen:
    if row.as_nobody:
        command = [sys.executable, "-m", "tools.scenarios.as_nobody", place.stats, f"{row.seconds:g}"]
    else:
        command = [sys.executable, "-m", "uwsgi_headroom", "check", place.stats]
        command += ["--seconds", f"{row.seconds:g}", "--format", "json"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        _act(row.events, place)
        output, errors = process.communicate(timeout=row.seconds + PATIENCE)
    finally:
        process.kill()
        process.wait()
    directory = f"{place.uwsgi.directory}/"  # a new one each time
    output, errors = output.replace(directory, ""), errors.replace(directory, "")
    document = None
    with contextlib.suppress(ValueError):
        document = json.loads(output)
    if document is None:
        return Seen("unknown", process.returncode, verdict=errors.strip())
    return read_document(document, process.returncode, row)


def _act(events: Sequence[Event], place: Place) -> None:
    begun = time.monotonic()
    for event in events:
        time.sleep(max(0.0, begun + event.at - time.monotonic()))
        event.act(place.uwsgi)
