"""Scripted watches: a test sets what a server does second by second, and gets its document."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.support.captured_documents import path
from tests.support.simulated_server import EPOCH, Server
from uwsgi_headroom.clock import Clock
from uwsgi_headroom.config.slo import Slo
from uwsgi_headroom.documents import build, schema
from uwsgi_headroom.documents.history import HistoryDocument, build_history
from uwsgi_headroom.errors import ReadError
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.source import Address, Unix
from uwsgi_headroom.source.address import File
from uwsgi_headroom.store.writer import HistoryWriter
from uwsgi_headroom.watch.watch import Watch


class ScriptedWatch:
    """A watch, and a clock that is set to its last outcome. cpu: the CPU seconds of its judging, which takes none."""

    def __init__(
        self,
        name: str = "shop",
        address: Address | None = None,
        slo: Slo | None = None,
        writer: HistoryWriter | None = None,
        cpu: Callable[[], float] | None = None,
    ) -> None:
        self.now = 0.0
        self.clock = Clock(lambda: self.now, lambda: EPOCH + self.now, cpu or (lambda: 0.0))
        self.watch = Watch(name, address or Unix("/run/shop.stats"), slo=slo, clock=self.clock, writer=writer)

    def read(self, outcome: Reading | ReadError, at: float | None = None) -> ScriptedWatch:
        """Adds the outcome of a read, at its own time or, for a failure, at `at`; the server is then judged if due."""
        self.now = outcome.at if isinstance(outcome, Reading) else self.now if at is None else at
        self.watch._record(self.now, outcome)
        self.watch.reader.outcome = outcome
        self.watch.judge.judge_if_due()
        return self

    def seconds(
        self, server: Server, count: int, each: Callable[[int], None] = lambda _second: None, samples: int = 1
    ) -> ScriptedWatch:
        """Adds `count` seconds with so many samples each, from now on; `each` runs in every second."""
        if self.watch.reading is None:
            self.read(server.read(self.now))
        for second in range(count):
            each(second)
            for _ in range(samples):
                self.read(server.read(self.now + 1.0 / samples))
        return self

    def document(self, window: float = 60.0) -> schema.ServerDocument:
        return build.build_server(self.watch, self.clock, window, (60.0, 300.0))

    def history(self, seconds: float = 3600, points: int = 600, until: float | None = None) -> HistoryDocument:
        return asyncio.run(build_history(self.watch, self.clock, seconds, points, until))


def replayed(name: str) -> ScriptedWatch:
    """One reading of a captured document."""
    watch = ScriptedWatch(name, File(str(path(name))))
    asyncio.run(watch.watch.reader.read())
    return watch
