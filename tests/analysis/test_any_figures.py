"""Whatever the figures are: no finding fails, texts read as sentences, and the headroom does not contradict itself."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from tests.frozen.judgement import WINDOWS, decode_given, read_lines
from uwsgi_headroom.analysis.backends import Saturation
from uwsgi_headroom.analysis.capacity import REACHED
from uwsgi_headroom.analysis.figures import Figures, Known, compute_figures
from uwsgi_headroom.analysis.findings import Finding, collect_findings, correct_headroom
from uwsgi_headroom.analysis.findings.kind import SEVERITIES, first_act
from uwsgi_headroom.analysis.littles_law import noticed_wait
from uwsgi_headroom.analysis.verdict import verdict_sentence, worst_status

UNKNOWN = re.compile(r"\b(None|nan|inf|True|False)\b")
BROKEN = re.compile(r"  |\.\.| [,.;]|[,;]\.|^(?!uWSGI)[a-z]|^\.")
"""Signs of a figure that is not known, and, outside of commands, of a part that was left out."""

TAKEN = 0.15
"""The share of fields that come from another window."""

OF_TIME = frozenset(
    {"workers", "waits", "cpu", "occupancy", "queue_seconds", "queue_full_seconds"}
    | {"asked", "seconds", "until", "observed_seconds", "full_seconds", "gap_seconds"}
)
"""Fields of a window that are parts of one time, or are keyed alike."""

OF_SOCKETS = {"clients_refused", "queue_filling"}
"""Codes of which each socket may have a finding."""


@cache
def read_windows() -> list[dict[str, Any]]:
    """What the judge was given in scenarios, by hostile servers and by tests."""
    return [line["given"] for line in read_lines(WINDOWS)]


def mix(of: Random, one: Any, other: Any, own: frozenset[str] = frozenset()) -> Any:
    """The first of two records, with some of its fields as in the other. own: fields that it keeps."""
    taken = {name: getattr(other, name) for name in one.__struct_fields__ if name not in own and of.random() < TAKEN}
    return replace(one, **taken)


def mix_workers(of: Random, ones: Sequence[Any], others: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(mix(of, each, of.choice(others or ones), frozenset({"worker_id", "threads"})) for each in ones)


def make_figures(of: Random) -> Figures:
    """Figures of a window, with parts of another: each is possible, though not all together."""
    one, other = (decode_given(of.choice(read_windows())) for _ in range(2))
    seen = mix(of, one["window"], other["window"], OF_TIME)
    seen = replace(seen, workers=mix_workers(of, seen.workers, other["window"].workers))
    server, beside = one["server"], other["server"]
    options = mix(of, server.setup.options, beside.setup.options, frozenset({"processes", "threads"}))
    workers = mix_workers(of, server.workers, beside.workers)
    known = replace(
        mix(of, server, beside, frozenset({"workers", "setup"})),
        workers=workers,
        setup=replace(server.setup, options=options),
    )
    more = {name: each for name, each in one.items() if name not in ("window", "server", "objective")}
    made = compute_figures(Known(seen, known, **more))
    saturation = Saturation("", few=1.0, few_seconds=0.05, low=13.0, many=12.0, many_seconds=0.3, high=38.0)
    return replace(made, saturation=saturation) if of.random() < 0.3 else made


def check_headroom(found: Figures) -> None:
    """Each limit has one place; the first one is the least, or reached; no wait is longer than the window."""
    room, flow, of = found.headroom, found.flow, found.window
    limits = Counter([*room.by_limit, *room.far, *room.idle, *room.unknown])
    assert set(limits.values()) <= {1}, room
    assert all(0 < factor < math.inf for factor in room.by_limit.values()), room
    assert (room.first is None) == (not room.by_limit)
    assert room.first is None or room.by_limit[room.first] <= max(1 / REACHED, room.factor or 0.0), room
    assert (room.ceiling is None) == (not {*room.by_limit} - {"hottest_interpreter"}), room
    assert room.ceiling != "hottest_interpreter"
    assert "other" not in room.by_limit or room.other
    if room.usable:
        assert 0 < room.usable <= (room.factor or 0.0) * 1.0001
        assert room.usable_first in room.by_limit
        assert room.usable <= 1 or (flow.queue_wait or 0) < noticed_wait(flow.response_time)
    if flow.wait_is_floor:
        law = sum(of.queue_seconds.values()) / flow.requests
        assert (flow.queue_wait or 0.0) <= min(law, of.observed_seconds) * 1.0001


def check_finding(found: Figures, finding: Finding) -> None:
    """Its texts are sentences, of which none is said twice; commands name only processes that
    are proven to be of this server."""
    assert all(SEVERITIES.index(harm.severity) >= SEVERITIES.index(finding.severity) for harm in finding.harms)
    assert finding.title.count(": ") <= 1
    harms = [harm.evidence for harm in finding.harms]
    for text in filter(None, (finding.title, finding.evidence, finding.meaning, finding.change, *harms)):
        assert not UNKNOWN.search(text), text
        assert not BROKEN.search(re.sub("`[^`]*`", "`code`", text)), text
    clauses = re.split(r"(?<=[.;]) ", " ".join([*harms, finding.evidence, finding.meaning, finding.change]))
    said = [clause.rstrip(".;") for clause in clauses if "wait" in clause]
    assert len(said) == len(set(said)), said
    options = found.server.setup.options
    assert all(getattr(options, name.replace("-", "_"), None) != number for name, number in finding.settings), finding
    pids = {str(each.local_pid) for each in found.server.workers if each.local_pid} | {"PID"}
    pids |= {str(pid) for role in found.server.roles for pid in role.stopped}
    pids |= {str(silence.pid) for silence in (found.server.silence,) if silence}
    if found.server.waits and found.server.waits.uwsgi_lock_holder:
        pids.add(str(found.server.waits.uwsgi_lock_holder.pid))
    if found.server.silence:
        pids.add(str(found.server.silence.pid))
    for named in re.findall(
        r"(?:kill -[A-Z]+ | --?p(?:id)? |/proc/|for pid in )((?:\d+|PID)(?: \d+| PID)*)", finding.change
    ):
        assert {*named.split()} <= pids, finding.change


@pytest.mark.parametrize("seed", range(240))
def test_any_figures(seed):
    """What is wrong has something to do first, and the verdict is a sentence."""
    found = correct_headroom(make_figures(Random(seed)))
    check_headroom(found)
    findings = collect_findings(found)
    for finding in findings:
        check_finding(found, finding)
    codes = Counter(each.code for finding in findings for each in (finding, *finding.harms))
    assert {code for code, times in codes.items() if times > 1} <= OF_SOCKETS, "a finding stands twice"
    wrong = [finding for finding in findings if finding.severity != "info"]
    if any(finding.severity == "critical" for finding in wrong):
        assert any(first_act(finding.change) for finding in wrong)
    sentence = verdict_sentence(found.headroom, findings)
    assert not UNKNOWN.search(sentence)
    assert not BROKEN.search(sentence)
    assert worst_status(findings) == "ok" or sentence == findings[0].title
