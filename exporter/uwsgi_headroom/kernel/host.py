"""Everything the kernel says of one server, gathered for one reading.

Listen queues are asked for at every reading, for they move between samples. Processes cost more and say nothing new
five times a second (the kernel itself counts CPU time in hundredths): they are asked for once a second, in step with
the rows of the history, and whenever somebody wants them fresh or there are other processes than before.
"""

from __future__ import annotations

from dataclasses import replace

from uwsgi_headroom.kernel.backlogs import Backlogs
from uwsgi_headroom.kernel.cpus import usable_cpus
from uwsgi_headroom.kernel.netstat import listen_overflows
from uwsgi_headroom.kernel.processes import Processes
from uwsgi_headroom.kernel.proof import prove
from uwsgi_headroom.kernel.residency import threads
from uwsgi_headroom.reading import HostFacts
from uwsgi_headroom.source import Answer
from uwsgi_headroom.stats import AnySnapshot
from uwsgi_headroom.stats.server import Snapshot

LOOK_SECONDS = 1.0
"""The step of the history's rows (window.ROW_SECONDS), so that the processes of a row are of its own instant."""


class Host:
    """Asks the kernel about one server's processes and sockets; keeps what is costly to find again. With cpu_residency,
    about every thread of its workers too."""

    def __init__(self, cpu_residency: bool = False) -> None:
        self._cpu_residency = cpu_residency
        self._processes = Processes()
        self._backlogs = Backlogs()
        self._last = HostFacts()
        self._asked: tuple[int, ...] = ()
        self._row_at = float("-inf")

    def facts(self, snapshot: AnySnapshot, answer: Answer, at: float, *, fresh: bool = True) -> HostFacts:
        """What the kernel says of the server that gave this answer at the monotonic instant `at`; or why nothing, where
        its pid is not proven. What is not of this very instant, unless `fresh`, is of the last second."""
        if not isinstance(snapshot, Snapshot):
            return HostFacts()
        proof = prove(snapshot.pid, peer_pid=answer.peer_pid, listener=answer.peer)
        backlogs = self._backlogs.read(proof.pid, [socket.name for socket in snapshot.sockets])
        if proof.pid is None:
            return HostFacts(at=at, off=proof.reason, backlogs=backlogs)
        asked = (proof.pid, *(worker.pid for worker in snapshot.workers if worker.pid))
        row = at - self._row_at >= LOOK_SECONDS
        if row:
            self._row_at = at
        if row or fresh or asked != self._asked:
            self._asked = asked
            self._last = self._look(at, *asked)
        return replace(self._last, backlogs=backlogs)

    def _look(self, at: float, master: int, *workers: int) -> HostFacts:
        processes = self._processes.read(master, workers)
        # uWSGI's cpu-affinity pins its workers one by one, and its master not at all.
        allowed = {cpu for process in processes.values() for cpu in process.affinity or ()}
        return HostFacts(
            at=at,
            processes=processes,
            cpus=usable_cpus(master, affinity=allowed or None),
            overflows=listen_overflows(master),
            threads={pid: threads(pid) for pid in processes} if self._cpu_residency else {},
        )
