"""The data that discovery finds about one uWSGI master."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from uwsgi_headroom.source import Address


@dataclass(frozen=True, slots=True)
class FoundMaster:
    """A uWSGI master or emperor; role is "process" for a uWSGI that runs without a master.

    address: of its stats server, None if none is visible; what: a summary of the stats. trouble: why the stats cannot
    be read, and what to do; silent: the stats server does not answer in time, so uWSGI may hang. configuration and
    directory: configuration file and working directory, empty if unknown; emperor: PID of the emperor of this vassal.
    """

    pid: int
    user: str
    role: Literal["master", "process"] = "master"
    address: Address | None = None
    trouble: str = ""
    silent: bool = False
    what: str = ""
    configuration: str = ""
    directory: str = ""
    emperor: int | None = None
