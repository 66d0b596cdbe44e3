"""The output of ab and wrk becomes `Answers`; a load that a tool does not know is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from uwsgi_headroom.tune.loads.load_tools import Answers, Load, find_tool, lua_script, parse_ab, parse_wrk
from uwsgi_headroom.tune.processes.guarded import RunError

RECORDED = Path(__file__).with_name("recorded")


def _ab(name: str) -> Answers:
    table = RECORDED / f"{name}.csv"
    return parse_ab((RECORDED / f"{name}.txt").read_text(), table.read_text() if table.exists() else "")


def _wrk(name: str) -> Answers:
    return parse_wrk((RECORDED / f"{name}.txt").read_text())


def _in_microseconds(answers: Answers) -> tuple[object, ...]:
    times = (answers.mean, answers.p50, answers.p95, answers.p99, answers.longest)
    whole = (None if value is None else round(value * 1e6) for value in times)
    return answers.seconds, answers.answered, answers.errors, *whole


def test_ab_answers():
    """Times are in seconds, percentiles as exact as those of the file."""
    assert _in_microseconds(_ab("ab")) == (1.0, 9290, {}, 431, 298, 698, 2499, 17000)


def test_ab_failures():
    """Statuses of 500 and refused connections are errors, and so are connections closed without a response."""
    assert _ab("ab_500") == Answers(seconds=1.0, answered=0, errors={"status not 2xx": 25788})
    assert _ab("ab_raises") == Answers(seconds=1.0, answered=0, errors={"empty": 3610})
    assert _ab("ab_no_server") == Answers(seconds=0.584, answered=0, errors={"reset": 50000, "exception": 25000})


def test_wrk_answers():
    """A connection that the server closes after each answer is no failed request."""
    closed, kept = _wrk("wrk_closed"), _wrk("wrk_kept")
    assert _in_microseconds(closed) == (1.01, 10991, {}, 386, 284, None, 4080, 9400)
    assert (kept.answered, kept.errors, kept.longest) == (14524, {}, pytest.approx(0.02011))


def test_wrk_failures():
    """Times of 0, which wrk prints if it has none, are unknown."""
    assert _wrk("wrk_500") == Answers(seconds=1.1, answered=0, errors={"status not 2xx or 3xx": 14873})
    assert _wrk("wrk_timeouts") == Answers(seconds=3.01, answered=4, errors={"timeout": 4})
    assert _wrk("wrk_raises") == Answers(seconds=1.01, answered=0)


def test_reset_connections_of_wrk_are_errors():
    """If the server keeps most connections, the closed ones are failures."""
    text = (RECORDED / "wrk_closed.txt").read_text().replace("read 10991", "read 12")
    assert parse_wrk(text).errors == {"reset": 12}


@pytest.mark.parametrize("parse", [parse_ab, parse_wrk])
@pytest.mark.parametrize("text", ["", "apr_socket_recv: Connection refused (111)", "0 requests in 0.00us, 0B read"])
def test_other_output_is_refused(parse, text):
    """Nothing is taken for a result of zero."""
    with pytest.raises(ValueError, match="has no results"):
        parse(text)


@pytest.mark.parametrize(("tool", "package"), [("ab", "apache2-utils"), ("wrk", "wrk")])
def test_missing_tool_is_named_with_its_package(tool, package, tmp_path, monkeypatch):
    """The sentence says what to install."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RunError, match=f"^{tool} is not installed: install the package {package}.$"):
        find_tool(Load(tool=tool, clients=1), 1, tmp_path)


@pytest.mark.parametrize(
    "load",
    [
        Load(tool="ab", rate=10.0),
        Load(tool="wrk"),
        Load(tool="wrk", clients=1, idle=1),
        Load(tool="ab", clients=1, paths=("/a", "/b")),
    ],
)
def test_load_that_a_tool_does_not_know_is_refused(load, tmp_path, monkeypatch):
    """The load is not replaced by a similar one."""
    (tmp_path / load.tool).write_text("#!/bin/sh\n")
    (tmp_path / load.tool).chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RunError, match=f"^{load.tool} knows .*: use the tool `own`"):
        find_tool(load, 1, tmp_path)


def test_paths_of_wrk_are_quoted():
    """A path cannot end the string of the script."""
    assert 'paths = {"/a", "/b\\"\\\\"}' in lua_script(["/a", '/b"\\'])
