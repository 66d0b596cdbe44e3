"""Parses settings of a server (how many processes, with how many threads each), and chooses some to predict."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil

from uwsgi_headroom.errors import HeadroomError

MOST_PROCESSES = 1024
MOST_THREADS = 1024
MOST_IN_ALL = 4096
"""The largest setting that can be asked for: 64x64. Beyond it, a prediction would take long and mean nothing."""

MOST_SETTINGS = 12
"""The most settings in one prediction: it takes about a second."""

_PATTERN = re.compile(r"(\d{1,9})[xX](\d{1,9})")


class SettingError(HeadroomError):
    """A text is not a setting."""


@dataclass(frozen=True, slots=True, order=True)
class Setting:
    """processes, and threads per process. With cheaper mode, processes is its ceiling."""

    processes: int
    threads: int

    def __str__(self) -> str:
        return f"{self.processes}x{self.threads}"

    @property
    def in_all(self) -> int:
        """The number of threads of all processes together."""
        return self.processes * self.threads


def parse_setting(text: str) -> Setting:
    """Parse `8x4`: 8 processes with 4 threads each. Raises SettingError."""
    match = _PATTERN.fullmatch(text.strip())
    if match is None or not text.isascii():
        raise SettingError(f"{text[:40]!r} is not a setting; write processes x threads, such as 8x4")
    setting = Setting(int(match[1]), int(match[2]))
    if not (1 <= setting.processes <= MOST_PROCESSES and 1 <= setting.threads <= MOST_THREADS):
        raise SettingError(
            f"{setting}: processes can be 1 to {MOST_PROCESSES}, and threads per process 1 to {MOST_THREADS}"
        )
    if setting.in_all > MOST_IN_ALL:
        raise SettingError(f"{setting} has {setting.in_all:,} threads; a prediction is for at most {MOST_IN_ALL:,}")
    return setting


def parse_settings(texts: Iterable[str]) -> tuple[Setting, ...]:
    """Parse several, in their order and each once. Raises SettingError, also for more than MOST_SETTINGS."""
    different = dict.fromkeys(text.strip() for text in texts)
    if len(different) > MOST_SETTINGS:  # before they are parsed: a request may contain thousands
        raise SettingError(f"{len(different)} settings are too many; at most {MOST_SETTINGS} are predicted at a time")
    return tuple(dict.fromkeys(map(parse_setting, different)))


def choose_settings(observed: Setting, cpus: float) -> tuple[Setting, ...]:
    """Choose settings around the observed one, where nobody names any: as many threads split otherwise, and more and
    fewer of each. At most MOST_SETTINGS, sorted, the observed one among them."""
    chosen = {observed}
    for setting in _candidates(observed, cpus):
        if len(chosen) == MOST_SETTINGS:
            break
        if setting.processes <= MOST_PROCESSES and setting.threads <= MOST_THREADS and setting.in_all <= MOST_IN_ALL:
            chosen.add(setting)
    return tuple(sorted(chosen))


def _candidates(observed: Setting, cpus: float) -> Iterator[Setting]:
    """The most interesting ones first."""
    processes, threads, in_all = observed.processes, observed.threads, observed.in_all
    yield _split(in_all, 2 * processes)
    if processes > 1:
        yield _split(in_all, processes // 2)
    yield Setting(2 * processes, threads)
    yield Setting(processes, 2 * threads)
    yield Setting(in_all, 1)
    yield _split(in_all, max(1, ceil(cpus)))
    yield Setting(ceil(1.5 * processes), threads)
    yield Setting(processes, ceil(1.5 * threads))
    yield Setting(2 * processes, 2 * threads)
    yield Setting(max(1, processes // 2), threads)
    yield Setting(processes, max(1, threads // 2))
    yield _split(in_all, 4 * processes)
    yield Setting(4 * processes, threads)
    yield Setting(processes, 4 * threads)


def _split(in_all: int, processes: int) -> Setting:
    """About this many threads in all, in so many processes."""
    return Setting(processes, max(1, round(in_all / processes)))
