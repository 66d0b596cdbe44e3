"""The command `report`: what it checks before it asks for anything, its exit statuses, and what it leaves behind."""

import io
import os
import pty
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

import uwsgi_headroom.report
from tests.report.sources.records import write_history_file
from tests.report.sources.test_prometheus import DAY, answer, fail_before
from tests.support.exporter import clean_environment
from tests.support.stand_in_web_server import Reply, Request, stand_in
from tests.support.synthetic import stories
from tests.support.synthetic.plan import History
from tools.environments import ROOT
from uwsgi_headroom import cli
from uwsgi_headroom.extras import REQUIREMENTS
from uwsgi_headroom.report import command
from uwsgi_headroom.report.columns import ReviewData
from uwsgi_headroom.report.sources.progress import ProgressLine

UNTIL = str(int(14 * DAY))
"""The end of the stand-in's range, 1970; epoch seconds of less than nine digits are no time."""


class Written:
    """The reviews that were written. on_write: is called before."""

    def __init__(self) -> None:
        self.reviews: list[tuple[ReviewData, Path, str]] = []
        self.on_write: Callable[[], None] = lambda: None

    def write_review(self, review: ReviewData, out: Path, name: str) -> None:
        self.on_write()
        out.write_text("a review")
        self.reviews.append((review, out, name))


@pytest.fixture
def written(monkeypatch, tmp_path):
    """Reviews are kept as their data, not computed and drawn. The working directory is empty."""
    kept = Written()
    review, render = types.ModuleType("review"), types.ModuleType("render")
    review.build_review = lambda data: data
    render.write_review, render.Format = kept.write_review, str
    monkeypatch.setitem(sys.modules, "uwsgi_headroom.report.review", review)
    monkeypatch.setitem(sys.modules, "uwsgi_headroom.report.render", render)
    monkeypatch.chdir(tmp_path)
    _forget_write()
    yield kept
    _forget_write()


def _forget_write() -> None:
    """Have the next import of `write` find the modules that are there then."""
    sys.modules.pop("uwsgi_headroom.report.write", None)
    if hasattr(uwsgi_headroom.report, "write"):
        delattr(uwsgi_headroom.report, "write")


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """A history file with an hour of a server."""
    path = tmp_path_factory.mktemp("history") / "history.db"
    write_history_file(History(services=(stories.STORY,), days=1 / 24), path, 0)
    return str(path)


def test_a_report_of_a_history_file(written, history, capsys):
    """It is written where and as the ending says, and the exit status is 0."""
    assert cli.main(["report", "--history", history, "--range", "1h", "--out", "a.PDF", "--time-zone", "UTC"]) == 0
    ((data, out, name),) = written.reviews
    assert (str(out), name, len(data.servers), data.partial) == ("a.PDF", "pdf", 1, False)
    assert capsys.readouterr().out == "report written: a.PDF\n"


def test_missing_days_are_said(written, history, capsys):
    """On standard error, as in the report."""
    assert cli.main(["report", "--history", history]) == 0
    assert "uwsgi-headroom: shop: no data for 30 d of 30 d" in capsys.readouterr().err
    assert str(written.reviews[0][1]) == "review.html"


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
        (("--history", "b", "--out", "review.docx"), "must end in .html, .pdf"),
        (("--history", "b", "--format", "docx"), "invalid choice"),
        (("--history", "b", "--time-zone", "Mars"), "--time-zone: Mars is not known"),
        (("--prometheus", "ftp://a"), "--prometheus: expected a URL"),
        (("--prometheus", "http://a", "--until", "soon"), "--until: soon is not a time"),
        (("--prometheus", "http://a", "--prometheus-user", "ann"), "belong together"),
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


@pytest.mark.parametrize("module", command.NEEDED)
def test_without_the_extra_a_sentence_says_what_to_install(module, monkeypatch, capsys, tmp_path):
    """With the pip of the running Python, and before any query."""
    monkeypatch.setitem(sys.modules, module, None)
    assert cli.main(["report", "--history", "a.db", "--out", str(tmp_path / "review.html")]) == 1
    install = f"{sys.executable} -m pip install '{REQUIREMENTS[module]}'"
    assert capsys.readouterr().err == f"uwsgi-headroom: report needs {module}: {install}\n"


def test_other_commands_need_no_library_of_the_extra():
    """Neither does the help of `report`."""
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
    assert not {"numpy", "scipy", "matplotlib", "jinja2"}.intersection(loaded)


def _rest(screen: io.FileIO) -> bytes:
    """What else was written to a terminal that is closed by now."""
    try:
        return screen.read(4096) or b""
    except OSError:
        return b""


def test_progress_is_drawn_on_a_terminal_only():
    """And removed in the end."""
    pipe = io.StringIO()
    with ProgressLine(pipe, terminal=False) as line:
        line.show(1, 4, "waits")
    assert pipe.getvalue() == ""
    master, slave = pty.openpty()
    with os.fdopen(slave, "w", encoding="utf-8") as terminal, ProgressLine(terminal, terminal=True) as line:
        line.show(1, 4, "wa\x1bits")
    with os.fdopen(master, "rb", buffering=0) as screen:
        drawn = (_rest(screen) + _rest(screen)).decode()
    assert "██████" in drawn
    assert " 25 %  wa\\x1bits" in drawn
    assert drawn.endswith("\r\x1b[K")
