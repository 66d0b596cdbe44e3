"""The demo's Prometheus and Alertmanager; the demo runs without either if it is not available."""

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
"""Default ports of the two programs; another free port is used where one is taken."""

RULES = ROOT / "alerts" / "rules"
COMPATIBLE = "compat-*"  # rules that provide another exporter's metric names, for migration from it
EVERY = "2s"  # short, so that figures and alerts appear soon


@dataclass(frozen=True)
class DemoMonitoring:
    """The available monitoring programs, and their ports by program name."""

    programs: Sequence[Program]
    ports: dict[str, int]

    def addresses(self, running: Collection[str]) -> dict[str, dict[str, str]]:
        """Returns the addresses of the programs named in `running`, each with what it shows."""
        pages = {}
        if "prometheus" in running:
            pages["Prometheus"] = monitoring.pages(self.ports["prometheus"])
        if "alertmanager" in running:
            place = f"http://{address(self.ports['alertmanager'])}/api/v2/alerts"
            pages["Alertmanager"] = {place: "alerts received (JSON)"}
        return pages


def prepare_monitoring(exporter: int, directory: Path, unpacked: Path) -> DemoMonitoring:
    """Prepares Prometheus and Alertmanager for the exporter on port `exporter`; both write into `directory`.

    Takes the programs from PATH, or unpacks them into `unpacked`. Prints the reason why a program is not available.
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
