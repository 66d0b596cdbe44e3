"""Where the threads of a real uWSGI are seen is where its application says that it spends its time."""

from __future__ import annotations

import pytest

from tools.bench.code.measure import measure
from uwsgi_headroom.kernel.waits.system_calls import find_calls

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        not find_calls() or not find_calls().tried,  # type: ignore[union-attr]
        reason="the system calls of this architecture were never tried",
    ),
]


def test_shares_of_functions_are_true() -> None:
    """The share of each of five functions, which sleep, queue for a lock, compute, ask a backend and call a library, is
    the application's own; each is mostly in the state that belongs to it."""
    compared = measure(2, 4, clients=6, kept=1500, pause=0.03)
    use = compared.use
    assert compared.largest_difference < 0.08, compared
    assert use.unread < 0.02 * use.threads, compared
    assert use.changed < 0.05 * use.threads, compared
    for function, waits in (("nap", {"sleep"}), ("wait_in_line", {"sleep", "lock"}), ("ask", {"backend"})):
        # How long threads wait for a CPU depends on the machine.
        states = {state: part for (name, state), part in compared.states.items() if name == function}
        waiting = {
            state: part for state, part in states.items() if state not in ("cpu", "cpu_wait", "interpreter_lock")
        }
        assert sum(waiting[state] for state in waits) > 0.9 * sum(waiting.values()), (function, compared)  # type: ignore[index]
    assert {line.line.callee for line in use.lines if line.line.function == "parse"} & {"json loads"}
