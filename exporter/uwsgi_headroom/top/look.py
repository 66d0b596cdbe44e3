"""Shows every uWSGI of this machine in a terminal while `check.look` watches them: a line each, the worst first, drawn
again each second. The answer is printed below what was there before.

A row's figures are those of the last sample. Verdicts cost more, so servers take turns for a small share of a CPU.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence
from math import inf

from msgspec import Struct
from rich.cells import set_cell_size
from rich.text import Text

from uwsgi_headroom.check import look
from uwsgi_headroom.check.request import WORST_FIRST, Request, Status
from uwsgi_headroom.check.tables import UNKNOWN, find_field
from uwsgi_headroom.discover import Everything
from uwsgi_headroom.documents import build
from uwsgi_headroom.history.counts import sum_if_all_known
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.source import ProcessOfApp
from uwsgi_headroom.stats import Snapshot
from uwsgi_headroom.terminal_text import escape_text
from uwsgi_headroom.top.terminal import Capabilities, Painter, Terminal, detect_capabilities, takes_unicode
from uwsgi_headroom.top.view.tables import cut_middle
from uwsgi_headroom.watch import suspend
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.watch import Watch
from uwsgi_headroom.words.formats import counted
from uwsgi_headroom.words.states import STATUSES

_FIRST_VERDICT = 3.0
"""Seconds after which a verdict is worth showing."""

_DRAW_SECONDS = 1.0

_JUDGE_SECONDS = 0.03
"""CPU time for verdicts in each second."""


class Row(Struct, frozen=True):
    """A server in the list. busy, threads, queue: None if unknown; status: None before the first verdict."""

    name: str
    user: str
    source: str
    busy: int | None = None
    threads: int | None = None
    queue: int | None = None
    status: Status | None = None
    verdict: str = ""
    headroom: float = inf

    @property
    def order(self) -> tuple[float, ...]:
        """The worst first: by verdict and headroom, else by queue and by busy threads."""
        place = WORST_FIRST.index(self.status) if self.status else inf
        return place, self.headroom, -(self.queue or 0), -(self.busy or 0) / (self.threads or 1)


def run() -> int:
    """Look, show the list meanwhile if the terminal can, and print the answer. Returns the exit status: 0, or 1 if
    nothing was found. Raises HeadroomError if there is nothing to look at."""
    capabilities = detect_capabilities(os.environ, sys.stdout.fileno())
    look.run(Request(), (lambda found: _Look(found, capabilities).show) if capabilities.addressable else None)
    return 0


class _Look:
    def __init__(self, found: Everything, capabilities: Capabilities) -> None:
        self._found = found
        unicode = takes_unicode(sys.stdout.encoding)
        self._painter = Painter(colour=capabilities.colour, styles=True, unicode=unicode)
        self._verdicts: dict[str, tuple[Status, str, float]] = {}
        self._turn = 0

    async def show(self, fleet: Fleet, seconds: float) -> None:
        """Draw the list until cancelled. A key or signal that ends `top` ends this too."""
        loop = asyncio.get_running_loop()
        terminal = Terminal(sys.stdin.fileno(), sys.stdout.fileno(), self._on_key, lambda: end_by(signal.SIGHUP))
        end = loop.time() + seconds

        def draw() -> None:
            columns, height = terminal.size
            rows = [self._make_row(watch) for watch in fleet.watches()]
            lines = render_list(rows, self._found, max(0.0, end - loop.time()), columns, height)
            terminal.show([self._painter.paint(line, columns) for line in lines])

        async def stop() -> None:
            await fleet.pause()
            terminal.leave()

        def go_on() -> None:
            terminal.enter()
            fleet.resume()

        def end_by(number: int) -> None:
            terminal.leave()
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

        terminal.enter()
        suspend.between_reads(stop, go_on)
        loop.add_signal_handler(signal.SIGWINCH, terminal.clear)
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, end_by, number)
        try:
            while True:
                elapsed = loop.time() - (end - seconds)
                if elapsed >= _FIRST_VERDICT:
                    self._judge_some(fleet, seconds)
                if not terminal.busy:
                    draw()
                await asyncio.sleep(min(_DRAW_SECONDS, 0.2 + elapsed))
        finally:
            terminal.leave()

    def _judge_some(self, fleet: Fleet, seconds: float) -> None:
        """Judge servers in turn, for as long as verdicts may take."""
        watches = fleet.watches()
        end = time.thread_time() + _JUDGE_SECONDS
        for _ in watches:
            watch = watches[self._turn % len(watches)]
            self._turn += 1
            server = build.build_server(watch, fleet.clock, seconds, (), with_lines=False)
            self._verdicts[watch.name] = server.status, server.verdict, find_field(server, "headroom.factor") or inf
            if time.thread_time() >= end:
                break

    def _make_row(self, watch: Watch) -> Row:
        watch = watch.shown
        source = "kernel" if isinstance(watch.address, ProcessOfApp) else "stats"
        verdict = self._verdicts.get(watch.name, ())
        figures = _count(watch.reading) if watch.reading and watch.state == "up" else (None, None, None)
        return Row(watch.name, self._found.users.get(watch.name, ""), source, *figures, *verdict)

    def _on_key(self, key: str) -> None:
        if key == "q":
            signal.raise_signal(signal.SIGINT)


def _count(reading: Reading) -> tuple[int | None, int | None, int | None]:
    if not isinstance(reading.snapshot, Snapshot):
        return None, None, None
    workers = reading.snapshot.workers
    busy, threads = [reading.busy_threads(each) for each in workers], [each.threads for each in workers]
    queues = [backlog.queue for backlog in reading.listen_queues().values()]
    return sum_if_all_known(busy), sum_if_all_known(threads), sum_if_all_known(queues)


def render_list(rows: Sequence[Row], found: Everything, left: float, columns: int, height: int) -> list[Text]:
    """Draw the list in so many columns and lines. left: seconds to the answer. What does not fit is left out, from the
    right and from the end."""
    name = max(8, min(24, columns - 19, max((len(escape_text(row.name)) for row in rows), default=0)))
    user = 9 if columns >= 60 else 0
    source = 8 if columns >= 50 else 0
    lines = [
        Text(f"{counted(len(rows), 'uWSGI')}; the answer follows in {left:.0f} s (Ctrl-C: now)", "bold"),
        Text(),
        Text(
            f"{'name':{name}} {'user'[:user]:{user}}{'busy':>9} {'queue':>6}  {'source'[:source]:{source}}so far", "dim"
        ),
    ]
    number = len(found.hidden) + found.left_out
    others = f"{counted(number, 'more uWSGI')}: not looked at" * bool(number)
    room = max(1, height - len(lines) - bool(others) - 1)
    for row in sorted(rows, key=lambda row: (row.order, row.name))[:room]:
        busy, threads, queue = (
            UNKNOWN if figure is None else f"{figure}" for figure in (row.busy, row.threads, row.queue)
        )
        names = [(cut_middle(escape_text(text), size), size) for text, size in ((row.name, name), (row.user, user - 1))]
        shown = " ".join(set_cell_size(text, size) for text, size in names if size > 0)
        line = Text(f"{shown} {f'{busy} of {threads}':>9} {queue:>6}  {row.source[:source]:{source}}")
        if row.status:
            line.append(f"{row.status}: {row.verdict}", STATUSES[row.status].terminal)
        lines.append(line)
    left_out = max(0, len(rows) - room)
    lines += [*[Text(f"... and {left_out} more")] * bool(left_out), *[Text(others, "dim")] * bool(others)]
    return lines[:height]
