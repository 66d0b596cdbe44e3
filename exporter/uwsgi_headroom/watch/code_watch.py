"""Looks at the code of a server on a timer of its own, and keeps what it sees.

Times of looks do not depend on how long the one before took: else busy moments would have fewer, and seem to be rare. A
costly look lowers the rate, as does the budget of all servers. No error here costs a sample.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from typing import NoReturn

from msgspec import Struct

from uwsgi_headroom.code_look import CodeLook
from uwsgi_headroom.config.defaults import DEFAULT_WINDOWS
from uwsgi_headroom.history.code_time import CodeHistory
from uwsgi_headroom.kernel import stacks
from uwsgi_headroom.kernel.aside import LOOKS, NotYetError, Questions
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.stats import Snapshot
from uwsgi_headroom.watch.pace import Pace
from uwsgi_headroom.watch.reader import LogLimit, Reader

_JITTER = 0.2
"""So that no periodic load hides between looks."""

_MOST_BEHIND = 0.5
"""How many seconds of looks that are late are made up for."""

_LONGEST_STEP = 3.0
"""For so many mean pauses a look stands at most, in counters."""

_PATIENCE = 2.0
"""Seconds for an answer: a look takes 0.1 s at most; that of a new program reads files first."""

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.001, 0.02
"""Seconds between two questions whether it is there."""

_MOST_SHARE = 0.1
"""The share of a CPU that looks at one server may take in any case."""

_SILENT = "the memory of a worker is not readable: it answers too late, or not at all"

_log = logging.getLogger(__name__)


class CodeSetting(Struct, frozen=True):
    """How the code of a server is looked at. prefixes: of the application's files, empty for the rule of
    `kernel.stacks`; seconds: the mean time between two looks; most_cpu: looks that cost more than this share of a CPU
    are made less often; kept_seconds: the longest window."""

    prefixes: tuple[str, ...] = ()
    seconds: float = 1.0
    most_cpu: float = 0.006
    kept_seconds: float = DEFAULT_WINDOWS[-1]


CHECK = CodeSetting(seconds=0.1, most_cpu=0.05)
"""As `check` looks: so that 30 seconds have 300 looks."""


class CodeWatch:
    """Looks at the code of the server that `reader` reads. `pause` is the present mean time between two looks, in
    seconds. is_up: whether the server is up now."""

    def __init__(
        self,
        reader: Reader,
        pace: Pace,
        is_up: Callable[[], bool],
        setting: CodeSetting,
        monotonic: Callable[[], float],
    ) -> None:
        self.setting = setting
        self.history = CodeHistory(setting.kept_seconds)
        self.pause = setting.seconds
        self._reader, self._pace, self._is_up = reader, pace, is_up
        self._monotonic = monotonic
        self._questions = Questions(monotonic, LOOKS, share=_MOST_SHARE)
        self._off: str | None = None
        self._log = LogLimit(reader.name, _log, monotonic).log

    async def run(self) -> NoReturn:
        due = self._monotonic()
        while True:
            try:
                await self.look()
            except Exception as error:  # noqa: BLE001 - an internal error about code must not end the watching
                self._reader.fault(error)
            due += random.uniform(1 - _JITTER, 1 + _JITTER) * self.pause  # noqa: S311 - no secret
            due = max(due, self._monotonic() - _MOST_BEHIND)
            await asyncio.sleep(max(0.0, due - self._monotonic()))

    async def look(self) -> None:
        async with self._pace.budget.looks:
            reading = self._reader.outcome
            if not isinstance(reading, Reading) or not self._is_up():
                return
            if isinstance(reading.snapshot, Snapshot):
                self._note(await self.ask(reading.snapshot, reading.host))

    async def ask(self, snapshot: Snapshot, facts: HostFacts) -> CodeLook:
        """Look once, in the child process, while the event loop goes on."""
        needed = HostFacts(
            off=facts.off,
            processes=facts.processes,
            setup=facts.setup,
            master_pid=facts.master_pid,
            local_pids=facts.local_pids,
        )
        end, pause = self._monotonic() + _PATIENCE, _SHORTEST_PAUSE
        try:
            while self._monotonic() < end:
                try:
                    return self._questions.ask(stacks.look, id(self), self.setting.prefixes, snapshot, needed)
                except NotYetError:
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, _LONGEST_PAUSE)
        except OSError as error:
            return CodeLook(off=str(error))
        finally:
            self._questions.forget()
        return CodeLook(off=_SILENT)

    def _note(self, look: CodeLook) -> None:
        self._pace.note_cpu(look.seconds)
        self.pause = max(self.setting.seconds * self._pace.stretch, look.seconds / self.setting.most_cpu)
        self.history.add(self._monotonic(), look, _LONGEST_STEP * self.pause)
        if look.off and look.off != self._off:
            self._log(logging.INFO, "the code is not visible", detail=look.off)
        self._off = look.off
