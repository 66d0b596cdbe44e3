"""Judges a server every few seconds for its journal, in a task beside the one that samples it: no sample is lost by an
error here."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from uwsgi_headroom.analysis.findings import collect_findings
from uwsgi_headroom.analysis.slots import name_slots
from uwsgi_headroom.analysis.verdict import verdict_sentence, worst_status
from uwsgi_headroom.config.defaults import DEFAULT_WINDOWS
from uwsgi_headroom.journal.verdicts import JUDGE_SECONDS
from uwsgi_headroom.reading import Reading

if TYPE_CHECKING:  # each watch has a judge
    from uwsgi_headroom.watch.watch import Watch

_LEAST_SECONDS = 10.0
"""Least history, in seconds, before a server is judged for its journal."""

_SAMPLES = 10
"""New samples after which a server is judged again, where they are more than half a second apart."""

_MOST_CPU = 0.001
"""Largest share of a CPU that judging one server may take."""

_LOOK_SECONDS = 1.0
"""Pause while a judgement is due but there is nothing new to judge."""


class Judge:
    """Judges the readings of a watch for its journal: every JUDGE_SECONDS, or less often if that takes long or the
    samples are far apart. on_cpu is called with the CPU seconds that each judgement took."""

    def __init__(
        self, watch: Watch, monotonic: Callable[[], float], on_cpu: Callable[[float], None] = lambda _seconds: None
    ) -> None:
        self._watch = watch
        self._monotonic = monotonic
        self._on_cpu = on_cpu
        self._due_at = self._judged_at = float("-inf")

    async def run(self) -> NoReturn:
        """Judge the server whenever it is due, until cancelled."""
        while True:
            self.judge_if_due()
            await asyncio.sleep(max(_LOOK_SECONDS, self._due_at - self._monotonic()))

    def judge_if_due(self) -> None:
        """Judge the last reading if that is due, unless it was judged before or the server is not up. An internal error
        is noted as the server's fault."""
        watch, now = self._watch, self._monotonic()
        reading = watch.reading
        if now < self._due_at or watch.history.seconds < _LEAST_SECONDS:
            return
        if reading is None or reading.at <= self._judged_at or watch.state != "up":
            return
        self._judged_at = reading.at
        began = time.thread_time()
        try:
            self._judge(reading)
        except Exception as error:  # noqa: BLE001 - an internal error about one server must not end its judging
            watch.reader.fault(error)
        spent = time.thread_time() - began
        self._on_cpu(spent)
        self._due_at = now + max(JUDGE_SECONDS, _SAMPLES * watch.pace.interval, spent / _MOST_CPU)

    def _judge(self, reading: Reading) -> None:
        for figures in self._watch.figures(reading, DEFAULT_WINDOWS[:1]):
            findings = collect_findings(figures)
            sentence = verdict_sentence(figures.headroom, findings, name_slots(figures.server))
            self._watch.recorder.verdicts.judge(reading.time, worst_status(findings), sentence, findings)
