"""Says how much time is left for all experiments of the lab."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from app.lab.run import Planned
from uwsgi_headroom.words.formats import duration


@dataclass
class Progress:
    """Prints the lines of a series, with the time that is left for all series.

    plans: the runs by the file of their results, which has a line for each run that is done.
    """

    plans: Mapping[Path, Sequence[Planned]]
    clock: Callable[[], float] = time.monotonic
    _began: float = field(init=False)
    _first: float = field(init=False)

    def __post_init__(self) -> None:
        self._began, self._first = self.clock(), self._planned_left()

    def begin(self, title: str, file: Path) -> None:
        """Prints the head of a series."""
        print(f"\n{title}: {len(self.plans[file])} runs", flush=True)

    def say(self, text: str) -> None:
        """Prints a line of a series."""
        print(f"{text} ({duration(self.seconds_left())} for all)" if text.endswith(" left") else text, flush=True)

    def seconds_left(self) -> float:
        """Returns the seconds for all runs that are not done, if they are as late as those done since the start."""
        left = self._planned_left()
        done = self._first - left
        return left * ((self.clock() - self._began) / done if done > 0 else 1.0)

    def _planned_left(self) -> float:
        return sum(
            sum(planned.seconds for planned in plan) * (1 - _kept(file) / len(plan))
            for file, plan in self.plans.items()
            if plan
        )


def _kept(file: Path) -> int:
    return file.read_bytes().count(b"\n") if file.is_file() else 0
