"""The memory of one more worker: from real uWSGI, as a user who may read its page tables and as one who may not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clock import MovableClock
from tests.support.other_namespaces import as_nobody, as_root
from tests.support.real_uwsgi import Uwsgi, uwsgi, wait_until
from uwsgi_headroom import stats
from uwsgi_headroom.kernel.facts import Memory
from uwsgi_headroom.kernel.host import Host
from uwsgi_headroom.kernel.memory import USS_SECONDS
from uwsgi_headroom.source import Answer

pytestmark = pytest.mark.integration

OWN_BYTES = 50_000_000
"""The bytes that large_workers_app.py allocates in each worker."""

OTHER_BYTES = 16_000_000
"""The bytes that the interpreter and uWSGI may add: pages written after the fork, and pages of only one worker."""


@pytest.fixture(scope="module")
def large_workers() -> Iterator[Uwsgi]:
    app = Path(__file__).with_name("large_workers_app.py")
    with uwsgi("--processes", "2", app=app) as server:
        wait_until(lambda: b'"accepting":0' not in server.document(), what="the workers to accept")
        yield server


def memory_over_minutes(server: Uwsgi, minutes: int) -> Memory:
    """The memory facts about a server after this many minutes of a movable clock."""
    hands = MovableClock()
    host = Host(clock=hands.clock.monotonic)
    for _ in range(minutes):
        facts = host.read_facts(stats.decode(server.document()), Answer(b"", peer_pid=server.pid))
        hands.move(USS_SECONDS)
    assert facts.memory
    return facts.memory


def test_unique_memory_of_real_workers(large_workers: Uwsgi) -> None:
    """The memory that a worker allocates after the fork is its unique memory."""
    memory = memory_over_minutes(large_workers, 2)
    assert memory.worker
    assert memory.worker.source == "uss"
    assert len(memory.worker.unique) == 2
    assert all(OWN_BYTES <= unique <= OWN_BYTES + OTHER_BYTES for unique in memory.worker.unique.values())
    assert memory.worker.largest == max(memory.worker.unique.values())
    assert memory.available
    assert memory.available.byte_count > 0


@as_root
def test_anonymous_memory_of_another_users_workers(large_workers: Uwsgi) -> None:
    """For a user who may not read the workers' page tables, the figure is anonymous memory, shared pages included."""
    memory = as_nobody(lambda: memory_over_minutes(large_workers, 2), before=lambda: open_to_all(large_workers))
    assert memory.worker
    assert (memory.worker.source, memory.worker.unique) == ("anonymous", {})
    assert OWN_BYTES <= memory.worker.largest <= OWN_BYTES + 2 * OTHER_BYTES
    assert memory.available


def open_to_all(server: Uwsgi) -> None:
    server.directory.chmod(0o755)
    Path(server.stats).chmod(0o666)
