"""What the lab plans, and runs in a series."""

import dataclasses
import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from app.lab import __main__ as document
from app.lab import __main__ as lab
from app.lab import affinity, flask_steps, processes, published, uneven_workers, wsgi_servers
from app.lab.__main__ import EXPERIMENTS, main, run_undisturbed
from app.lab.clients import Answers, Load
from app.lab.experiment import Length, Progress, Results, interleave, load_label, run_series
from app.lab.figures import Finding, Runs, compare_change, error_rate, order, other_cpus, ratio
from app.lab.programs import Machine, Programs, kept_machine, mask_file
from app.lab.results import Observed, Outcome, ResultsError, Setup, Spread, open_results, spread
from app.lab.run import Planned, run_once
from app.lab.wsgi_servers import SERVERS, left_out
from tools import environments
from tools.environments import Environment
from tools.prepare import PACKAGES


def outcome(
    setup: str, load: str, number: int = 0, *, rate: float = 100.0, mean: float = 0.1, **rest: object
) -> Outcome:
    """A run of 10 s."""
    answers = Answers(seconds=10.0, answered=round(rate * 10), mean=mean, p99=2 * mean)
    figures = {"server_cpu": 1.0, "clients_cpu": 0.1, "cpus": (0.6, 0.6), "memory": 50_000_000} | rest
    return Outcome(setup=setup, load=load, number=number, answers=answers, **figures)


def observed(shares: Mapping[int, float] | None = None, **rest: object) -> Observed:
    """The figures of a uWSGI with these shares."""
    shares = shares or {1: 0.5, 2: 0.5}
    figures = {
        "throughput": 40.0,
        "response_time": 0.15,
        "concurrency": 6.0,
        "hot_ratio": max(shares.values()) * len(shares),
        "cost": 0.0,
        "interpreter_load": 0.5,
        "waits": {"interpreter_lock": 0.1},
        "interpreter_waits": dict.fromkeys(shares, 0.1),
    } | rest
    return Observed(shares=shares, **figures)


def machine(**changed: object) -> Machine:
    described: dict[str, object] = {
        "cpus": 2,
        "system": "Linux 6.1",
        "python": "CPython 3.11.7",
        "versions": {"uWSGI": "2.0.31"},
        "missing": {},
        "fibonacci": {"interpreted": 2e-6, "compiled": 0.5e-6},
        "fib_n": 30,
        "fib_seconds": 0.1,
    }
    return Machine(**(described | changed))


def results(directory: Path, *outcomes: Outcome, **changed: object) -> Results:
    return Results(runs=Runs(outcomes), machine=machine(**changed), directory=directory)


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


class CountedRuns:
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
    first = CountedRuns(stop_after=3)
    with pytest.raises(KeyboardInterrupt):
        run_series(plan, file, said.append, first)
    second = CountedRuns()
    outcomes = run_series(plan, file, said.append, second)
    assert first.labels + second.labels == [f"{p.setup.name} {p.label} {p.number}" for p in plan]
    assert [outcome.answers and outcome.answers.answered for outcome in outcomes] == [1, 2, 3, 1, 2, None, 4, None]
    assert outcomes[0].observed.residency == {1: {0: 1.5}}
    assert run_series(plan, file, said.append, CountedRuns(stop_after=0)) == outcomes
    assert len(file.read_text().splitlines()) == 8
    assert said[0] == "1 of 8: A under light, run 1; 2 min 36 s left"
    assert said[1] == "  1 requests/s, mean 20 ms"
    assert "3 of 8 runs are in" in said[7]
    assert "  failed: The server B ended." in said


def test_a_series_goes_on_in_its_file(tmp_path):
    """A torn last line is repeated; a plan may grow."""
    plan, file = interleave([A], LOADS, 1), tmp_path / "results"
    run_series(plan, file, print, CountedRuns())
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])
    again = CountedRuns()
    run_series(plan, file, print, again)
    assert again.labels == ["A heavy 0"]
    assert [json.loads(line)["outcome"]["load"] for line in file.read_text().splitlines()] == ["light", "heavy"]
    file, more = tmp_path / "results", CountedRuns()
    run_series(interleave([A], LOADS, 1), file, print, CountedRuns())
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
    run_series(interleave([A], LOADS, 1), file, print, CountedRuns())
    before = file.read_bytes()
    with pytest.raises(ResultsError, match=f"another plan: it has run 1 of A under light, {why}"):
        run_series(interleave(setups, loads, 1), file, print, CountedRuns())
    assert file.read_bytes() == before


def test_files_that_cannot_be_written_are_refused(tmp_path):
    with pytest.raises(ResultsError, match="cannot write the result to /dev/full: No space left on device"):
        run_series(interleave([A], LOADS, 1), Path("/dev/full"), print, CountedRuns())

    def fail(_planned):
        raise OSError(28, "No space left on device")

    with pytest.raises(ResultsError, match=r"cannot run A under light, run 1: .* No space left"):
        run_series(interleave([A], LOADS, 1), tmp_path / "results", print, fail)
    file = tmp_path / "results"
    file.write_text("{}\n")
    with pytest.raises(ResultsError, match="line 1, is not the result of a run"):
        run_series(interleave([A], LOADS, 1), file, print, CountedRuns())
    file.unlink()
    with open_results(file), pytest.raises(ResultsError, match="another series"):
        run_series(interleave([A], LOADS, 1), file, print, CountedRuns())


def test_spread():
    assert spread([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0, 3)
    with pytest.raises(ValueError, match="no values"):
        spread([])


E4 = "E4: 40 a second"


def twice(setup: str, load: str, rate: float, **figures: object) -> list[Outcome]:
    """Two repetitions, 1 % apart."""
    return [outcome(setup, load, number, rate=rate * factor, **figures) for number, factor in enumerate((0.995, 1.005))]


def find(findings: list[Finding], start: str) -> Finding:
    """The one finding that begins so."""
    (found,) = [finding for finding in findings if finding.subject.startswith(start)]
    return found


def keep_masks(directory: Path, experiment: str, setup: str, rows: list[list[object]]) -> None:
    file = mask_file(directory, experiment, setup)
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize(("after", "verdict"), [(3.0, "agrees"), (1.0, "differs"), (0.5, "differs")])
def test_steps_are_compared_with_the_one_before(tmp_path, after, verdict):
    """Step 2 raised throughput 3.1 times, as published."""
    load = load_label("E1", flask_steps.AB)
    runs = twice(flask_steps.NAMES[1], load, 100.0) + twice(flask_steps.NAMES[2], load, 100.0 * after)
    section = flask_steps.report(results(tmp_path, *runs))
    finding = find(list(section.findings), "throughput of step 2")
    assert finding.verdict == verdict
    assert "published 3.08x" in finding.text


@pytest.mark.parametrize(("cpus", "is_said"), [((0.95, 0.93), True), ((0.9, 0.5), False)])
def test_cpus_that_are_busy_in_the_first_step_are_named(tmp_path, cpus, is_said):
    """Then processes find no idle CPU, whatever they did where the experiment was published."""
    runs = twice(flask_steps.NAMES[1], load_label("E1", flask_steps.AB), 100.0, cpus=cpus)
    text = "\n".join(flask_steps.report(results(tmp_path, *runs)).lines)
    assert ("Step 1 already keeps 1.88 of 2 CPUs busy" in text) is is_said


def test_what_was_left_out_is_named(tmp_path):
    """With the reason; and a run that failed is reported with its error."""
    load = load_label("E1", flask_steps.AB)
    runs = twice(flask_steps.NAMES[1], load, 100.0)
    section = flask_steps.report(results(tmp_path, *runs, missing={"compiled_fibonacci": "no compiler"}))
    assert "| 5 Cython | left out: no compiler |" in "\n".join(section.lines)
    load = wsgi_servers.rate_label(wsgi_servers.HTTP10, 1000)
    failed = Outcome(setup="gevent", load=load, number=0, answers=None, error="It ended.\nlog")
    section = wsgi_servers.report(results(tmp_path, *twice("uWSGI", load, 1000), failed, missing={"bjoern": "no ev.h"}))
    assert "* bjoern: no ev.h." in section.lines
    assert "* gevent: no result. It ended." in section.lines


def test_workers_that_ran_everywhere_share_no_cpu(tmp_path):
    """A mask of both CPUs and time on both: nothing is pinned. Bound workers are found too."""
    keep_masks(tmp_path, "E1", "s", [[7, 1, [0, 1]], [7, 2, [0, 1]]])
    free = observed(residency={1: {0: 2.0, 1: 1.0}, 2: {0: 1.0, 1: 1.0}})
    (finding,) = affinity.processes_share_a_cpu(results(tmp_path, outcome("s", "l", observed=free)), "E1", "s")
    assert finding.verdict == "differs"
    assert "allowed 2 of 2 CPUs" in finding.text
    assert "was 67 %" in finding.text
    keep_masks(tmp_path, "E1", "s", [[7, 1, [0]], [7, 2, [0]]])
    bound = observed(residency={1: {0: 2.0}, 2: {0: 1.0}})
    (finding,) = affinity.processes_share_a_cpu(results(tmp_path, outcome("s", "l", observed=bound)), "E1", "s")
    assert finding.verdict == "agrees"


def test_what_a_run_can_show(tmp_path):
    """Restarts are counted by run. 4 processes on 2 CPUs cannot show what they did on 8."""
    keep_masks(tmp_path, "E1", "s", [[7, 1, [0]], [7, 1, [0]], [7, 1, [0]], [8, 1, [0]]])
    assert affinity.starts_per_run(tmp_path, "E1", "s") == 2
    assert affinity.starts_per_run(tmp_path, "E1", "other") == 0
    load = load_label("E2", processes.FOUR)
    runs = twice("1x1", load, 10, server_cpu=1.0) + twice("4x1", load, 20, server_cpu=1.95)
    found = list(processes.report(results(tmp_path, *runs)).findings)
    assert find(found, "throughput of 4 processes").verdict == "open"
    assert find(found, "CPUs in use").verdict == "agrees"
    found = list(processes.report(results(tmp_path, *runs, cpus=8)).findings)
    assert find(found, "throughput of 4 processes").verdict == "agrees"
    assert find(found, "CPUs in use").verdict == "differs"


@pytest.mark.parametrize(("on_quiet", "verdict"), [(4.0, "agrees"), (1.0, "differs")])
def test_the_guess_about_the_busiest_worker(tmp_path, on_quiet, verdict):
    """It holds only if the worker with the most requests ran on the least used CPU alone."""
    seen = observed({1: 0.2, 2: 0.8}, residency={2: {1: on_quiet, 0: 4.0 - on_quiet}})
    run = outcome("4x8", E4, cpus=(0.9, 0.4), observed=seen)
    (finding,) = affinity.guess_about_busiest(results(tmp_path, run), "4x8")
    assert finding.verdict == verdict
    assert f"spent {25 * on_quiet:.0f} %" in finding.text


@pytest.mark.parametrize(("rate", "words", "verdict"), [(8, "lowered", "agrees"), (10, "did not change", "open")])
def test_threads_on_a_cpu_bound_application(tmp_path, rate, words, verdict):
    load = load_label("E2", processes.FOUR)
    runs = twice("2x1", load, 10) + twice("2x4", load, rate)
    finding = find(list(processes.report(results(tmp_path, *runs)).findings), "the claim that threads")
    assert (finding.verdict, words in finding.text) == (verdict, True)


def test_published_orders_of_servers(tmp_path):
    """Orders that hold, are reversed and are undecided are counted; the reversed ones are named."""
    load = wsgi_servers.rate_label(wsgi_servers.HTTP10, 1000)
    runs = [
        *twice("uWSGI", load, 5000),
        *twice("gevent", load, 1000),
        *twice("Tornado", load, 2000),
        *twice("wsgiref", load, 1001),
    ]
    found = wsgi_servers.compare_orders(results(tmp_path, *runs), {wsgi_servers.HTTP10: load}, "E3: none")
    finding = find(found, "replies per CPU second, HTTP/1.0")
    assert finding.verdict == "differs"
    assert "4 published orders of two servers: 2 hold" in finding.text
    assert "1 reversed, 1 undecided" in finding.text
    assert "Tornado (2,000) is ahead of gevent (1,000)" in finding.text


@pytest.mark.parametrize(
    ("load", "used", "mean", "verdict"),
    [(0.95, 1.3, 0.4, "agrees"), (0.95, 1.95, 0.4, "open"), (0.5, 1.3, 0.4, "open"), (0.95, 1.3, 0.1, "differs")],
)
def test_the_costly_case(tmp_path, load, used, mean, verdict):
    """It is explained only by a saturated interpreter with CPUs to spare."""
    uneven = observed({1: 0.78, 2: 0.22}, interpreter_load=load, cost=0.5, response_time=0.3)
    runs = [
        *twice("u", E4, 40, mean=mean, observed=uneven, server_cpu=used),
        *twice("e", E4, 40, mean=0.15, observed=observed()),
    ]
    found = uneven_workers.compare_costly_case(results(tmp_path, *runs), E4, "u", "e")
    assert find(found, "a hot interpreter").verdict == verdict
    cost = find(found, "the exporter's cost")
    assert cost.verdict == "agrees"
    assert "evening out saved 50 %" in cost.text


def test_interpreter_effects_need_cpus_to_spare(tmp_path):
    """2x8 serves more, and fewer threads wait for an interpreter. On 2 CPUs, 4x8 is bound by the CPUs first."""
    waiting = observed({1: 1.0}, interpreter_load=0.99, waits={"interpreter_lock": 1.7})
    runs = twice("1x16", E4, 33, mean=0.18, observed=waiting) + twice("2x8", E4, 45, mean=0.13, observed=observed())
    (finding,) = uneven_workers.compare_interpreters(results(tmp_path, *runs), E4)
    assert finding.verdict == "agrees"
    assert "1.7 with 1x16, 0.1 with 2x8" in finding.text
    runs = twice("1x16", E4, 45, mean=0.13, observed=waiting) + twice("2x8", E4, 45, mean=0.13, observed=observed())
    (finding,) = uneven_workers.compare_interpreters(results(tmp_path, *runs), E4)
    assert finding.verdict == "differs"
    even = observed(dict.fromkeys(range(1, 9), 0.125))
    runs = twice("4x8", E4, 40, mean=0.2, observed=observed({1: 0.6, 2: 0.4})) + twice("8x1", E4, 40, observed=even)
    found = uneven_workers.compare_shapes(results(tmp_path, *runs), E4, 130, 40)
    assert find(found, "shares").verdict == "agrees"
    assert "says nothing about interpreters" in find(found, "response time").text
    found = uneven_workers.compare_shapes(results(tmp_path, *runs, cpus=4), E4, 130, 40)
    assert "interpreters" not in find(found, "response time").text


def test_thunder_lock(tmp_path):
    runs = twice("4x8", E4, 40, mean=0.2, observed=observed({1: 0.7, 2: 0.3}))
    runs += twice("4x8, thunder-lock", E4, 40, mean=0.3, observed=observed())
    (finding,) = uneven_workers.compare_thunder_lock(results(tmp_path, *runs), E4, ["4x8"], ", thunder-lock")
    assert finding.verdict == "agrees"
    assert "4x8 1.40 to 1.00" in finding.text
    assert "4x8 200 to 300 ms" in finding.text
    almost = observed({1: 0.505, 2: 0.495})
    runs += [*twice("4x1", E4, 40, observed=observed()), *twice("4x1, thunder-lock", E4, 40, observed=almost)]
    (finding,) = uneven_workers.compare_thunder_lock(results(tmp_path, *runs), E4, ["4x8", "4x1"], ", thunder-lock")
    assert finding.verdict == "agrees"
    assert "4x1 1.00 to 1.01" in finding.text
    (finding,) = uneven_workers.compare_thunder_lock(results(tmp_path, *runs), E4, ["4x1"], ", thunder-lock")
    assert finding.verdict == "open"
    assert "All were even without it." in finding.text


@pytest.mark.parametrize(
    ("first", "second", "sign"),
    [
        ([1, 2], [3, 4], 1),
        ([3, 4], [1, 2], -1),
        ([1, 3], [2, 4], 0),
        ([1, 2], [2, 3], 0),
        ([1], [2], 0),
        ([1, 1], [2], 0),
    ],
)
def test_ranges_that_touch_have_no_order(first, second, sign):
    """An order counts only if no repetition contradicts it; a single run decides nothing."""
    assert order(spread(first), spread(second)) == sign


def test_ratios_and_rates():
    found = ratio(spread([8, 12]), spread([4, 5]))
    assert (found.low, found.high) == (8 / 5, 12 / 4)
    assert found.median == pytest.approx(10 / 4.5)
    assert spread([2.0]) == Spread(2.0, 2.0, 2.0, 1)
    answers = Answers(seconds=1.0, answered=90, errors={"timeout": 7, "reset": 3})
    assert error_rate(Outcome(setup="s", load="l", number=0, answers=answers)) == pytest.approx(0.1)
    assert error_rate(outcome("s", "l", rate=0.0)) is None
    assert error_rate(Outcome(setup="s", load="l", number=0, answers=None, error="no")) is None


@pytest.mark.parametrize(
    ("published", "before", "after", "verdict", "words"),
    [
        (3.0, [100, 110], [200, 220], "agrees", "It rose: 2.00x (1.82 to 2.20); published 3.00x."),
        (3.0, [100, 110], [50, 60], "differs", "It fell, the other way"),
        (3.0, [100, 110], [105, 120], "differs", "No difference beyond the ranges of the runs"),
        (1.1, [100, 110], [105, 120], "open", "The published effect would be inside."),
        (0.5, [100, 110], [40, 60], "agrees", "It fell:"),
        (3.0, [0, 0], [1, 1], "open", "A run had no answers."),
    ],
)
def test_a_change_is_compared_with_the_published_one(published, before, after, verdict, words):
    """The same direction beyond the ranges agrees; inside them it is open if the published effect would fit too."""
    finding = compare_change("It", published, spread(before), spread(after))
    assert finding.verdict == verdict
    assert words in finding.text


def written(directory: Path, outcomes: dict[str, list[Outcome]]) -> str:
    return document.render(EXPERIMENTS, outcomes, machine(), directory, Length())


def test_the_page_says_what_was_run_and_what_was_not(tmp_path):
    """An experiment without results names the command that runs it."""
    load = load_label("E2", processes.FOUR)
    runs = [
        outcome(name, load, n, rate=rate, cpus=(0.6, 0.6 + n))
        for name, rate in (("1x1", 10), ("2x1", 20))
        for n in (0, 1)
    ]
    page = written(tmp_path, {"E2": runs})
    assert "\n## E2" in page
    assert "\n## E1" not in page
    assert "4 runs of the short lab, 0 of them without a result, on 2 CPUs" in page
    assert "in the median run, and 1.10 in the worst" in page
    assert "* Agrees: throughput of 2 processes beside 1." in page
    assert 'not in this report: `make lab ARGS="--only E1"`' in page


def test_every_published_experiment_is_listed(tmp_path):
    """Also those that are gone, with the reason."""
    page = written(tmp_path, {})
    for experiment in published.EXPERIMENTS:
        assert f"| {experiment.key} | {experiment.name} | no | " in page
    assert "| the server FAPWS3 | no | its last release, of 2012, is for Python 2" in page
