"""A server under one configuration, ready to be started on loopback."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """A server to measure.

    name: unique among the setups of one experiment, such as `4x8`.
    command: its words; `{port}` is replaced by a free port on 127.0.0.1 that it has to listen on, and `{directory}` by
        a private directory of the run.
    is_uwsgi: whether it is a uWSGI with a stats server on the UNIX socket `{directory}/stats`: only then figures are
        sampled.
    environment, withheld: variables that it gets, and names of those of this process that it does not get.
    """

    name: str
    command: tuple[str, ...]
    is_uwsgi: bool = True
    cwd: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    withheld: tuple[str, ...] = ()
