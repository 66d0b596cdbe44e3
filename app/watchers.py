"""The Prometheus and the Alertmanager of the demo, where they can be had; it goes on without them."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from app import debian, monitoring
from app.environments import ROOT, SetupError
from app.loopback import address, free_port
from app.programs import Program

PORTS = {"alertmanager": 9093, "prometheus": 9090}
"""Their own defaults; others where these are taken."""

RULES = ROOT / "alerts" / "rules"
COMPATIBLE = "compat-*"  # names of another exporter: for whoever comes from it
EVERY = "2s"  # so that there is soon something to see

NOBODY: dict[str, Any] = {
    "route": {"receiver": "nobody", "group_by": ["job", "server"], "group_wait": "1s", "group_interval": "5s"},
    "receivers": [{"name": "nobody"}],
}
"""Alerts are shown, and sent nowhere."""


@dataclass(frozen=True)
class Watchers:
    """What watches the exporter, the ports of what there is by its name, and what there is not."""

    programs: Sequence[Program]
    ports: dict[str, int]
    missing: Sequence[str]

    def addresses(self) -> str:
        """Lines that say, once they run, where they are and what to look at."""
        lines = []
        if "prometheus" in self.ports:
            lines.append(
                f"Prometheus   {monitoring.alerts_page(self.ports['prometheus'])}: every rule, and what is wrong by it"
            )
        if "alertmanager" in self.ports:
            lines.append(
                f"Alertmanager http://{address(self.ports['alertmanager'])}/api/v2/alerts: what has reached it"
            )
        if self.missing:
            lines.append(f"not here     {' and '.join(self.missing)} ({debian.advice(self.missing)})")
        return "".join(f"\n  {line}" for line in lines)


def found(exporter: int, directory: Path, unpacked: Path) -> Watchers:
    """Watchers of the exporter at this port that write into `directory`. They are on PATH, or put into `unpacked`."""
    with contextlib.suppress(SetupError):
        debian.ensure(unpacked, PORTS)
    places = {name: place for name in PORTS if (place := debian.find(name, unpacked))}
    ports = {name: free_port(PORTS[name]) for name in places}
    programs = []
    if "alertmanager" in places:
        programs.append(monitoring.alertmanager(places["alertmanager"], ports["alertmanager"], directory, NOBODY))
    if "prometheus" in places:
        programs.append(
            monitoring.prometheus(
                places["prometheus"],
                ports["prometheus"],
                directory,
                targets=[exporter],
                rules=sorted(set(RULES.glob("*.yaml")) - set(RULES.glob(COMPATIBLE))),
                alertmanager=ports.get("alertmanager"),
                every=EVERY,
            )
        )
    # Nothing else in the demo needs them, so nothing waits for them.
    programs = [replace(program, ready=lambda: True) for program in programs]
    return Watchers(programs, ports, debian.missing(unpacked, PORTS))
