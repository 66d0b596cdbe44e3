"""A run in which the kernel dropped packets, because its table of tracked connections was full, does not count."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from uwsgi_headroom.kernel.facts import read_table
from uwsgi_headroom.record import TrackedConnections
from uwsgi_headroom.tune.experiment import run
from uwsgi_headroom.tune.experiment.results import Outcome
from uwsgi_headroom.tune.experiment.run import MOST_SECONDS, overfull_since
from uwsgi_headroom.tune.experiment.server import Setup
from uwsgi_headroom.tune.loads.load_tools import Load

STAT = """entries  clashres found new drop early_drop
00035bd1  00000000 00000000 00000000 00009288 0000013a
00035bd1  00000000 00000000 00000000 000074c3 000000f6
"""


def table(entries: int, dropped: int = 0) -> TrackedConnections:
    return TrackedConnections(entries, 1000, dropped)


def write_proc(proc: Path, most: str, stat: str) -> Path:
    (proc / "sys/net/netfilter").mkdir(parents=True)
    (proc / "sys/net/netfilter/nf_conntrack_max").write_text(most)
    (proc / "net/stat").mkdir(parents=True)
    (proc / "net/stat/nf_conntrack").write_text(stat)
    return proc


def test_the_table_is_read(tmp_path: Path) -> None:
    """Counts are hexadecimal, dropped packets are counted by CPU; the text is from a real kernel, some columns left
    out."""
    assert read_table(write_proc(tmp_path, "262144\n", STAT)) == TrackedConnections(0x35BD1, 262144, 0x9288 + 0x74C3)


@pytest.mark.parametrize(
    ("most", "stat"), [("0\n", STAT), ("9\n", ""), ("9\n", "entries drop\n"), ("9\n", "drop\nx\n")]
)
def test_a_table_that_is_not_there_is_unknown(tmp_path: Path, most: str, stat: str) -> None:
    assert read_table(tmp_path / "nothing") is None
    assert read_table(write_proc(tmp_path, most, stat)) is None


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (table(900), table(1000, 5), True),
        (table(900, 5), table(1000, 5), False),  # full, and nothing dropped
        (table(100), table(200, 5), False),  # dropped for another reason
        (None, table(1000, 5), False),
        (table(900), None, False),
    ],
)
def test_dropped_packets_are_blamed_on_a_full_table(
    monkeypatch: pytest.MonkeyPatch,
    before: TrackedConnections | None,
    after: TrackedConnections | None,
    expected: bool,
) -> None:
    monkeypatch.setattr(run, "read_table", lambda: after)
    assert overfull_since(before) == (after if expected else None)


@pytest.mark.parametrize(("entries", "waited"), [([500], 0), ([900, 700, 500], 2), ([900] * 1000, MOST_SECONDS)])
def test_a_run_waits_until_half_of_the_table_is_free(
    monkeypatch: pytest.MonkeyPatch, entries: list[int], waited: float
) -> None:
    now, left = 0.0, iter(entries)

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(run, "read_table", lambda: table(next(left)))
    monkeypatch.setattr(run, "time", SimpleNamespace(monotonic=lambda: now, sleep=sleep))
    run.wait_for_room()
    assert now == waited


@pytest.mark.parametrize(("drops", "error"), [([0, 9, 9, 9], None), ([0, 9, 9, 12], "was full"), ([0, 0], None)])
def test_a_run_is_repeated_once(monkeypatch: pytest.MonkeyPatch, drops: list[int], error: str | None) -> None:
    """drops: packets dropped so far, before and after each attempt."""
    attempts: list[run.Planned] = []
    said: list[str] = []
    readings = iter(drops)

    def attempt(planned: run.Planned, _: Path | None) -> Outcome:
        attempts.append(planned)
        return Outcome(setup=planned.setup.name, load=planned.label, number=planned.number, answers=None)

    monkeypatch.setattr(run, "_attempt", attempt)
    monkeypatch.setattr(run, "read_table", lambda: table(1000, next(readings)))
    monkeypatch.setattr(run, "wait_for_room", lambda: said.append("waited"))
    outcome = run.run_once(
        run.Planned(Setup(name="x", command=("server",)), Load(clients=1), "short", 0), say=said.append
    )
    assert len(attempts) == len(drops) // 2
    assert said[1:] == ["waited"] * (len(attempts) - 1)
    assert (error in (outcome.error or "")) if error else outcome.error is None
