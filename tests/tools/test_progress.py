"""The progress and the repetition of test runs."""

import io
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import date

import pytest

from tests.support import real_uwsgi
from tools import commands, rerun
from tools.environments import ROOT


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Makes dots follow each other quickly."""
    monkeypatch.setattr(commands, "DOT", 0.01)


def test_a_step_shows_that_it_goes_on(monkeypatch):
    """Dots, then the time, or `not done` where it failed."""
    monkeypatch.setattr("sys.stdout", pipe := io.StringIO())
    with commands.show_step("building"):
        real_uwsgi.wait_until(lambda: ".." in pipe.getvalue(), what="two dots")
    assert re.fullmatch(r"  building\.{2,} *\d+\.\d s\n", pipe.getvalue())
    monkeypatch.setattr("sys.stdout", pipe := io.StringIO())
    with pytest.raises(KeyError), commands.show_step("building"):
        raise KeyError
    assert pipe.getvalue().endswith("not done\n")


def test_work_is_done_although_nobody_reads(monkeypatch):
    class Gone(io.StringIO):
        def flush(self):
            raise BrokenPipeError

    monkeypatch.setattr("sys.stdout", Gone())
    done = []
    with commands.show_step("ending"):
        commands.note("a note")
        done.append("ended")
    assert done == ["ended"]


TEST = "tests/tune/test_a.py::test_b"
FLAKY = """
from pathlib import Path

def test_that_passes_the_second_time():
    print("seen by a reader")
    second = Path("second")
    was_there = second.exists()
    second.touch()
    assert was_there

def test_that_passes(): pass
"""


TryTwice = Callable[..., int]


@pytest.fixture
def try_twice(tmp_path, monkeypatch):
    """Runs tests of this text in a checkout of their own, and then the second try. Returns its exit status."""
    monkeypatch.setattr(rerun, "ROOT", tmp_path)
    monkeypatch.setattr(rerun, "FLAKY", tmp_path / "flaky.txt")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (tmp_path / "flaky.txt").write_text("# DATE COMMIT TEST\n")

    def run(text: str, *options: str) -> int:
        (tmp_path / "pytest.ini").touch()
        (tmp_path / "test_it.py").write_text(text)
        with monkeypatch.context() as environment:
            environment.setenv("TEST_RESULTS", "results")
            environment.setenv("PYTEST_ADDOPTS", "-p tools.rerun")
            command = [sys.executable, "-m", "pytest", "-q", *options]
            assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode
        return rerun.main(str(tmp_path / "results"))

    return run


def test_one_that_passes_alone_is_flaky(try_twice, capsys):
    """It does not fail the run; its first output and the line for the list are printed; the last line counts all."""
    assert try_twice(FLAKY, "-n", "2") == 0
    said = capsys.readouterr().out
    assert "FLAKY test_it.py::test_that_passes_the_second_time" in said
    assert "seen by a reader" in said
    assert re.search(rf"^{date.today()} .+ test_it.py::test_that_passes_the_second_time$", said, re.MULTILINE)  # noqa: DTZ011
    assert re.fullmatch(r"2 passed, 0 skipped, 1 flaky in [\d.]+s", said.splitlines()[-1])


def test_a_file_that_cannot_be_read_fails_the_run(try_twice, tmp_path):
    """Also beside a flaky test, where each process of xdist goes on."""
    (tmp_path / "test_other.py").write_text("import nowhere\n")
    assert try_twice(FLAKY, "-n", "2") == 1


def test_one_that_fails_again_fails_the_run(try_twice, capsys):
    """The second failure is printed, and nothing is called flaky."""
    assert try_twice("def test_it(): assert 1 == 2\n") == 1
    said = capsys.readouterr().out
    assert "FLAKY" not in said
    assert "assert 1 == 2" in said
    assert said.splitlines()[-1].startswith("1 failed, 0 passed, 0 skipped")


@pytest.mark.parametrize(
    ("text", "options", "reason"),
    [
        ("import os\ndef test_it(): os._exit(1)\n", ("-n", "1"), "a process of the tests crashed"),
        ("import os\ndef test_it(): os._exit(1)\n", (), "did not run to their end"),
        ("import nowhere\n", (), "did not run to their end"),
    ],
    ids=["crash of a process", "crash of pytest", "no collection"],
)
def test_a_session_that_broke_off_has_no_second_try(try_twice, text, options, reason, capsys):
    """A crash or an interruption fails the run: which tests would have failed is unknown."""
    assert try_twice(text, *options) == 1
    assert reason in capsys.readouterr().out


def _results(*tests: str) -> dict[str, object]:
    return {"status": 1, "failed": dict.fromkeys(tests, "assert False")}


@pytest.mark.parametrize(
    "test",
    [
        "tests/hostile/test_hostile_servers.py::test_state[a]",
        "tests/web/security/test_login.py::test_a",
        "tests/test_never_hurts.py::test_a",
        "tests/kernel/test_proof.py::test_a",
        "tests/kernel/namespaces/test_pids.py::test_a",
        "tests/watch/test_cancellation.py::test_a",
        "tests/check/test_watching.py::test_cancelled_at_every_await",
        "tests/uwsgi_log/test_agreement.py::test_a_line_is_proven",
    ],
)
def test_these_have_one_try(test):
    """No failure of safety, proof or cancellation is chance."""
    assert rerun.refuse(_results(test), {}) == [f"No second try: a failure of {test} is never chance."]


def test_who_has_one_try():
    """What is listed as flaky, and more than three failures: four are a fault of the change or of the machine."""
    listed = rerun.read_flaky(f"# a comment\n\n2026-11-28 884f29e2 {TEST}[two words]\n")
    assert rerun.refuse(_results(TEST), listed) == []
    assert "known to be flaky" in rerun.refuse(_results(f"{TEST}[two words]"), listed)[0]
    tests = [f"{TEST}[{number}]" for number in range(4)]
    assert rerun.refuse(_results(*tests[:3]), {}) == []
    assert "4 tests failed" in rerun.refuse(_results(*tests), {})[0]
    for test, line in rerun.read_flaky(rerun.FLAKY.read_text()).items():
        assert re.match(r"\d{4}-\d\d-\d\d [0-9a-f]{7,40} ", line)
        assert (ROOT / test.partition("::")[0]).is_file()
