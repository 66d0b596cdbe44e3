"""Serves the expositions of all stand-in hosts from one process: `/hosts/17/metrics`.

Values are functions of the time of day, so that two scrapers read the same counters. The load of each server runs
ahead of the clock or behind it by a few seconds, which differ from one knot to the next: so counters grow unevenly, as
real ones do, and still never fall.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.fleet import growth, plan
from tools.fleet.exposition import Series
from tools.fleet.growth import Line

KNOT_SECONDS = 10.0
AHEAD_SECONDS = 4.0
"""By which a server's load is ahead of the clock or behind it, at most. Less than half a knot: counters never fall."""
_DICE = random.Random(18)
_NOISE = [_DICE.uniform(-1.0, 1.0) for _ in range(8191)]


@dataclass(frozen=True)
class Host:
    """A host's exposition as a template of `%`, and one line for each of its places; part: index of the server."""

    number: int
    template: str
    places: list[tuple[int, Line]]

    def text(self, start: float, now: float) -> str:
        """Returns the exposition at a time, in seconds since the epoch; counters begin to grow at `start`."""
        clock = now - start
        loads = [clock + ahead(self.number * plan.SLOTS + slot, now) for slot in range(plan.SLOTS)] + [clock]
        moment = int(now / KNOT_SECONDS) + self.number * 101
        values = [
            max(
                0.0,
                line.base
                + line.load_rate * loads[part]
                + line.clock_rate * clock
                + (line.swing * _NOISE[(moment + 13 * place) % 8191] if line.swing else 0.0),
            )
            for place, (part, line) in enumerate(self.places)
        ]
        return self.template % tuple(values)


def ahead(server: int, now: float) -> float:
    """Returns how far the load of a server is ahead of the clock, in seconds: linear between knots."""
    knot, part = divmod(now / KNOT_SECONDS, 1.0)
    index = int(knot) + server * 37
    before, after = _NOISE[index % 8191], _NOISE[(index + 1) % 8191]
    return AHEAD_SECONDS * (before + (after - before) * part)


def build(captured: Sequence[Series], fleet: plan.Fleet, number: int) -> Host:
    """Builds a host: the families in the captured order, each with the series of all servers."""
    parts = [growth.lines(captured, server) for server in fleet.of_host(number)] + [growth.of_exporter(captured)]
    families: dict[str, list[tuple[int, Line]]] = {series.name: [] for series in captured}
    for part, lines in enumerate(parts):
        for line in lines:
            families[line.name].append((part, line))
    kinds = {series.name: series.kind for series in captured}
    text, places, typed = [], list[tuple[int, Line]](), set[str]()
    for name, members in families.items():
        family = name
        if kinds[name] == "histogram":
            family = name.removesuffix("_bucket").removesuffix("_count").removesuffix("_sum")
        if family not in typed and members:
            typed.add(family)
            text.append(f"# TYPE {family} {kinds[name]}\n")
        for part, line in members:
            labels = ",".join(f'{key}="{value}"' for key, value in line.labels.items()).replace("%", "%%")
            text.append(f"{name}{{{labels}}} {'%d' if line.integral else '%r'}\n")
            places.append((part, line))
    return Host(number, "".join(text), places)


@dataclass
class Hosts:
    """All hosts, and when their counters began to grow."""

    hosts: list[Host]
    start: float
    scrapes: int = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers the requests of one connection."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, ValueError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                number = int(head.split(b" ", 2)[1].split(b"/")[2])
                reachable = not plan.is_unreachable(number)
                body = self.hosts[number].text(self.start, time.time()).encode() if reachable else b""
                self.scrapes += 1
                status = b"200 OK" if reachable else b"503 Service Unavailable"
                writer.write(
                    b"HTTP/1.1 %s\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: %d\r\n\r\n"
                    % (status, len(body))
                )
                writer.write(body)
                await writer.drain()
        writer.close()


def write_targets(file: Path, hosts: int, port: int) -> None:
    """Writes the hosts as targets for `file_sd_configs`."""
    targets = [
        {
            "targets": [f"127.0.0.1:{port}"],
            "labels": {"__metrics_path__": f"/hosts/{host}/metrics", "instance": plan.instance(host)},
        }
        for host in range(hosts)
    ]
    file.write_text(json.dumps(targets))


async def serve(captured: Sequence[Series], fleet: plan.Fleet, port: int) -> None:
    """Serves the fleet on a port of 127.0.0.1 until cancelled."""
    hosts = Hosts([build(captured, fleet, number) for number in range(fleet.hosts)], time.time())
    server = await asyncio.start_server(hosts.answer, "127.0.0.1", port, limit=1 << 16)
    async with server:
        await server.serve_forever()
