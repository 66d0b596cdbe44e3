"""Fills in the placeholders in a runbook's commands with the values of one server.

A value comes from uWSGI, from a path or from the request, so it may be hostile. In shell commands, values are quoted as
one word; in PromQL, they are escaped as part of a string; in HTML, they are escaped once more. Values that cannot be
typed (with a line break, an invisible or a right-to-left character) are not filled in.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from html import escape
from unicodedata import bidirectional

from msgspec import Struct

from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.kernel.setup import find_systemd_unit
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.stats import Snapshot
from uwsgi_headroom.stats.server import Worker
from uwsgi_headroom.watch.watch import Watch

MEANINGS = {
    "SERVER": "the name of the uWSGI server (the label `server`)",
    "STATS": "the address of its stats server",
    "EXPORTER": "the exporter's address, `http://HOST:9238`",
    "MASTER_PID": "the PID of uWSGI's master",
    "WORKER_PID": "the PID of a worker",
    "WORKER_PIDS": "the PIDs of all workers",
    "UNIT": "uWSGI's systemd unit; `ps -o unit= -p PID` prints it for a PID of uWSGI",
}
"""The meaning of each placeholder."""

PIDS = {"MASTER_PID", "WORKER_PID", "WORKER_PIDS"}

PLACEHOLDER = re.compile(rf"(?<![\w$])(?:{'|'.join(sorted(MEANINGS, key=len, reverse=True))})(?!\w)")

Values = Mapping[str, str]
"""Values by placeholder. WORKER_PIDS is several words of digits; every other value is one word."""


def is_typeable(value: str) -> bool:
    """Whether a person who copies a value into a terminal sees its effect."""
    return value != "" and value.isprintable() and not any(map(_is_right_to_left, value))


def _is_right_to_left(character: str) -> bool:
    return bidirectional(character) in ("R", "AL")


def fill_code(code: str, language: str, values: Values) -> str:
    """Write the HTML of a command or a query, with placeholders filled in, or marked if they have no value."""
    html, end = [], 0
    for match in PLACEHOLDER.finditer(code):
        html += [escape(code[end : match.start()]), _fill(match, language, values)]
        end = match.end()
    return "".join([*html, escape(code[end:])])


def _fill(match: re.Match[str], language: str, values: Values) -> str:
    name, value = match[0], values.get(match[0])
    if value is None:
        return f"<mark>{name}</mark>"
    in_string = match.string[match.start() - 1 : match.start()] == '"'
    if in_string or language == "promql":
        text = value.replace("\\", "\\\\").replace('"', '\\"')
    else:
        text = value if name == "WORKER_PIDS" else shlex.quote(value)
    return f"<b>{escape(text)}</b>"


def used_placeholders(text: str) -> set[str]:
    return set(PLACEHOLDER.findall(text))


class Target(Struct, frozen=True):
    """The server for which a runbook is filled in. workers: those with a process; chosen: the one that the commands
    mean, None if none is chosen; doubt: why the kernel does not prove its PIDs, if they are not known for that."""

    name: str
    values: Values
    workers: tuple[Worker, ...] = ()
    chosen: Worker | None = None
    doubt: str | None = None


def describe_target(watch: Watch, exporter: str | None, chosen: str) -> Target:
    """Collect the values of a server. exporter: the exporter's URL, if it is known; chosen: the id of a worker as in
    the request, or any other text for none."""
    reading = watch.reading
    address = str(watch.address)
    values = {"SERVER": watch.name}
    if "?" not in address:  # a query may contain a token
        values["STATS"] = address
    if exporter:
        values["EXPORTER"] = exporter
    workers = _living_workers(reading) if watch.state == "up" else []
    only = workers[0] if len(workers) == 1 else None
    worker = next((worker for worker in workers if str(worker.worker_id) == chosen), only)
    values |= collect_pids(reading.host, workers, worker) if reading else {}
    typeable = {name: value for name, value in values.items() if is_typeable(value)}
    return Target(watch.name, typeable, tuple(workers), worker, reading.host.off if reading else None)


def collect_pids(host: HostFacts, workers: Sequence[Worker], chosen: Worker | None) -> dict[str, str]:
    """Collect the PIDs on this host that the kernel proves, and the unit of systemd. The others are left out: a stats
    document can name any process."""
    pids = {worker.worker_id: str(pid) for worker in workers if (pid := host.local_pid(worker.pid or 0))}
    if host.master_pid is None:
        return {}
    found = {"MASTER_PID": str(host.master_pid)}
    if pids and len(pids) == len(workers):
        found["WORKER_PIDS"] = " ".join(pids.values())
    if chosen and chosen.worker_id in pids:
        found["WORKER_PID"] = pids[chosen.worker_id]
    if host.processes and (unit := find_systemd_unit(host.master_pid)):
        found["UNIT"] = unit
    return found


def _living_workers(reading: Reading | None) -> list[Worker]:
    if reading is None or not isinstance(reading.snapshot, Snapshot):
        return []
    return [worker for worker in reading.snapshot.workers if worker.pid and not reading.process_is_missing(worker)]
