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
    states, seen = compared.states, compared.seen
    assert states["nap", "sleep"] > 0.8 * seen["nap"], compared
    assert states["ask", "backend"] > 0.8 * seen["ask"], compared
    assert states["wait_in_line", "lock"] + states["wait_in_line", "sleep"] > 0.8 * seen["wait_in_line"], compared
    parsed = {line.line.callee for line in use.lines if line.line.function == "parse"}
    assert "decoder JSONDecoder.raw_decode" in parsed or "__init__ loads" in parsed or parsed & {"decoder raw_decode"}
