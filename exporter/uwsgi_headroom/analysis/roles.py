"""Names uWSGI's own processes that are no workers, where they take CPU or memory that the server could use."""

from __future__ import annotations

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.record import Role, RoleUse
from uwsgi_headroom.words.formats import listed

LEAST_CPUS = 0.05
"""CPUs below which a role is not named."""

_WORDS: dict[Role, str] = {"daemon": "attached daemon", "other": "other process"}


def list_busy(figures: Figures) -> list[RoleUse]:
    """The roles that use CPU, most first."""
    busy = [use for use in figures.server.roles if (use.cpus or 0.0) >= LEAST_CPUS]
    return sorted(busy, key=lambda use: -(use.cpus or 0.0))


def find_main_role(figures: Figures) -> RoleUse | None:
    """The role that uses most of the CPU that others use; None if that is another program's, or not known."""
    busy, others = list_busy(figures), figures.cpu.others if figures.cpu else None
    return busy[0] if busy and others and (busy[0].cpus or 0.0) >= others / 2 else None


def name_role(use: RoleUse) -> str:
    """Its processes in words, such as `mules` or `router`."""
    word = _WORDS.get(use.role, use.role)
    return word if use.processes == 1 else f"{word}es" if word.endswith("s") else f"{word}s"


def name_busy(figures: Figures) -> str:
    """Which of uWSGI's own processes use how much of the CPU, as a list; empty if none does."""
    parts = [f"{name_role(use)} ({use.cpus or 0.0:.2f} CPUs)" for use in list_busy(figures)]
    return listed(parts) if parts else ""
