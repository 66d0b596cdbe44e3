"""The Prometheus and the Alertmanager of the demo, which goes on without what it cannot have of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from app import monitoring
from app.loopback import address, free_port
from app.programs import Program
from tools import debian
from tools.environments import ROOT, SetupError
from tools.progress import note

PORTS = {"alertmanager": 9093, "prometheus": 9090}
"""Their own defaults; others where these are taken."""

RULES = ROOT / "alerts" / "rules"
COMPATIBLE = "compat-*"  # names of another exporter, for people who come from it
EVERY = "2s"  # so that there is soon something to see


@dataclass(frozen=True)
class DemoMonitoring:
    """What watches the exporter, and the ports of what there is by its name."""

    programs: Sequence[Program]
    ports: dict[str, int]

    def addresses(self, running: Collection[str]) -> dict[str, dict[str, str]]:
        """What to look at, and what it shows, of those that run."""
        pages = {}
        if "prometheus" in running:
            pages["Prometheus"] = monitoring.pages(self.ports["prometheus"])
        if "alertmanager" in running:
            place = f"http://{address(self.ports['alertmanager'])}/api/v2/alerts"
            pages["Alertmanager"] = {place: "alerts received (JSON)"}
        return pages


def prepare_monitoring(exporter: int, directory: Path, unpacked: Path) -> DemoMonitoring:
    """Watchers of the exporter at this port that write into `directory`. They are on PATH, or put into `unpacked`.

    It says why one cannot be had.
    """
    for name in PORTS:
        try:
            debian.ensure_programs(unpacked, [name])
        except SetupError as error:
            note(f"  Going on without {name}: " + str(error).replace("\n", "\n  | "))
    places = {name: place for name in PORTS if (place := debian.find_program(name, unpacked))}
    ports = {name: free_port(PORTS[name]) for name in places}
    programs = []
    if "alertmanager" in places:
        programs.append(
            monitoring.alertmanager(places["alertmanager"], ports["alertmanager"], directory, monitoring.NOBODY)
        )
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
    return DemoMonitoring([replace(program, required=False) for program in programs], ports)
