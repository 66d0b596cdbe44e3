"""Values in the commands of runbooks: one word in shell, part of a string in PromQL, and text in HTML.

PIDs are those on the exporter's side, and never those of another process.
"""

from __future__ import annotations

import json
import re
import shlex
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uwsgi_headroom import stats
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.kernel.processes import WorkerProcess
from uwsgi_headroom.kernel.setup import Identity
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.stats.server import Snapshot
from uwsgi_headroom.web.runbook_values import MEANINGS, collect_pids, fill_code, is_typeable, used_placeholders


def typed(html: str) -> str:
    return unescape(re.sub("<[^>]*>", "", html))


def test_what_is_not_known_is_marked() -> None:
    """Placeholders without a value are marked, and only whole words are placeholders."""
    html = fill_code("kill WORKER_PID $STATS MY_UNIT <x>", "sh", {})
    assert html == "kill <mark>WORKER_PID</mark> $STATS MY_UNIT &lt;x&gt;"


@given(st.text(min_size=1).filter(is_typeable))
def test_a_value_is_one_word_in_shell(value: str) -> None:
    """Any value is one word."""
    html = fill_code("check STATS --once", "sh", {"STATS": value})
    assert shlex.split(typed(html)) == ["check", value, "--once"]
    assert html.count("<") == 2


@given(st.text(min_size=1).filter(is_typeable))
def test_a_value_is_a_string_in_promql(value: str) -> None:
    """Quotation marks and backslashes are escaped, in blocks and in inline code."""
    for language in ("promql", ""):
        html = fill_code('up{server="SERVER"}', language, {"SERVER": value})
        inside = unescape(html.partition("<b>")[2].partition("</b>")[0])
        assert inside.replace("\\\\", "").replace('\\"', "").count('"') == 0
        assert inside.replace("\\\\", "\0").replace('\\"', '"').replace("\0", "\\") == value


def test_several_workers_are_several_words() -> None:
    """The PIDs of workers are several words, for a loop."""
    assert typed(fill_code("for pid in WORKER_PIDS; do", "sh", {"WORKER_PIDS": "7 8"})) == "for pid in 7 8; do"


@pytest.mark.parametrize(
    "value", ["", "a\nb", "a\tb", "\x1b[0m", "a\u202eb", "a\u00a0b", "\udc80", "\u05d0", "a\u200bb"]
)
def test_what_a_terminal_shows_wrong_cannot_be_typed(value: str) -> None:
    """Line breaks, control characters, invisible characters and right-to-left characters are refused."""
    assert not is_typeable(value)


@pytest.mark.parametrize("value", ["shop", "a b", "it's", "$(id)", "é", "日本", "<b>"])
def test_what_can_be_quoted_can_be_typed(value: str) -> None:
    """Characters that need quoting are accepted."""
    assert is_typeable(value)


def test_placeholders_are_found() -> None:
    """All placeholders are found, the longest match first."""
    assert used_placeholders(" ".join(MEANINGS)) == set(MEANINGS)
    assert used_placeholders("`kill WORKER_PID`, SERVERS") == {"WORKER_PID"}


def reading(pid: int, host: HostFacts) -> Reading:
    snapshot = stats.decode(json.dumps({"pid": pid, "workers": [{"pid": 7}, {"pid": 8}]}).encode())
    return Reading(1.0, 1.0, 0.1, 0.1, 10, snapshot, host)


def pids_of(found: Reading) -> dict[str, str]:
    assert isinstance(found.snapshot, Snapshot)
    workers = found.snapshot.workers
    return collect_pids(found.host, workers, workers[0])


def test_container() -> None:
    """A proven uWSGI in a container has other PIDs on the exporter's side."""
    found = pids_of(reading(1, HostFacts(master_pid=500, local_pids={7: 507, 8: 508})))
    assert found == {"MASTER_PID": "500", "WORKER_PIDS": "507 508", "WORKER_PID": "507"}


@pytest.mark.parametrize("master", [1, 40])
def test_unproven(master: int) -> None:
    """An unproven uWSGI has no PIDs: here they belong to other processes."""
    assert pids_of(reading(master, HostFacts(off="the stats server is on another host"))) == {}


def test_host() -> None:
    """Without namespaces, the PIDs are those of the document, if the kernel shows the process below the master."""
    processes = {pid: WorkerProcess(pid, *[None] * 9) for pid in (7, 8)}
    expected = {"MASTER_PID": "40", "WORKER_PIDS": "7 8", "WORKER_PID": "7"}
    assert pids_of(reading(40, HostFacts(master_pid=40, processes=processes))) == expected
    assert pids_of(reading(40, HostFacts(master_pid=40, processes={7: processes[7]}))) == {
        "MASTER_PID": "40",
        "WORKER_PID": "7",
    }


def identity(started: float) -> Identity:
    return Identity("host", started, None, None)


def test_same_master() -> None:
    """A container that was restarted has another master, although its PID in the document is the same."""
    first = reading(1, HostFacts(master_pid=500, identity=identity(100.0)))
    assert reading(1, HostFacts(master_pid=500, identity=identity(100.2))).has_same_master(first) is True
    assert reading(1, HostFacts(master_pid=600, identity=identity(200.0))).has_same_master(first) is False
    assert reading(1, HostFacts(master_pid=500, identity=identity(200.0))).has_same_master(first) is False
    assert reading(2, HostFacts(master_pid=500, identity=identity(100.0))).has_same_master(first) is False


def test_unknown_whether_the_same_master() -> None:
    """Without a proof, process 1 may be that of another start; any other PID is taken for one process."""
    off = HostFacts(off="not proven")
    assert reading(1, off).has_same_master(reading(1, off)) is None
    assert reading(40, off).has_same_master(reading(40, off)) is True
