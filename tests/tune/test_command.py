"""The command `tune`: what it asks, writes and reports, with simulated runs; and one short real run."""

from __future__ import annotations

import errno
import io
import os
import re
import stat
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.other_namespaces import NOBODY, as_root
from tests.tune.simulated import Server
from tests.tune.test_search import ask_truth
from tools.environments import ROOT
from tools.support.real_uwsgi import uwsgi_binary
from uwsgi_headroom import cli
from uwsgi_headroom.analysis.what_if import parse_setting
from uwsgi_headroom.errors import ConfigError, HeadroomError
from uwsgi_headroom.tune import command, finish, recommendation
from uwsgi_headroom.tune.application.variant import Variant
from uwsgi_headroom.tune.experiment.results import Outcome, ResultsError, open_results
from uwsgi_headroom.tune.experiment.run import Planned
from uwsgi_headroom.tune.experiment.server import make_environment
from uwsgi_headroom.tune.request import TuneRequest

INI = """\
[uwsgi]
module = shop.wsgi
env = PASSWORD=hunter2
processes = 4
threads = 8
cron = -1 -1 -1 -1 -1 /usr/bin/clean
http-socket = :8000
"""


class Runs:
    """Stands in for `run_once`: a simulated server. before: called before each run."""

    def __init__(self, server: Server) -> None:
        self.server, self.planned = server, list[Planned]()
        self.before: Callable[[int], None] = lambda number: None

    def __call__(self, planned: Planned) -> Outcome:
        self.before(len(self.planned))
        self.planned.append(planned)
        setting, *options = planned.setup.name.split()
        variant = Variant(parse_setting(setting), thunder_lock="thunder-lock" in options)
        outcome = self.server.run(variant, planned.number)
        return Outcome(
            **{
                name: getattr(outcome, name)
                for name in ("answers", "cpus", "server_cpu", "memory", "observed", "error")
            },
            setup=planned.setup.name,
            load=planned.label,
            number=planned.number,
        )


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with an ini file and a uWSGI that is never started."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.ini").write_text(INI)
    (tmp_path / "uwsgi").write_text("#!/bin/false\n")
    (tmp_path / "uwsgi").chmod(0o755)
    return tmp_path


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    """A server that needs few threads, whose processes share most of their memory, and a model that knows it. Charts
    are not drawn."""
    server = Server(cpu=0.03, waiting=0.1, base=100e6, each=3e6)
    monkeypatch.setattr(command, "predict_scores", lambda *given, **_: ask_truth(server, *given))
    monkeypatch.setattr(recommendation, "predict_most", lambda *_: (66.6, "cpu"))
    monkeypatch.setattr(finish, "draw_bars", lambda path, **_: path.write_text("<svg/>"))
    return Runs(server)


def request(**options: object) -> TuneRequest:
    given: dict[str, object] = {"ini": "shop.ini", "uwsgi": "./uwsgi", "output": "out", "clients": 16, "yes": True}
    return TuneRequest(**{**given, **options})  # type: ignore[arg-type]


def test_a_recommendation(place: Path, runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    """It is printed as a diff with its evidence, and written; the given file stays as it is."""
    assert command.run(request(), runs) == 0
    said = capsys.readouterr()
    assert "Use 6x2 instead of 4x8." in said.out
    assert "\n-processes = 4\n-threads = 8\n+processes = 6\n+threads = 2\n" in said.out
    assert "The application uses its own databases" in said.err
    assert "Left out of the ini file: sockets and routers (http-socket); crons (cron)." in said.err
    assert "Run 1 of at most 12: 4x8" in said.err
    assert (place / "shop.ini").read_text() == INI
    assert (place / "out" / "recommended.ini").read_text() == INI.replace("es = 4\nthreads = 8", "es = 6\nthreads = 2")
    assert len((place / "out" / "runs.jsonl").read_text().splitlines()) == len(runs.planned)
    report = (place / "out" / "report.md").read_text()
    assert report.startswith("# Tuning of shop.ini\n\n**Use 6x2 instead of 4x8.**\n")
    assert "![Requests per second" in report
    assert "Predicted headroom: 1.0x at" in " ".join(report.split())


def test_secrets_stay_with_their_owner(place: Path, runs: Runs) -> None:
    """Files are private, and the report has only the lines that change."""
    command.run(request(), runs)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (place / "out").iterdir()}
    assert {modes[name] for name in ("measured.ini", "recommended.ini", "recommended.diff", "report.md")} == {0o600}
    assert "hunter2" not in (place / "out" / "report.md").read_text()
    assert "hunter2" not in (place / "out" / "runs.jsonl").read_text()


def test_only_loopback_is_served_and_loaded(place: Path, runs: Runs) -> None:
    """Each server has one address, that of the runner."""
    command.run(request(), runs)
    for planned in runs.planned:
        sockets = [word for word in planned.setup.command if "socket" in word]
        assert sockets == ["--http-socket=127.0.0.1:{port}"]
        assert "--stats={directory}/stats" in planned.setup.command
    assert "8000" not in (place / "out" / "measured.ini").read_text()


def test_variables_that_uwsgi_takes_as_options(
    place: Path, runs: Runs, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that would load another file, or are left out of an ini file, are left out, and named."""
    for name in ("UWSGI_INI", "UWSGI_CRON2", "UWSGI_SMART_ATTACH_DAEMON", "UWSGI_HARAKIRI", "UWSGI_ROOT"):
        monkeypatch.setenv(name, "7")
    command.run(request(), runs)
    said = " ".join(capsys.readouterr().err.split())
    assert "takes them as options: UWSGI_CRON2, UWSGI_INI, UWSGI_SMART_ATTACH_DAEMON." in said
    passed = make_environment(runs.planned[0].setup)
    assert sorted(name for name in passed if name.startswith("UWSGI_")) == ["UWSGI_HARAKIRI", "UWSGI_ROOT"]


def test_an_application_without_an_ini_file(place: Path, runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    """A whole file is written."""
    assert command.run(request(ini=None, app="shop.wsgi:application", pythonpath=(".",)), runs) == 0
    text = (place / "out" / "recommended.ini").read_text()
    assert text.startswith(f"[uwsgi]\nmodule = shop.wsgi:application\nchdir = {place}\npythonpath = {place}\n")
    assert "\nprocesses = 6\nthreads = 2\nhttp-socket = 127.0.0.1:8000\n" in text
    assert "Use 6x2." in capsys.readouterr().out


def test_a_percent_sign_in_a_directory(place: Path, runs: Runs) -> None:
    """uWSGI takes two for one."""
    (place / "100%d").mkdir()
    command.run(request(ini=None, app="shop:app", chdir="100%d"), runs)
    assert f"chdir = {place}/100%%d\n" in (place / "out" / "measured.ini").read_text()


def test_a_section_of_the_ini_file(place: Path, runs: Runs) -> None:
    """Only that section is measured, and only its lines change."""
    (place / "shop.ini").write_text(INI + "[staging]\nmodule = shop.staging\nprocesses = 4\nthreads = 8\n")
    assert command.run(request(ini="shop.ini:staging"), runs) == 0
    assert (place / "out" / "measured.ini").read_text() == "[uwsgi]\nmodule = shop.staging\n"
    after = (place / "out" / "recommended.ini").read_text()
    assert after == INI + "[staging]\nmodule = shop.staging\nprocesses = 6\nthreads = 2\n"


def test_included_files_are_found_where_uwsgi_starts(place: Path, runs: Runs) -> None:
    """That is --chdir, not the working directory."""
    (place / "srv").mkdir()
    (place / "srv" / "base.ini").write_text("[uwsgi]\nprocesses = 5\n")
    (place / "shop.ini").write_text("[uwsgi]\ninclude = base.ini\nmodule = shop\n")
    command.run(request(chdir="srv"), runs)
    assert runs.planned[0].setup.name == "5x1"


@pytest.mark.integration
def test_a_colon_in_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not begin the name of a section: the module is read, and is missing."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HeadroomError) as caught:
        command.run(request(ini=None, app="missing:app", uwsgi=uwsgi_binary(), output="12:30", seconds=1.0))
    assert any("No module named 'missing'" in line for line in caught.value.details)


def test_cheaper_servers_are_measured_with_all_processes(place: Path, runs: Runs) -> None:
    """A few of them would say little of the setting: neither of its throughput nor of its memory."""
    (place / "shop.ini").write_text(INI + "cheaper = 1\ncheaper-initial = 2\n")
    command.run(request(), runs)
    for planned in runs.planned:
        words = planned.setup.command
        processes = planned.setup.name.partition("x")[0]
        assert (
            ("--cheaper=1" in words) == (f"--cheaper-initial={processes}" in words) == ("cheaper" in planned.setup.name)
        )
    assert "cheaper" not in (place / "out" / "measured.ini").read_text()


def test_nothing_to_change(place: Path, runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    """There is no file to apply then."""
    (place / "shop.ini").write_text(INI.replace("processes = 4\nthreads = 8", "processes = 3\nthreads = 4"))
    assert command.run(request(), runs) == 0
    assert "Keep 3x4: of 5 settings, none was better beyond the noise." in capsys.readouterr().out
    assert not (place / "out" / "recommended.ini").exists()


def test_several_threads_need_an_application_that_is_safe(
    place: Path, runs: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    """This is said if the present setting has one thread, and only then."""
    warning = "must be safe to run in several threads"
    assert command.run(request(), runs) == 0
    assert warning not in " ".join(capsys.readouterr().out.split())
    (place / "shop.ini").write_text(INI.replace("threads = 8\n", ""))
    assert command.run(request(output="again"), runs) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "4x1 has one thread in each process, and 6x2 has several: the application" in said
    assert warning in said


@pytest.mark.parametrize(
    ("setting", "each", "chosen"),
    [((4, 8), 1e6, "Use 2x8"), ((1, 8), 1e6, "Use 2x8"), ((1, 16), 100e6, "Keep 1x16")],
)
def test_a_single_process_is_not_recommended_without_its_cost(
    place: Path,
    runs: Runs,
    setting: tuple[int, int],
    each: float,
    chosen: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of equals, one with two processes or more is taken. If those take clearly more memory than the present one, that
    is kept, with what it costs and how far behind the best with more is."""
    runs.server.cpu, runs.server.each = 0.0001, each
    ini = INI.replace("processes = 4", f"processes = {setting[0]}").replace("threads = 8", f"threads = {setting[1]}")
    (place / "shop.ini").write_text(ini)
    assert command.run(request(), runs) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert chosen in said
    is_lone = "1x" in chosen
    assert re.search(r"More than one process is preferred, .* and (1x\d+|1x\d+ and 1x\d+) (is|are) no faster", said)
    assert (
        bool(
            re.search(
                r"is a single process: .* the best setting with more processes, \d+x\d+, was [\d.]+ % worse", said
            )
        )
        == is_lone
    )


@pytest.mark.parametrize(("status", "part"), [({}, 0.0), ({404: 0.05}, 0.0), ({404: 0.5, 302: 0.25}, 0.75)])
def test_redirects_and_errors_are_no_pages(
    place: Path, runs: Runs, status: dict[int, float], part: float, capsys: pytest.CaptureFixture[str]
) -> None:
    """Many of them are worth a sentence: they are answered faster."""

    def run(planned: Planned) -> Outcome:
        outcome = runs(planned)
        assert outcome.answers
        counts = {number: round(share * outcome.answers.answered) for number, share in status.items()}
        return replace(outcome, answers=replace(outcome.answers, statuses=counts))

    assert command.run(request(), run) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert ("of the answers were redirects or errors" in said) == (part > 0)
    if part:
        assert f"{part:.0%}".replace("%", " %") + " of the answers were redirects or errors (status 404: " in said


def test_a_log_is_replayed(place: Path, runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    """Its paths are in no file, and what is left out is counted."""
    line = '192.0.2.7 - - [23/Nov/2026:04:00:00 +0000] "{} HTTP/1.1" 200 5\n'
    (place / "access.log").write_text(line.format("GET /a?token=7") + line.format("POST /b"))
    assert command.run(request(access_log="access.log"), runs) == 0
    assert runs.planned[0].load.paths == ("/a?token=7",)
    assert "Not replayed: 1 POST." in capsys.readouterr().err
    assert not any("token" in path.read_text() for path in (place / "out").iterdir())


def test_an_interrupt_leaves_what_was_measured(place: Path, runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    """The same command goes on from there, and comes to the same result."""

    def interrupt(number: int) -> None:
        if number == 3:
            raise KeyboardInterrupt

    runs.before = interrupt
    assert command.run(request(), runs) == 1
    said = capsys.readouterr().err
    assert "Interrupted." in said
    assert "There is no recommendation yet." in said
    again = Runs(runs.server)
    assert command.run(request(), again) == 0
    said_again = capsys.readouterr()
    assert said_again.err.count("measured before") == 3
    assert "Use 6x2 instead of 4x8." in said_again.out


def test_an_interrupt_before_the_first_result(place: Path, runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    """Then there is nothing to sum up."""

    def interrupt(_number: int) -> None:
        raise KeyboardInterrupt

    runs.before = interrupt
    assert command.run(request(), runs) == 1
    assert "No run was complete." in capsys.readouterr().err


def test_a_full_disk(place: Path, runs: Runs) -> None:
    """What was measured is summed up with the message."""

    def fill(number: int) -> None:
        if number == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    runs.before = fill
    with pytest.raises(HeadroomError, match="cannot be written: No space left on device") as caught:
        command.run(request(), runs)
    assert any("4x8" in line for line in caught.value.details)


def test_an_application_that_does_not_import(place: Path, runs: Runs) -> None:
    """uWSGI's own message is shown."""
    error = "The server 4x8 ended (status 22). Its log ends with:\n  | ModuleNotFoundError: No module named 'shop'"
    with pytest.raises(HeadroomError, match=r"4x8 did not run: The server 4x8 ended \(status 22\)") as caught:
        command.run(
            request(), lambda planned: Outcome(setup="4x8", load=planned.label, number=0, answers=None, error=error)
        )
    assert "  | ModuleNotFoundError: No module named 'shop'" in caught.value.details


def test_without_matplotlib(
    place: Path, runs: Runs, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the chart is missing, and a sentence says so."""
    monkeypatch.setattr(finish.extras, "find_missing", list)
    assert command.run(request(), runs) == 0
    assert "There is no chart. It needs matplotlib: " in capsys.readouterr().out
    assert "svg" not in (place / "out" / "report.md").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ini": None}, "give --ini FILE or --app MODULE:CALLABLE"),
        ({"app": "a:b"}, "give --ini FILE or --app MODULE:CALLABLE"),
        ({"ini": "no.ini"}, "no.ini cannot be read: No such file or directory"),
        ({"ini": None, "app": "shop"}, "--app: expected module:callable"),
        ({"virtualenv": "env"}, "--pythonpath and --virtualenv are for --app"),
        ({"ini": None, "app": "a:b", "virtualenv": "env"}, "--virtualenv: env has no bin/python"),
        ({"ini": None, "app": "a:b", "pythonpath": ("env",)}, "--pythonpath: env is not a directory"),
        ({"chdir": "nowhere"}, "--chdir: nowhere is not a directory"),
        ({"uwsgi": "./no-uwsgi"}, "--uwsgi: ./no-uwsgi is not a program"),
        ({"urls": ("http://shop.example/",)}, "--url: expected a path such as /items"),
        ({"urls": ("/",), "access_log": "a"}, "give --url or --access-log"),
        ({"rate": 5.0}, "give --clients or --rate"),
        ({"access_log": "no.log"}, "no.log cannot be read"),
        ({"output": "shop.ini"}, "--output: shop.ini is not a directory"),
        ({"output": "."}, "--output: . holds other files"),
        ({"yes": False}, "give --yes to start without a question"),
    ],
)
def test_options_that_cannot_be(
    place: Path, runs: Runs, options: dict[str, object], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is run, and the message says what is wrong."""
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    with pytest.raises(ConfigError, match=message):
        command.run(request(**options), runs)
    assert not runs.planned


def test_a_directory_that_was_deleted(place: Path, runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is run, and the message says what is wrong."""
    ini, gone = place / "shop.ini", place / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(ConfigError, match="the current directory cannot be read: No such file or directory"):
        command.run(request(ini=str(ini)), runs)
    assert not runs.planned


@pytest.mark.parametrize(("answer", "status"), [("y\n", 0), ("\n", 1), ("", 1)])
def test_a_question_on_a_terminal(
    place: Path, runs: Runs, answer: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only yes starts."""
    terminal = io.StringIO(answer)
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdin", terminal)
    assert command.run(request(yes=False), runs) == status
    assert bool(runs.planned) == (status == 0)
    assert (place / "out").exists() == (status == 0)


def test_an_earlier_result_is_not_overwritten(place: Path, runs: Runs) -> None:
    """Another directory is needed."""
    command.run(request(), runs)
    with pytest.raises(ConfigError, match="out has the result of an earlier tune"):
        command.run(request(), runs)


@as_root
def test_a_directory_of_another_user(place: Path, runs: Runs) -> None:
    """Its owner could have the files written elsewhere."""
    (place / "theirs").mkdir()
    os.chown(place / "theirs", NOBODY, NOBODY)
    with pytest.raises(ConfigError, match="theirs belongs to another user"):
        command.run(request(output="theirs"), runs)


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    """A link in place of a file of the result leads nowhere."""
    (tmp_path / "victim").write_text("precious")
    for name in (finish.MEASURED, finish.RUNS):
        (tmp_path / name).symlink_to("victim")
    with pytest.raises(HeadroomError, match="cannot be written"):
        finish.OutputDirectory(tmp_path).write(finish.MEASURED, "new")
    with pytest.raises(ResultsError), open_results(tmp_path / finish.RUNS):
        pass
    assert (tmp_path / "victim").read_text() == "precious"


def test_a_directory_that_cannot_be_made(place: Path, runs: Runs) -> None:
    """The message is the kernel's."""
    with pytest.raises(HeadroomError, match="/proc/out cannot be made"):
        command.run(request(output="/proc/out"), runs)


def test_no_uwsgi(place: Path, runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says how to give one."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", str(place / "python"))
    (place / "uwsgi").unlink()
    with pytest.raises(HeadroomError, match=r"no uwsgi was found .*: give --uwsgi FILE"):
        command.run(request(uwsgi=None), runs)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--most-runs", "3"], "expected a whole number from 4 to 200, not 3"),
        (["--clients", "0"], "expected a whole number from 1 to 2,000, not 0"),
        (["--rate", "nan"], "expected a number from 0.1 to 100,000, not nan"),
        (["--max-memory", "much"], "expected a size, such as 800M or 1.5G, not much"),
        (["--max-p99", "0"], "expected a time, such as 250ms or 2s, not 0"),
        (["--seconds", "0.1"], "expected 1 to 600 seconds, not 0.1"),
        (["--allow-methods", "GET POST"], "expected methods, such as GET,HEAD, not GET POST"),
    ],
)
def test_wrong_flags(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The usage is that of tune, and the exit status 2."""
    assert cli.main(["tune", "--app", "a:b", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.integration
def test_an_application_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A real uWSGI says why, and the exit status is 1."""
    out = tmp_path / "out"
    assert cli.main(
        ["tune", "--app", "missing:app", "--uwsgi", uwsgi_binary(), "--output", str(out), "--yes", "--seconds", "1"]
    ) == 1  # fmt: skip
    said = capsys.readouterr().err
    assert "4x1 did not run: The server 4x1 ended" in said
    assert "No module named" in said


@pytest.mark.integration
def test_the_demo_application(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Four short runs of a real uWSGI lead to a recommendation."""
    asked = TuneRequest(
        app="app.api:app",
        chdir=str(ROOT),
        urls=("/mixed?cpu_ms=2&io_ms=20",),
        clients=8,
        seconds=0.5,
        most_runs=4,
        uwsgi=uwsgi_binary(),
        output=str(tmp_path / "out"),
        yes=True,
    )
    assert command.run(asked) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if re.match(r"\d+x\d+ +(?:\* +)?\d", line)]
    assert rows[0][0] == "4x1"
    assert len(rows) >= 3
    assert all(float(row[1 + row.count("*") + 1]) > 0 for row in rows)
    assert (tmp_path / "out" / "recommended.ini").read_text().startswith("[uwsgi]\nmodule = app.api:app\n")
