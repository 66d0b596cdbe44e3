"""The command `report`: what it checks before it asks for anything, its exit statuses, and what it leaves behind."""

import io
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.report.sources.records import write_history_file
from tests.report.sources.test_prometheus import DAY, answer, fail_before
from tests.support.exporter import clean_environment
from tests.support.stand_in_web_server import Reply, Request, stand_in
from tests.support.synthetic import stories
from tests.support.synthetic.plan import History
from tools.environments import ROOT
from uwsgi_headroom import cli
from uwsgi_headroom.report import command
from uwsgi_headroom.report.quarters import ReviewData

UNTIL = str(int(14 * DAY))
"""The end of the stand-in's range, 1970; epoch seconds of less than nine digits are no time."""


class Written:
    """The reviews that were written, as their data. on_write: is called before."""

    def __init__(self) -> None:
        self.reviews: list[tuple[ReviewData, str]] = []
        self.on_write: Callable[[], None] = lambda: None

    def render(self, data: ReviewData, name: str) -> bytes:
        self.on_write()
        self.reviews.append((data, name))
        return b"a review"


@pytest.fixture
def written(monkeypatch, tmp_path):
    """Reviews are kept as their data, not computed and drawn. The working directory is empty."""
    kept = Written()
    monkeypatch.setattr(command, "build_review", lambda data: data)
    monkeypatch.setattr(command, "render", kept.render)
    monkeypatch.chdir(tmp_path)
    return kept


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """A history file with an hour of a server."""
    path = tmp_path_factory.mktemp("history") / "history.db"
    write_history_file(History(services=(stories.STORY,), days=1 / 24), path, 0)
    return str(path)


def test_a_report_of_a_history_file(written, history, capsys):
    """It is written where and as the ending says, and the exit status is 0."""
    assert cli.main(["report", "--history", history, "--range", "1h", "--out", "a.JSON", "--time-zone", "UTC"]) == 0
    ((data, name),) = written.reviews
    assert (name, len(data.servers), data.partial) == ("json", 1, False)
    assert Path("a.JSON").read_text() == "a review"
    assert capsys.readouterr().out == "report written: a.JSON\n"


def test_missing_days_are_said(written, history, capsys):
    """On standard error, as in the report."""
    assert cli.main(["report", "--history", history]) == 0
    assert "uwsgi-headroom: shop: no data for 30 d of 30 d" in capsys.readouterr().err
    assert Path("review.html").exists()
    assert written.reviews[0][1] == "html"


def run_on(answer_with: Callable[[Request], Reply], monkeypatch: pytest.MonkeyPatch) -> int:
    """The exit status of a report of the fourteen days that a stand-in knows."""
    monkeypatch.setattr("time.time", lambda: 14 * DAY + 60)
    with stand_in(lambda request: Reply(answer_with(request).body, answer_with(request).status, headers=NO_DATE)) as at:
        return cli.main(["report", "--prometheus", at.url, "--range", "14d", "--time-zone", "UTC"])


NO_DATE = {"Content-Type": "application/json", "Date": ""}


def test_a_partial_report_has_a_status_of_its_own(written, monkeypatch, capsys):
    """It is written all the same."""
    assert run_on(fail_before(7 * DAY, Reply(b"", 401)), monkeypatch) == 3
    said = capsys.readouterr()
    assert said.out == "partial report written: review.html\n"
    assert "Only the last 7 days are here" in said.err
    assert len(written.reviews) == 1


def test_a_history_file_that_is_a_link_to_itself(written, tmp_path, capsys):
    """The exit status is 1, and a sentence says why."""
    path = tmp_path / "history.sqlite"
    path.symlink_to(path)
    assert cli.main(["report", "--history", str(path)]) == 1
    assert capsys.readouterr().err.endswith("history.sqlite: Too many levels of symbolic links\n")
    assert not written.reviews


def test_without_data_nothing_is_written(written, monkeypatch, capsys):
    """The exit status is 1, and a sentence says why."""
    assert run_on(lambda _request: Reply(b"", 401), monkeypatch) == 1
    assert "needs a login" in capsys.readouterr().err
    assert list(Path().iterdir()) == []
    assert not written.reviews


def test_an_interrupted_report_leaves_nothing(written, history, capsys):
    """Ctrl-C is no success, unlike for the exporter."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    written.on_write = interrupt
    assert cli.main(["report", "--history", history]) == 1
    assert capsys.readouterr().err.endswith("uwsgi-headroom: interrupted: no report was written\n")
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "give --prometheus URL or --history FILE"),
        (("--prometheus", "http://a", "--history", "b"), "give --prometheus URL or --history FILE"),
        (("--history", "b", "--range", "30"), "expected 30m to 2y"),
        (("--history", "b", "--out", "review.docx"), "must end in .html, .md, .json"),
        (("--history", "b", "--format", "docx"), "invalid choice"),
        (("--history", "b", "--time-zone", "Mars"), "--time-zone: Mars is not known"),
        (("--prometheus", "ftp://a"), "--prometheus: expected a URL"),
        (("--prometheus", "http://a", "--until", "soon"), "--until: soon is not a time"),
        (("--prometheus", "http://a", "--http.config.file", "/nowhere"), "--http.config.file: /nowhere: No such file"),
        (("--prometheus", "http://a", "--prometheus-header", "t0psecret"), "NAME: VALUE"),
    ],
)
@pytest.mark.usefixtures("written")
def test_a_wrong_call(capsys, arguments, reason):
    """The exit status is 2, before anything is asked for; a secret is not repeated."""
    assert cli.main(["report", *arguments]) == 2
    error = capsys.readouterr().err
    assert reason in error
    assert "t0psecret" not in error


@pytest.mark.usefixtures("written")
def test_a_file_that_cannot_be_written(capsys, tmp_path):
    """It is an error before any query, which may take minutes."""
    Path("directory.html").mkdir()
    for out, reason in (
        ("directory.html", "is a directory"),
        ("nowhere/review.html", "No such file or directory"),
        ("/proc/review.html", ""),
    ):
        with stand_in(answer) as prometheus:
            assert cli.main(["report", "--prometheus", prometheus.url, "--out", out]) == 1
        assert prometheus.requests == []
        assert reason in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["directory.html"]


def test_a_report_needs_no_library_of_an_extra():
    """Nor does its help load what reads or judges."""
    program = "import sys; from uwsgi_headroom import cli; cli.main(['report', '--help'])"
    done = subprocess.run(
        [sys.executable, "-c", f"try:\n    {program}\nexcept SystemExit:\n    print(*sys.modules)"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=clean_environment(),
        check=True,
    )
    loaded = done.stdout.split()
    assert "uwsgi_headroom.report.request" in loaded
    assert "uwsgi_headroom.analysis" not in loaded
    needed = [sys.executable, "-c", "import sys, uwsgi_headroom.report.command; print(*sys.modules)"]
    loaded = subprocess.run(needed, capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "matplotlib", "jinja2", "rich"}.intersection(loaded)


def _rest(screen: io.FileIO) -> bytes:
    """What else was written to a terminal that is closed by now."""
    try:
        return screen.read(4096) or b""
    except OSError:
        return b""


def test_progress_is_drawn_on_a_terminal_only():
    """And removed in the end."""
    pipe = io.StringIO()
    with command.progress_line(pipe) as show:
        show(1, 4, "waits")
    assert pipe.getvalue() == ""
    master, slave = pty.openpty()
    with os.fdopen(slave, "w", encoding="utf-8") as terminal, command.progress_line(terminal) as show:
        show(1, 4, "wa\x1bits")
    with os.fdopen(master, "rb", buffering=0) as screen:
        drawn = (_rest(screen) + _rest(screen)).decode()
    assert " 25 %  wa\\x1bits" in drawn
    assert drawn.endswith("\r\x1b[K")
