"""What benchmarks conclude from figures."""

import ast
import contextlib
import signal
import socket
import subprocess
import threading
from pathlib import Path
from unittest.mock import Mock

import pytest

from tools import debian_root, mutants
from tools.bench.accuracy.generator import Record, Truth, ask, mean_level
from tools.bench.accuracy.scrapes import Scrape, Span, window
from tools.debian_root import FailedError, UnavailableError
from tools.environments import ROOT
from tools.machine import __main__ as booted


def test_scrapes():
    """Growth is over the time between two readings."""
    span = Span(scrape(100.0, 10, 20, 3.5), scrape(111.0, 40, 20, 13.5))
    assert span.seconds == 10.0
    assert span.growth("uwsgi_worker_requests_total") == 30
    assert span.by_worker("uwsgi_worker_requests_total") == {1: 30, 2: 0}
    scrapes = [scrape(100.2, 0, 0, 3.5), scrape(110.01, 0, 0, 13.5)]
    assert window(Span(*scrapes), scrapes) == pytest.approx((100.01, 110.01))


TEXT = """\
# HELP uwsgi_worker_requests_total Requests.
# TYPE uwsgi_worker_requests_total counter
uwsgi_worker_requests_total{{server="bench",worker_id="1"}} {first}
uwsgi_worker_requests_total{{server="bench",worker_id="2"}} {second}
uwsgi_exporter_observed_seconds_total{{server="bench"}} {observed}
uwsgi_exporter_sample_gap_seconds_total{{server="bench"}} 0.5
"""


def scrape(received: float, first: int, second: int, observed: float) -> Scrape:
    return Scrape(received, TEXT.format(first=first, second=second, observed=observed))


S = 1_000_000_000


def record(connected: float, enter: float, leave: float, end: float, worker: int = 1) -> Record:
    times = [round(seconds * S) for seconds in (connected, connected, enter, leave, leave, end)]
    return Record(*[*times, worker])


def test_the_truth_about_requests():
    """Parts within the window count, and overlaps add up."""
    intervals = [(0, 4 * S), (3 * S, 5 * S), (9 * S, 30 * S), (20 * S, 21 * S)]
    assert mean_level(intervals, (2, 12)) == pytest.approx((2 + 2 + 3) / 10)
    truth = Truth((record(0, 2, 5, 6), record(1, 5, 6, 6.5, worker=2)))
    assert truth.in_application((0, 10)) == pytest.approx(0.4)
    assert truth.in_client((0, 10)) == pytest.approx(1.15)
    assert truth.wait((0, 10)) == pytest.approx(3)
    assert truth.client_time((0, 10)) == pytest.approx(5.75)
    assert truth.counts() == {1: 1, 2: 1}
    truth = Truth((record(0, 0, 30, 30),))
    assert truth.completed((0, 20)) == 0
    assert truth.in_application((0, 20)) == 1
    assert truth.completed((20, 40)) == pytest.approx(1.5)


def test_an_answer_of_somebody_else_is_no_completion():
    """A response that is not from the application raises an error, and counts as a failure."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.0 502 Bad Gateway\r\n\r\nok\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ValueError, match="not a response"):
            ask(listener.getsockname(), "/")
        thread.join()


@pytest.fixture(autouse=True)
def _signals_as_they_were():
    """Restores signal handlers, which main() replaces in the process of the tests."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_where_it_cannot_run_a_line_says_why(monkeypatch, tmp_path, capsys):
    """Without root, an emulator, or a root of Debian that need not be made first."""

    def fails(*words):
        assert booted.main(list(words)) == 75
        return capsys.readouterr().err

    monkeypatch.setattr(debian_root, "unavailable", lambda _: "making a Debian root and mounting in it needs root")
    assert fails("demo") == "machine: cannot run here: making a Debian root and mounting in it needs root\n"
    monkeypatch.setattr(debian_root, "unavailable", lambda _: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert "no root of trixie was made here yet: make machine TRIAL=demo" in fails("demo", "--cached")
    monkeypatch.setattr(booted.shutil, "which", lambda _: None)
    assert "no qemu-system-x86_64, qemu-img, mkfs.ext4: apt-get install" in fails("cgroup")


@pytest.mark.parametrize(
    ("error", "status"),
    [(UnavailableError("no archive"), 75), (FailedError("the demo ended"), 1), (KeyboardInterrupt(), 130)],
)
def test_its_ends(monkeypatch, capsys, error, status):
    def check(given):
        assert given.suite == "bookworm"
        raise error

    monkeypatch.setattr(debian_root, "unavailable", lambda _: None)
    monkeypatch.setattr(booted, "check", check)
    assert booted.main(["demo", "--suite", "bookworm"]) == status
    assert (str(error) or "stopped") in capsys.readouterr().err


@pytest.mark.parametrize(
    ("lines", "outcome"),
    [
        (["noise", "ok - one", "ok - two", "# the trial has ended"], contextlib.nullcontext()),
        (["ok - one", "not ok - two", "# the trial has ended"], pytest.raises(FailedError, match="not ok - two")),
        (["not ok - one", UnavailableError("no time is left")], pytest.raises(FailedError, match="not ok - one")),
        (["ok - one"], pytest.raises(FailedError, match="did not end")),
        (["# the trial has ended"], pytest.raises(FailedError, match="did not end")),
    ],
)
def test_a_trial_is_judged_by_what_its_machine_prints(capsys, lines, outcome):
    """A machine that stops before its trial has ended has failed, and so has a trial without an expectation. An
    expectation that failed counts also if the time is over later."""
    with outcome:
        assert booted.judge(iter(Mock(side_effect=lines), None)) == 2
    assert lines[0] in capsys.readouterr().out


def test_trials_are_shell_scripts_with_expectations():
    trials = [path for path in booted.TRIALS.glob("*.sh") if path.stem != "common"]
    assert len(trials) >= 4
    for path in (*trials, booted.TRIALS / "common.sh"):
        subprocess.run(["bash", "-n", path], check=True)


def test_a_trial_that_takes_too_long_is_not_judged(monkeypatch, capsys):
    """Making its root is a part of it. The status is that of "not run"."""
    monkeypatch.setattr(debian_root, "unavailable", lambda _: None)
    monkeypatch.setattr(booted, "enter", lambda *_: iter([signal.pause()]))
    assert booted.main(["demo", "--minutes", "0.001"]) == 75
    assert capsys.readouterr().err == "machine: cannot run here: the trial did not end within 0.001 minutes\n"
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


PACKAGE = ROOT / "exporter" / "uwsgi_headroom"

SOURCE = '''
"""A module."""
__slots__ = ("a",)
Words = Literal["a", "b"]

def mean(values: "list[int]" = NONE) -> int | None:
    """Returns a mean."""
    self.count += 1
    if not values or self.a <= -1 and b"x" is not self.b:
        _log.warning("no values", extra={"a": 1})
        raise ValueError("no values")
    return sum(values) / len(values)
'''


def _changes(tmp_path: Path, source: str) -> list[str]:
    (tmp_path / "module.py").write_text(source)
    return [str(mutant).split("  ")[1] for mutant in mutants.Module(tmp_path / "module.py", tmp_path).mutants]


def test_operators_comparisons_constants_and_statements(tmp_path):
    """Each place has one change. Declarations, annotations, documentation and messages have none."""
    assert sorted(_changes(tmp_path, SOURCE)) == sorted(
        [
            "deleted: self.count += 1",
            "1 -> 2",
            "or -> and",
            "not -> ",
            "and -> or",
            "<= -> <",
            "- -> ",
            "1 -> 2",
            "b\"x\" -> b'x~'",
            "is not -> is",
            'deleted: raise ValueError("no values")',
            "deleted: return sum(values) / len(values)",
            "/ -> *",
        ]
    )


@pytest.mark.slow
def test_every_mutant_is_python():
    """A mutant that cannot be compiled would be killed by any test, and show nothing."""
    for mutant in mutants.draw(PACKAGE, 1, 300):
        source = (PACKAGE / mutant.module).read_bytes()
        ast.parse(source[: mutant.start] + mutant.text.encode() + source[mutant.end :])


@pytest.mark.slow
def test_a_seed_draws_the_same_mutants():
    drawn = mutants.draw(PACKAGE, 31, 60)
    assert drawn == mutants.draw(PACKAGE, 31, 60)
    assert len(set(drawn)) == 60
    assert drawn != mutants.draw(PACKAGE, 32, 60)


def test_functions_note_which_test_calls_them(monkeypatch):
    """The function with a mutant does; of one outside of functions, all of the module. They return the same."""
    noted, names, tree = [], {}, ast.parse("A = 1\ndef f():\n    'One.'\n    return A + 1\ndef g(): return 0\n")
    monkeypatch.setattr(mutants, "note", lambda number, _test: noted.append(number))
    for line in (1, 4, 5):
        mutants.add_notes(line, mutants.Mutant("a.py", line, "constant", 0, 1, "1", "2"), tree)
    exec(ast.unparse(tree), names)
    assert (names["f"](), names["g"](), sorted(noted)) == (2, 0, [1, 1, 4, 5])
