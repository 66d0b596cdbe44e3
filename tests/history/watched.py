"""A server whose readings go into totals and a history, as in the exporter, at times that a test sets."""

from __future__ import annotations

from tests.support.simulated_server import Server
from uwsgi_headroom.history.hour import History
from uwsgi_headroom.history.integrals import Integrals
from uwsgi_headroom.history.totals import Totals
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.reading import Reading


class Watched:
    """longest_step: seconds from one sample to the next that are no gap."""

    def __init__(self, server: Server | None = None, longest_step: float = 1.0) -> None:
        self.server, self.longest_step = server or Server(), longest_step
        self.integrals, self.history = Integrals(), History()

    def add(self, *readings: Reading) -> Watched:
        for reading in readings:
            self.integrals.add(reading, self.longest_step)
            self.history.add(reading.at, self.integrals.totals)
        return self

    def sample(self, *times: float) -> None:
        for at in times:
            self.add(self.server.read(at))

    @property
    def totals(self) -> Totals:
        return self.integrals.totals

    def window(self, seconds: float = 60) -> Window | None:
        return self.history.window(seconds)


def watch(**options: object) -> tuple[Server, Watched]:
    server = Server(**options)
    return server, Watched(server)


def totals_of(*readings: Reading) -> Totals:
    return Watched().add(*readings).totals
