"""Makes the watches of one exporter, which share what needs to exist only once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from uwsgi_headroom.clock import Clock
from uwsgi_headroom.config.servers import ServerConfig
from uwsgi_headroom.config.settings import Settings
from uwsgi_headroom.kernel.host import Host
from uwsgi_headroom.kernel.listener_dumps import ListenerDumps
from uwsgi_headroom.kernel.machine_cpu import MachineCpu
from uwsgi_headroom.kernel.waits.sampler import WaitSetting
from uwsgi_headroom.routes.templates import Templates
from uwsgi_headroom.source import Address
from uwsgi_headroom.watch.cpu_budget import CpuBudget
from uwsgi_headroom.watch.loop_lag import LoopLag
from uwsgi_headroom.watch.route_namer import RouteNamer
from uwsgi_headroom.watch.watch import Watch

if TYPE_CHECKING:  # it loads sqlite3, 1.4 MB, which only a history file needs
    from uwsgi_headroom.store.writer import HistoryWriter


class WatchMaker:
    """Shares the clock, the readings of the machine, the lists of listeners, the CPU budget, templates of routes and
    the writer of the history among all watches. Uses the settings with which the exporter started, but for the
    objective."""

    def __init__(self, settings: Settings, clock: Clock, lag: LoopLag, writer: HistoryWriter | None) -> None:
        self._settings, self._clock, self._lag, self._writer = settings, clock, lag, writer
        self._machine_cpu = MachineCpu(clock.monotonic)
        self._listeners = ListenerDumps(clock.monotonic)
        self._budget = CpuBudget(clock.monotonic)
        self._waits = WaitSetting(
            enabled=settings.waits,
            backends={address: name for name, address in settings.backends},
            read_pollfds=settings.read_pollfds,
        )
        self._templates = Templates(settings.route_templates) if settings.routes else None

    def make(
        self, name: str, address: Address, config: ServerConfig, settings: Settings, *, keeps_history: bool = True
    ) -> Watch:
        """Make the watch of a server. settings: the present ones, with the objective of servers without one."""
        return Watch(
            name,
            address,
            timeout=config.timeout,
            size_cap=config.size_cap,
            samples_per_second=self._settings.samples_per_second,
            slo=config.slo or settings.slo,
            stuck_seconds=config.stuck_seconds or settings.stuck_seconds,
            host=Host(
                self._settings.cpu_residency, self._clock.monotonic, self._machine_cpu, self._waits, self._listeners
            ),
            routes=RouteNamer(self._templates) if self._templates is not None else None,
            clock=self._clock,
            lag=self._lag,
            writer=self._writer if keeps_history else None,
            budget=self._budget,
        )
