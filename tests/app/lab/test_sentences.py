"""What the lab concludes from figures, and writes on its page."""

import json
from pathlib import Path

import pytest

from app.lab import __main__ as document
from app.lab import affinity, flask_steps, processes, published, uneven_workers, wsgi_servers
from app.lab.__main__ import EXPERIMENTS
from app.lab.clients import Answers
from app.lab.experiment import Length, load_label
from app.lab.figures import Finding, compare_change, error_rate, order, ratio
from app.lab.programs import mask_file
from app.lab.results import Outcome, Spread, spread
from tests.app.lab.made_up import machine, observed, outcome, results

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
