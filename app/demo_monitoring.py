"""The demo's Prometheus and Alertmanager; the demo runs without either if it is not available."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from app import monitoring
from app.loopback import address, free_port, why_taken
from app.programs import Program
from tools import debian
from tools.commands import note
from tools.environments import ROOT, SetupError

PORTS = {"alertmanager": 9093, "prometheus": 9090}
"""Default ports of the two programs; another free port is used where one is taken."""

RULES = ROOT / "alerts" / "rules"
COMPATIBLE = "compat-*"  # rules that provide another exporter's metric names, for migration from it
EVERY = "2s"  # short, so that figures and alerts appear soon


MOST_PORTS = 5
"""Ports that a program tries, each free when it was chosen and taken by another process before the program listened."""


@dataclass(frozen=True)
class DemoMonitoring:
    """The available monitoring programs by name; they watch the exporter on port `exporter`, write into `directory`,
    and `ports` has the ports of those that were started."""

    places: Mapping[str, Path]
    exporter: int
    directory: Path
    ports: dict[str, int] = field(default_factory=dict)

    def programs(self) -> Iterator[Program]:
        """Yields each program when the one before has been started: its port is chosen then."""
        makers = {"alertmanager": self._alertmanager, "prometheus": self._prometheus}
        for name, make in makers.items():
            if name in self.places:
                yield self._on_free_port(name, make, MOST_PORTS)

    def addresses(self, running: Collection[str]) -> dict[str, dict[str, str]]:
        """The addresses of the programs named in `running`, each with what it shows."""
        pages = {}
        if "prometheus" in running:
            pages["Prometheus"] = monitoring.pages(self.ports["prometheus"])
        if "alertmanager" in running:
            place = f"http://{address(self.ports['alertmanager'])}/api/v2/alerts"
            pages["Alertmanager"] = {place: "alerts received (JSON)"}
        return pages

    def _on_free_port(self, name: str, make: Callable[[int], Program], tries: int) -> Program:
        """The program, which is made again for another port if it ends because another process was faster."""
        port = self.ports[name] = free_port(PORTS[name])

        def instead() -> Program | None:
            return self._on_free_port(name, make, tries - 1) if tries > 1 and why_taken(port) else None

        return replace(make(port), required=False, instead=instead)

    def _alertmanager(self, port: int) -> Program:
        return monitoring.alertmanager(self.places["alertmanager"], port, self.directory, monitoring.NOBODY)

    def _prometheus(self, port: int) -> Program:
        return monitoring.prometheus(
            self.places["prometheus"],
            port,
            self.directory,
            targets=[self.exporter],
            rules=sorted(set(RULES.glob("*.yaml")) - set(RULES.glob(COMPATIBLE))),
            alertmanager=self.ports.get("alertmanager"),
            every=EVERY,
        )


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
    return DemoMonitoring(places, exporter, directory)
