"""What the lab plans, and runs in a series."""

import dataclasses
import json
import sys
from pathlib import Path

import pytest

from app.lab import __main__ as lab
from app.lab.__main__ import EXPERIMENTS, main, run_undisturbed
from app.lab.clients import Answers, Load
from app.lab.experiment import Length, Progress, interleave, run_series
from app.lab.figures import error_rate, other_cpus
from app.lab.programs import Programs, kept_machine
from app.lab.results import Observed, Outcome, ResultsError, Setup, Spread, open_results, spread
from app.lab.run import Planned, run_once
from app.lab.wsgi_servers import SERVERS, left_out
from tests.app.lab.made_up import machine, outcome
from tools import environments
from tools.environments import Environment
from tools.prepare import PACKAGES

MINUTES = 25

experiments = pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.key)


def programs(directory: Path, **missing: str) -> Programs:
    return Programs(uwsgi=Path("/uwsgi"), lab=Environment(directory / "lab"), results=directory, missing=missing)


@experiments
@pytest.mark.parametrize("full", [False, True])
def test_plans_are_valid(experiment, full, tmp_path):
    plan = experiment.plan(programs(tmp_path), machine(), Length(full=full))
    assert plan
    assert len({(run.setup.name, run.label, run.number) for run in plan}) == len(plan)
    assert {run.number for run in plan} >= {0, 1}
    for run in plan:
        words = " ".join(run.setup.command)
        assert "{port}" in words
        assert ("{directory}/stats" in words) or not run.setup.is_uwsgi
        assert run.label.startswith(f"{experiment.key}: ")
        assert bool(run.load.clients) != bool(run.load.rate)
        assert run.load.seconds <= 15


def test_the_short_lab_is_short(tmp_path):
    plans = [experiment.plan(programs(tmp_path), machine(), Length()) for experiment in EXPERIMENTS]
    assert sum(run.seconds for plan in plans for run in plan) <= MINUTES * 60
    short, full = Length(), dataclasses.replace(Length(), full=True)
    assert (short.repetitions, short.seconds(8)) == (2, 8)
    assert (full.repetitions, full.seconds(8)) == (4, 15)


def test_a_missing_server_is_not_planned_but_named(tmp_path):
    """Each has a package of the environment, or comes with Python."""
    lacking = programs(tmp_path, bjoern="no ev.h")
    names = {run.setup.name for run in EXPERIMENTS[3].plan(lacking, machine(), Length())}
    assert "bjoern" not in names
    assert {"uWSGI", "gevent", "wsgiref"} <= names
    assert left_out(lacking.missing) == {"bjoern": "no ev.h"}
    names = {package.name for package in PACKAGES}
    assert {server.package for server in SERVERS} - {""} <= names


def test_repetitions_are_interleaved_and_timed(tmp_path):
    """Half of the runs took twice as long as planned: so will the rest."""
    plan = EXPERIMENTS[0].plan(programs(tmp_path), machine(), Length())
    now, file = 0.0, tmp_path / "E1.jsonl"
    progress = Progress({file: plan}, clock=lambda: now)
    assert progress.seconds_left() == pytest.approx(sum(run.seconds for run in plan))
    now = sum(run.seconds for run in plan)
    file.write_text("{}\n" * (len(plan) // 2))
    assert progress.seconds_left() == pytest.approx(sum(run.seconds for run in plan))
    plan = EXPERIMENTS[0].plan(programs(tmp_path), machine(), Length())
    assert [run.number for run in plan] == sorted(run.number for run in plan)
    plan = interleave([A, B], {"light": LOADS["light"]}, 2)
    assert [(each.setup.name, each.number) for each in plan] == [("A", 0), ("B", 0), ("A", 1), ("B", 1)]
    with pytest.raises(ValueError, match="same name"):
        interleave([A, A], LOADS, 1)


@pytest.mark.integration
def test_a_pong_server_answers():
    """A server of E3 runs with the Python of the tests, as one of the lab's environment does."""
    setup = Setup(
        name="wsgiref",
        command=(sys.executable, "-m", "app.lab.applications.pong", "wsgiref", "{port}"),
        is_uwsgi=False,
        cwd=Path(__file__).parents[3],
    )
    found = run_once(Planned(setup, Load(rate=50, warm_up=0.1, seconds=0.4), "E3: pong", 0))
    assert found.error is None
    assert found.answers.answered == 20
    assert error_rate(found) == 0


def test_a_broken_result_ends_with_its_reason(tmp_path, capsys):
    """No page is written from results that cannot be read."""
    (tmp_path / "short").mkdir()
    (tmp_path / "short" / "E1.jsonl").write_text("nonsense\n")
    assert main(["--report", "--results", str(tmp_path)]) == 1
    assert "E1.jsonl, line 1," in capsys.readouterr().err


@pytest.mark.parametrize(("used", "runs", "kept"), [((0.1, 0.0), 1, 0.1), ((0.9, 0.2), 2, 0.2), ((0.8, 0.9), 2, 0.8)])
def test_a_disturbed_run_is_repeated_once(used, runs, kept):
    """And the one that other programs disturbed less is kept."""
    made = [outcome("s", "l", cpus=(0.5 + others, 0.6), server_cpu=1.0, clients_cpu=0.1) for others in used]
    waiting = iter(made)
    found = run_undisturbed(Planned(Setup(name="s", command=()), Load(clients=1), "l", 0), lambda _: next(waiting))
    assert other_cpus(found) == pytest.approx(kept)
    assert len(list(waiting)) == 2 - runs


def test_ctrl_c_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    """Complete runs stay in the results, and the n of E2 stays what they had."""

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(environments, "uwsgi_for_tests", lambda: Path("/uwsgi"))
    monkeypatch.setattr(lab, "describe_machine", lambda _, n: machine(fib_n=n or 30))
    monkeypatch.setattr(lab, "measure", interrupted)
    assert main(["--results", str(tmp_path)]) == 130
    assert f"kept in {tmp_path}/short. The same command continues after them." in capsys.readouterr().out
    assert kept_machine(tmp_path / "short").fib_n == 30


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


def test_a_series_goes_on_in_its_file(tmp_path):
    """A torn last line is repeated; a plan may grow."""
    plan, file = interleave([A], LOADS, 1), tmp_path / "results"
    run_series(plan, file, print, Runs())
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])
    again = Runs()
    run_series(plan, file, print, again)
    assert again.labels == ["A heavy 0"]
    assert [json.loads(line)["outcome"]["load"] for line in file.read_text().splitlines()] == ["light", "heavy"]
    file, more = tmp_path / "results", Runs()
    run_series(interleave([A], LOADS, 1), file, print, Runs())
    run_series(interleave([A, B], LOADS, 1), file, print, more)
    assert more.labels == ["B light 0", "B heavy 0"]


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


def test_files_that_cannot_be_written_are_refused(tmp_path):
    with pytest.raises(ResultsError, match="cannot write the result to /dev/full: No space left on device"):
        run_series(interleave([A], LOADS, 1), Path("/dev/full"), print, Runs())

    def fail(_planned):
        raise OSError(28, "No space left on device")

    with pytest.raises(ResultsError, match=r"cannot run A under light, run 1: .* No space left"):
        run_series(interleave([A], LOADS, 1), tmp_path / "results", print, fail)
    file = tmp_path / "results"
    file.write_text("{}\n")
    with pytest.raises(ResultsError, match="line 1, is not the result of a run"):
        run_series(interleave([A], LOADS, 1), file, print, Runs())
    file.unlink()
    with open_results(file), pytest.raises(ResultsError, match="another series"):
        run_series(interleave([A], LOADS, 1), file, print, Runs())


def test_spread():
    assert spread([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0, 3)
    with pytest.raises(ValueError, match="no values"):
        spread([])
