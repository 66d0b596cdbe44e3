"""Findings about memory: whether more workers fit."""

from __future__ import annotations

from collections.abc import Iterator

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.finding import Finding
from uwsgi_headroom.analysis.formatting import byte_size
from uwsgi_headroom.analysis.memory_headroom import MemoryHeadroom, compute_memory_headroom
from uwsgi_headroom.reading import Reading

FEW_WORKERS = 2
"""Room for fewer workers is a finding: the first step to relieve a shortage of threads is seldom smaller."""

SCARCE = 0.10
"""If no other worker fits, available memory below this fraction of the workers' own is a warning: unusually large
requests can make the workers grow by that much. Without this threshold, one large worker would be a warning if half its
size were still available."""


def find(_: Figures, reading: Reading) -> Iterator[Finding]:
    """The findings about memory."""
    room = compute_memory_headroom(reading.host.memory)
    if room is None or room.more_workers >= FEW_WORKERS:
        return
    scarce = room.more_workers == 0 and room.available < SCARCE * room.together
    at_most = "" if room.is_exact else " at most"
    place = "within the limit of its cgroup" if room.limited_by == "cgroup" else "on this host"
    yield Finding(
        code="memory_headroom_low",
        severity="warning" if scarce else "info",
        title=_title(room),
        evidence=f"A worker takes {byte_size(room.per_worker)}{at_most}; {byte_size(room.available)} are available "
        f"{place}.",
        meaning="When memory runs out, the kernel ends a process, most likely a worker, and its requests are lost."
        if scarce
        else "More `processes` would not fit if load grows.",
        change=f"{_more_memory(room)} before you add `processes`. Without `lazy-apps`, workers share what the "
        "application loads at its start.",
    )


def _title(room: MemoryHeadroom) -> str:
    there_is = "There is" if room.is_exact else "There may be"
    if room.more_workers == 0:
        return f"{there_is} no memory for another worker."
    return f"{there_is} memory for only {room.more_workers} more worker."


def _more_memory(room: MemoryHeadroom) -> str:
    if room.limited_by == "cgroup":
        return "Raise the memory limit of the cgroup (MemoryMax, --memory, resources.limits.memory)"
    return "Add memory to the host"
