"""All figures of one window together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from uwsgi_headroom.analysis.balance import Balance, compute_balance
from uwsgi_headroom.analysis.capacity import Headroom, compute_headroom
from uwsgi_headroom.analysis.littles_law import Flow, compute_flow
from uwsgi_headroom.analysis.neighbours import CpuShares, compute_shares
from uwsgi_headroom.history.totals import sum_if_all_known
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.kernel.cpus import UsableCpus
from uwsgi_headroom.stats import Snapshot
from uwsgi_headroom.stats.server import Worker


@dataclass(frozen=True, slots=True)
class Figures:
    """What a window says. snapshot: the server's document at the window's end. configured and available: threads, None
    where uWSGI names none; ceiling: those available, and those of workers that cheaper mode keeps in reserve. cpu: None
    where the kernel does not say."""

    window: Window
    snapshot: Snapshot
    flow: Flow
    balance: Balance
    headroom: Headroom
    configured: int | None
    available: int | None
    ceiling: int | None
    cpu: CpuShares | None


def compute_figures(
    window: Window, snapshot: Snapshot, cpus: UsableCpus | None, others_follow: bool | None = None
) -> Figures:
    """The figures of a window that ends with this document of a server, whose workers may use these CPUs.
    others_follow: whether the CPU use of others grows with its requests."""
    workers = snapshot.workers
    ceiling = count_ceiling(workers)
    rates, shares, cpu = compute_flow(window), compute_balance(window), compute_shares(window.cpu)
    return Figures(
        window=window,
        snapshot=snapshot,
        flow=rates,
        balance=shares,
        headroom=compute_headroom(rates, shares, ceiling, cpus.count if cpus else None, cpu, others_follow),
        configured=sum_if_all_known([worker.threads for worker in workers]),
        available=sum_if_all_known([worker.available_threads for worker in workers]),
        ceiling=ceiling,
        cpu=cpu,
    )


def count_ceiling(workers: Sequence[Worker]) -> int | None:
    """The most threads that can serve: those available, and those of workers that cheaper mode keeps in reserve. None
    where uWSGI names no threads."""
    available = sum_if_all_known([worker.available_threads for worker in workers])
    reserve = sum_if_all_known([worker.threads for worker in workers if worker.in_reserve])
    return None if available is None else available + (reserve or 0)
