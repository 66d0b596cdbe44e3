"""Everything the kernel says of one server, gathered for one reading."""

from __future__ import annotations

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


class Host:
    """Asks the kernel about one server's processes and sockets; keeps what is costly to find again. With cpu_residency,
    about every thread of its workers too."""

    def __init__(self, cpu_residency: bool = False) -> None:
        self._cpu_residency = cpu_residency
        self._processes = Processes()
        self._backlogs = Backlogs()

    def facts(self, snapshot: AnySnapshot, answer: Answer) -> HostFacts:
        """What the kernel says now of the server that gave this answer; or why nothing, where its pid is not proven."""
        if not isinstance(snapshot, Snapshot):
            return HostFacts()
        proof = prove(snapshot.pid, peer_pid=answer.peer_pid, listener=answer.peer)
        backlogs = self._backlogs.read(proof.pid, [socket.name for socket in snapshot.sockets])
        if proof.pid is None:
            return HostFacts(off=proof.reason, backlogs=backlogs)
        pids = [worker.pid for worker in snapshot.workers if worker.pid]
        processes = self._processes.read(proof.pid, pids)
        # uWSGI's cpu-affinity pins its workers one by one, and its master not at all.
        allowed = {cpu for process in processes.values() for cpu in process.affinity or ()}
        return HostFacts(
            processes=processes,
            backlogs=backlogs,
            cpus=usable_cpus(proof.pid, affinity=allowed or None),
            overflows=listen_overflows(proof.pid),
            threads={pid: threads(pid) for pid in processes} if self._cpu_residency else {},
        )
