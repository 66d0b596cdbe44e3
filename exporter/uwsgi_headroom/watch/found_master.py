"""What discovery says of one uWSGI."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from uwsgi_headroom.source import Address


@dataclass(frozen=True, slots=True)
class FoundMaster:
    """A uWSGI master, or an emperor; role is "process" for a uWSGI that runs without one.

    address: of its stats server, None if it has none that can be seen; what: what was read there. trouble: why it
    cannot be read, and what to do; silent: it does not answer in time, so it may be hung. configuration and directory:
    its configuration file and working directory, empty if not known; emperor: the pid of the uWSGI whose vassal it is.
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
