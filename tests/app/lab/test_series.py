"""A series of runs keeps each outcome, and continues where it was interrupted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.lab.clients import Answers, Load
from app.lab.results import Observed, Outcome, ResultsError, Setup, Spread, open_results, spread
from app.lab.run import Planned
from app.lab.series import interleave, run_series

A, B = Setup(name="A", command=("a", "{port}")), Setup(name="B", command=("b", "{port}"))
LOADS = {"light": Load(clients=1), "heavy": Load(clients=8)}


class Runs:
    """Stands in for the runner: each run takes the number of runs so far as its requests per second."""

    def __init__(self, stop_after: int = 1000) -> None:
        self.labels: list[str] = []
        self._stop_after = stop_after

    def __call__(self, planned: Planned) -> Outcome:
        if len(self.labels) == self._stop_after:
            raise KeyboardInterrupt
        self.labels.append(f"{planned.setup.name} {planned.label} {planned.number}")
        is_broken = planned.setup.name == "B" and planned.number == 1
        return Outcome(
            setup=planned.setup.name,
            load=planned.label,
            number=planned.number,
            answers=None if is_broken else Answers(seconds=1.0, answered=len(self.labels), mean=0.02),
            observed=Observed(
                throughput=1.0,
                response_time=None,
                concurrency=0.0,
                shares={1: 0.25, 2: 0.75},
                hot_ratio=None,
                cost=None,
                interpreter_load=None,
                residency={1: {0: 1.5}},
            ),
            error="The server B ended." if is_broken else None,
        )


def test_setups_alternate():
    """A B A B, so that a slow change of the machine meets all setups alike."""
    plan = interleave([A, B], {"light": LOADS["light"]}, 2)
    assert [(each.setup.name, each.number) for each in plan] == [("A", 0), ("B", 0), ("A", 1), ("B", 1)]
    with pytest.raises(ValueError, match="same name"):
        interleave([A, A], LOADS, 1)


def test_interrupted_series_continues(tmp_path):
    """No run is repeated, and all outcomes are returned as they were, in the order of the plan."""
    plan, file, said = interleave([A, B], LOADS, 2), tmp_path / "new" / "results", []
    first = Runs(stop_after=3)
    with pytest.raises(KeyboardInterrupt):
        run_series(plan, file, said.append, first)
    second = Runs()
    outcomes = run_series(plan, file, said.append, second)
    assert first.labels + second.labels == [f"{p.setup.name} {p.label} {p.number}" for p in plan]
    assert [outcome.answers and outcome.answers.answered for outcome in outcomes] == [1, 2, 3, 1, 2, None, 4, None]
    assert outcomes[0].observed.residency == {1: {0: 1.5}}
    assert run_series(plan, file, said.append, Runs(stop_after=0)) == outcomes
    assert len(file.read_text().splitlines()) == 8
    assert said[0] == "1 of 8: A under light, run 1; 2 min 36 s left"
    assert said[1] == "  1 requests/s, mean 20 ms"
    assert "3 of 8 runs are in" in said[7]
    assert "  failed: The server B ended." in said


def test_torn_last_line_is_repeated(tmp_path):
    """The machine stopped while the line was written: it is cut off, and the next line begins where it began."""
    plan, file = interleave([A], LOADS, 1), tmp_path / "results"
    run_series(plan, file, print, Runs())
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])
    again = Runs()
    run_series(plan, file, print, again)
    assert again.labels == ["A heavy 0"]
    assert [json.loads(line)["outcome"]["load"] for line in file.read_text().splitlines()] == ["light", "heavy"]


def test_a_damaged_or_busy_file_is_refused(tmp_path):
    """A complete line that is no result is not skipped in silence, and two series never write to one file."""
    file = tmp_path / "results"
    file.write_text("{}\n")
    with pytest.raises(ResultsError, match="line 1, is not the result of a run"):
        run_series(interleave([A], LOADS, 1), file, print, Runs())
    file.unlink()
    with open_results(file), pytest.raises(ResultsError, match="another series"):
        run_series(interleave([A], LOADS, 1), file, print, Runs())


@pytest.mark.parametrize(
    ("setups", "loads", "why"),
    [
        ([B], LOADS, "which is not planned"),
        ([Setup(name="A", command=("other",))], LOADS, "with another command or load"),
        ([A], {"light": Load(clients=2), "heavy": LOADS["heavy"]}, "with another command or load"),
    ],
)
def test_results_of_another_plan_are_refused(tmp_path, setups, loads, why):
    """Results are never mixed; the file stays as it is."""
    file = tmp_path / "results"
    run_series(interleave([A], LOADS, 1), file, print, Runs())
    before = file.read_bytes()
    with pytest.raises(ResultsError, match=f"another plan: it has run 1 of A under light, {why}"):
        run_series(interleave(setups, loads, 1), file, print, Runs())
    assert file.read_bytes() == before


def test_plan_may_grow(tmp_path):
    """More setups and repetitions continue the file."""
    file, more = tmp_path / "results", Runs()
    run_series(interleave([A], LOADS, 1), file, print, Runs())
    run_series(interleave([A, B], LOADS, 1), file, print, more)
    assert more.labels == ["B light 0", "B heavy 0"]


def test_a_full_disk_is_a_clear_error(tmp_path):
    """The message names the file or the run, and the reason."""
    with pytest.raises(ResultsError, match="cannot write the result to /dev/full: No space left on device"):
        run_series(interleave([A], LOADS, 1), Path("/dev/full"), print, Runs())

    def fail(_planned: Planned) -> Outcome:
        raise OSError(28, "No space left on device")

    with pytest.raises(ResultsError, match=r"cannot run A under light, run 1: .* No space left"):
        run_series(interleave([A], LOADS, 1), tmp_path / "results", print, fail)


def test_spread():
    assert spread([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0, 3)
    with pytest.raises(ValueError, match="no values"):
        spread([])
