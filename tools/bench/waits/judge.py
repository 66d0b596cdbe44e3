"""Compares a case's figures with the truth, and formats them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tools.bench.table import render_table
from tools.bench.waits.run import Result

RELATIVE, ABSOLUTE = 0.10, 0.2
"""A state is right within a tenth or a fifth of a thread."""

TOTAL = 0.03
"""The sum is right within 3 % of the observed concurrency."""

COLUMNS = ("cpu", "cpu_wait", "interpreter_lock", "backend", "redis", "client", "disk", "lock", "sleep")


def is_right(true: float, measured: float) -> bool:
    return abs(measured - true) <= max(ABSOLUTE, RELATIVE * true)


def lines(name: str, result: Result) -> Iterator[str]:
    """The figures of a case, as it ends."""
    yield f"{name}: {result.throughput:.0f} requests/s, exporter {result.cost:.2%} of a CPU"
    for state in COLUMNS:
        true, measured = result.true.get(state, 0.0), result.measured.get(state, 0.0)
        if max(true, measured) >= 0.05:
            missed = "" if is_right(true, measured) else "MISSED"
            yield f"  {state:17} true {true:6.2f}  measured {measured:6.2f} {missed}"
    others = {state: value for state, value in result.measured.items() if state not in (*COLUMNS, "total") and value}
    yield f"  others { ({state: round(value, 2) for state, value in others.items()}) }"
    total, busy = result.measured["total"], result.busy
    true = sum(value for state, value in result.true.items() if state != "redis")
    yield f"  sum {total:.2f}, in service {busy:.2f}; true {true:.2f}; differs by {result.disagreement:.2f}"


def table(results: Sequence[tuple[str, Result]]) -> str:
    """A row for each case: true / measured threads in each state."""
    head = " | ".join(["case", *(column.replace("_", " ") for column in COLUMNS), "unknown", "sum / in service"])
    return render_table(head, [_row(name, result) for name, result in results])


def _row(name: str, result: Result) -> str:
    cells = [_cell(result.true.get(state, 0.0), result.measured.get(state, 0.0)) for state in COLUMNS]
    total, busy = result.measured["total"], result.busy
    good = abs(total - busy) <= max(TOTAL * busy, 0.05)
    return " | ".join(
        [
            name,
            *cells,
            f"{result.measured.get('unknown', 0.0):.2f}",
            f"{total:.2f} / {busy:.2f}{'' if good else ' ✗'}",
        ]
    )


def _cell(true: float, measured: float) -> str:
    if max(true, measured) < 0.05:
        return ""
    return f"{true:.2f} / {measured:.2f}{'' if is_right(true, measured) else ' ✗'}"


def summary(results: Sequence[tuple[str, Result]]) -> str:
    """How many figures are right."""
    cells = [
        is_right(result.true.get(state, 0.0), result.measured.get(state, 0.0))
        for _, result in results
        for state in COLUMNS
        if max(result.true.get(state, 0.0), result.measured.get(state, 0.0)) >= 0.05
    ]
    sums = [abs(each.measured["total"] - each.busy) <= max(TOTAL * each.busy, 0.05) for _, each in results]
    return (
        f"{sum(cells)} of {len(cells)} figures are within a tenth or 0.2 threads of the truth; {sum(sums)} of "
        f"{len(sums)} sums within 3 % of the threads in service."
    )
