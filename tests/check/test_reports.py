"""The report of `check`, and the line of a monitoring plugin."""

import json
import re

import msgspec
import pytest
from msgspec.structs import replace

from tests.check.documents import busy_server, emperor, unreadable
from tests.support.documents_with_times import (
    KNOWN_WAITS,
    RESPONSE_TIMES,
    SHORT,
    objective,
    percentiles,
    waits,
    with_objective,
    with_reason,
    with_response_times,
    with_waits,
)
from uwsgi_headroom.analysis.capacity import CpuShares
from uwsgi_headroom.analysis.objective import Objective
from uwsgi_headroom.analysis.percentiles import ResponseTimes
from uwsgi_headroom.analysis.wait_states import WaitFigures
from uwsgi_headroom.check import reports
from uwsgi_headroom.check.failure import Performance, render_label, render_line
from uwsgi_headroom.check.reports import render_report
from uwsgi_headroom.check.request import NO_THRESHOLDS, Threshold, Thresholds, find_worst
from uwsgi_headroom.documents import schema
from uwsgi_headroom.documents.schema import ServerDocument

PERFORMANCE = re.compile(r"[^\s=']+=(U|-?[\d.]+)(s|%|B|c)?(;[\d.:]*){0,4}")
"""A figure by the Monitoring Plugins Development Guidelines, with a label that needs no quotes."""


def critical(name: str = "hot") -> ServerDocument:
    return replace(busy_server(name), status="critical", verdict="The listen queue is full.")


def problem(
    code: str = "saturation", severity: schema.Severity = "critical", **changes: object
) -> schema.FindingSection:
    finding = schema.FindingSection(
        code=code,
        severity=severity,
        title=f"About {code}.",
        evidence=f"Seen: {code}. " * 20,
        meaning="It means this.",
        change=f"Change {code}. " + "Then check again, after a while. " * 20,
        runbook=None,
    )
    return replace(finding, **changes)


def troubled(name: str = "shop", **changes: object) -> ServerDocument:
    """A server with one problem, which is its verdict."""
    finding = problem(**changes)
    return replace(busy_server(name), status=finding.severity, verdict=finding.title, findings=(finding,))


def rows(server: ServerDocument, **options: bool) -> list[list[str]]:
    """The words of each row of the table of workers, the title first; empty without a table."""
    words = [line.split() for line in reports.render_lines(server, **options)]
    start = next((place for place, row in enumerate(words) if row[:1] == ["W"]), len(words))
    return words[start:]


def test_every_problem_is_on_the_first_screen():
    """However many there are, and however much there is to say; notes are counted, beyond five the problems too."""
    note = problem("note", "info")
    for number in range(1, 9):
        problems = [problem(f"problem{place}", "warning") for place in range(number)]
        server = replace(
            busy_server(), status="warning", verdict=problems[0].title, findings=(*problems, note), unknown=()
        )
        lines = list(reports.render_lines(server))
        assert len(lines) <= reports.FIRST_SCREEN
        assert max(map(len, lines)) <= reports.WIDTH
        for place in range(min(number, 5)):
            assert sum(f"About problem{place}." in line for line in lines) == 1
        assert ("... and 3 more" in lines) == (number == 8)
        assert lines[-1] == "Add `--all` for 1 note, the workers and all figures."


def test_a_block_says_nothing_twice_and_has_six_lines_at_most():
    """The verdict's title and first act stand above it."""
    lines = list(reports.render_lines(troubled()))
    why = next(place for place, line in enumerate(lines) if line.startswith("  why "))
    end = lines.index("", why)
    assert end - why <= 6
    assert [line.split()[0] for line in lines[why:end] if not line.startswith(" " * 15)] == ["why", "then"]
    text = " ".join(lines)
    assert text.count("About saturation.") == text.count("Change saturation") == 1


def test_a_table_of_workers_where_one_matters():
    """It has those columns that fit; with everything, every report has it."""
    server = busy_server()
    assert rows(server) == []
    assert rows(server, everything=True)[0][:5] == ["W", "PID", "STATE", "SHARE", "BUSY"]
    stuck = troubled(title="1 request is stuck in worker 3.", evidence="They are in workers 3, 17 and 40.")
    assert [row[0] for row in rows(stuck)[1:6]] == ["1", "2", "3", "4", "all"]
    many = [replace(server.workers[0], worker_id=number) for number in range(1, 65)]
    assert [row[0] for row in rows(replace(stuck, workers=many))[1:5]] == ["3", "17", "40", "all"]


def test_the_first_eight_lines_are_enough_to_act():
    """What is wrong and since when, what to do and what that promises, what users wait in the order in which they do,
    what is served and refused, and where the time goes: one after the other, in 80 columns."""
    server = with_waits(busy_server())
    (socket,) = server.sockets
    finding = problem(
        title="Clients are turned away: all threads are busy.",
        evidence="",
        change="Raise `threads` from 4 to 16 (check first that they fit into memory): there are at least 48.0 requests "
        "at once for 8 threads. After this step, uWSGI can serve at least 74.0/s. Then check again.",
        serves=74.0,
        since=server.time - 240,
    )
    flow = replace(
        server.flow, throughput=37.0, observed=8.0, response_time=0.209, queue_wait=1.1, total_time=1.309, refused=43.0
    )
    server = replace(
        server,
        status="critical",
        verdict=finding.title,
        findings=(finding,),
        flow=flow,
        sockets=(replace(socket, mean_queue=40.0, full=0.98),),
        threads=replace(server.threads, available=8, mean=8.0),
        sampling=replace(server.sampling, observed_seconds=900.0),
    )
    lines = list(reports.render_lines(server))
    assert max(map(len, lines)) <= reports.WIDTH
    assert lines[1].startswith("CRITICAL  Clients are turned away: all threads are busy. Since ")
    assert lines[2].endswith("(4 min).")
    assert lines[3:7] == [
        "  DO           Raise `threads` from 4 to 16: there are at least 48.0 requests at",
        "               once for 8 threads; at least 74.0/s are served then",
        "  users wait   1.3 s = 1.1 s in the listen queue + 209 ms in service",
        "  served       37.0/s; 48 at once for 8 threads; 43.0/s turned away with retries",
    ]
    assert lines[7].startswith("  time ")
    young = replace(server, sampling=replace(server.sampling, observed_seconds=250.0))
    assert not any("Since" in line for line in reports.render_lines(young))
    unix = replace(server, flow=replace(flow, refused=None))
    assert "48 at once for 8 threads; queue full 98 % of the time" in " ".join(
        " ".join(reports.render_lines(unix)).split()
    )


def test_a_server_that_is_down_says_what_to_do_first():
    """It has no figures; the exporter's document has the act."""
    error = schema.Error(
        reason="refused", message="connection refused", change="Start uWSGI. If it ends again, see why."
    )
    down = replace(unreadable(), error=error)
    assert list(reports.render_lines(down))[1:] == [
        "UNKNOWN  It cannot be read: connection refused.",
        "  DO           Start uWSGI",
    ]


def test_a_line_for_each_and_all_about_those_that_are_not_fine():
    """A long name has a line of its own; JSON is one document."""
    text = "\n".join(reports.render_list([critical(), unreadable(), busy_server()]))
    assert text.startswith("CRITICAL  3 servers: 1 critical, 1 unknown, 1 ok\n\nCRITICAL  hot")
    assert "UNKNOWN   gone      -  It cannot be read" in text
    assert "OK        shop   4.0x  All is well." in text
    assert text.count("  users wait") == 1
    assert max(map(len, text.splitlines())) <= 80
    name = "/srv/application-with-a-long-name/run/uwsgi.stats"
    lines = list(reports.render_list([critical(name), busy_server()]))
    assert lines[2] == f"CRITICAL  {name}"
    assert lines[3].split() == ["4.0x", "The", "listen", "queue", "is", "full."]
    assert lines[4].split() == ["OK", "shop", "4.0x", "All", "is", "well."]
    assert lines[3].index("4.0x") == lines[4].index("4.0x")
    whole = json.loads(reports.render_json([critical(), unreadable()], single=False))
    assert (whole["status"], whole["verdict"]) == ("critical", "2 servers: 1 critical, 1 unknown")
    assert [server["name"] for server in whole["servers"]] == ["hot", "gone"]
    assert whole["servers"][1]["error"]["reason"] == "refused"


def test_a_full_host_is_said_once():
    """Not with each server on it, nor while CPUs are idle, nor if one server says it anyway."""

    def on_host(name, own, idle):
        server = busy_server(name)
        host = replace(server.host, cpus=2.0, limited_by="host") if server.host else None
        cpu = CpuShares(own=own, idle=idle, others=2 - own - idle, others_follow=None)
        return replace(server, host=host, cpu=cpu)

    full = [on_host("first", 0.1, 0.04), on_host("second", 0.3, 0.06)]
    lines = list(reports.render_list(full))
    assert lines[1:4] == [
        "CPUs are full. Of 2 CPUs, the workers of these 2 servers use 0.4, and other",
        "  programs 1.6.",
        "",
    ]
    assert json.loads(reports.render_json(full, single=False))["host"] == " ".join(line.strip() for line in lines[1:3])
    assert list(reports.render_list([on_host("first", 0.1, 1.4), on_host("second", 0.1, 1.4)]))[1] == ""
    assert json.loads(reports.render_json([full[0], unreadable()], single=False))["host"] is None


def test_what_to_do_first_stands_below_each_server_that_is_not_ok():
    """In one line, cut at a whole word with an ellipsis."""

    def on_host(name: str, host: str, change: str, *, of_host: bool = True) -> ServerDocument:
        server = troubled(name, severity="warning", change=change, of_host=of_host)
        return replace(
            server,
            host=replace(server.host, cpus=2.0, limited_by="host"),
            identity=schema.Identity(host=host),
            cpu=CpuShares(own=0.9, idle=0.02, others=0.1, others_follow=None),
        )

    long = "Raise `threads` from 4 to 7: there are 7.7 requests at once for 8 threads, and more come. Then check again."
    judged = [
        on_host("first", "web1", long, of_host=False),
        *(on_host(f"cpu{number}", "web1", "Add CPUs.") for number in (1, 2)),
        on_host("alone", "web3", "Add CPUs."),
        *(on_host(f"other{number}", "web2", "Add CPUs.") for number in (1, 2)),
        busy_server(),
    ]
    head, _, _ = "\n".join(reports.render_list(judged)).partition("\n---")
    assert [line for line in head.splitlines() if "  DO  " in line] == [
        "          DO  Raise `threads` from 4 to 7: there are 7.7 requests at once for …",
        "          DO  Add CPUs",
    ]
    assert head.index("alone") < head.index("DO  Add CPUs") < head.index("other1")
    assert [line[:22] for line in head.splitlines() if "CPUs are full" in line] == [
        "web1: CPUs are full: 2",
        "web2: CPUs are full: 2",
    ]
    document = json.loads(reports.render_json(judged, single=False))
    assert document["host"].count("CPUs are full") == 2


def test_a_figure_and_its_label_stay_on_one_line():
    """However long the names are."""
    name = "a-database-whose-name-is-of-forty-columns"
    lines = list(reports.render_lines(with_waits(busy_server(), waits({"backend": 4.1, "cpu": 4.0}, {name: 4.1}))))
    assert any(f"41 ms {name}" in line for line in lines)
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("server", [with_reason(busy_server(), "this user may not see it"), busy_server()])
def test_a_time_that_is_not_known_is_not_reported(server):
    """The report has no line about it, for those who grant no right would read it each time; JSON has the reason."""
    assert not any(line.startswith("  time") for line in reports.render_lines(server))
    whole = json.loads(reports.render_json([server], single=True))
    assert whole["waits"] is None
    assert [unknown["why"] for unknown in whole["unknown"] if unknown["what"] == "waits"] == [
        unknown.why for unknown in server.unknown if unknown.what == "waits"
    ]


def test_json_has_the_sections_of_the_api():
    whole = json.loads(reports.render_json([with_waits(busy_server())], single=True))
    assert msgspec.convert(whole["waits"], WaitFigures) == KNOWN_WAITS
    server = with_objective(with_response_times(busy_server()), objective())
    whole = json.loads(reports.render_json([server], single=True))
    assert msgspec.convert(whole["response_times"], ResponseTimes) == RESPONSE_TIMES
    assert msgspec.convert(whole["objective"], Objective) == objective()
    assert (whole["lines"][0]["code"], whole["lines"][0]["parts"]) == ("verdict", ["All is well."])


@pytest.mark.parametrize(
    ("statuses", "worst"),
    [
        (["ok", "unknown"], "unknown"),
        (["unknown", "warning"], "warning"),
        (["warning", "critical", "unknown"], "critical"),
        (["ok", "ok"], "ok"),
        ([], "unknown"),
    ],
)
def test_the_worst(statuses, worst):
    assert find_worst(statuses) == worst


def test_a_plugins_line(tmp_path):
    """As the guidelines require; labels of several begin with names. An emperor has the number of its vassals."""
    vassals = emperor(tmp_path)
    assert f"vassals={len(vassals.emperor.vassals)};;;0 " in render_report([vassals], NO_THRESHOLDS)
    limits = Thresholds(Threshold(2.0, 1.2), Threshold(0.1, 2.0), Threshold(None, 5.0))
    line = render_report([busy_server()], limits)
    text, _, performance = line.partition(" | ")
    assert text == "OK - shop: All is well."
    figures = dict(figure.split("=") for figure in performance.split())
    assert figures["headroom"] == "4;2:;1.2:;0"
    assert figures["queue_wait"] == "0.001s;0.1;2;0"
    assert figures["response_time"] == "0.05s;;5;0"
    assert all(PERFORMANCE.fullmatch(figure) for figure in performance.split())
    line = render_report([critical(), unreadable(), busy_server()], NO_THRESHOLDS)
    text, _, performance = line.partition(" | ")
    assert text == (
        "CRITICAL - 3 servers: 1 critical, 1 unknown, 1 ok; hot: The listen queue is full; "
        "gone: It cannot be read: connection refused"
    )
    assert {figure.partition(".")[0] for figure in performance.split()} == {"hot", "shop"}
    assert all(PERFORMANCE.fullmatch(figure) for figure in performance.split())


def test_names_cannot_forge_a_plugins_line():
    """An unknown figure keeps its position, and a long text is cut."""
    name = "a|b'c=d e\n\x1b]0;x\x07"
    line = render_report([critical(name), busy_server()], NO_THRESHOLDS)
    assert line.isprintable()
    assert line.count("|") == 1
    assert "a_b_c_d_e___0_x_.headroom=4;;;0" in line
    assert render_label(name) == "a_b_c_d_e___0_x_"
    figures = [Performance("headroom", None), Performance("wait", float("nan"), "s")]
    line = render_line("ok", "x" * 5000, figures)
    assert line.endswith("... | headroom=U;;;0 wait=U;;;0")
    assert len(line) < 1100


TIMED = with_response_times(busy_server())
SHORT_ONLY = percentiles(SHORT, replace(SHORT, share=0.95))
P95, P99 = "response_time_p95=0.483s;0.8;2;0", "response_time_p99=0.91s;;1;0"
NO_PERCENTILES = "response_time_p95=U;0.8;2;0 response_time_p99=U;;1;0"
LOCK = "interpreter_lock_waiters={};;;0"
OBJECTIVE = "objective_missed_share={};;;0;1 objective_burn_rate={};;;0"


@pytest.mark.parametrize(
    ("server", "figures"),
    [
        (TIMED, f"{LOCK.format('U')} {P95} {P99}"),
        (with_response_times(TIMED, SHORT_ONLY), NO_PERCENTILES),
        (with_response_times(TIMED, None), NO_PERCENTILES),
        (with_objective(TIMED, objective()), f"{P95} {P99} {OBJECTIVE.format(0.018, 1.8)}"),
        (with_objective(TIMED, objective(unjudged="not judged: it waits")), f"{P99} {OBJECTIVE.format('U', 'U')}"),
        (with_waits(TIMED), f"{LOCK.format(2.2)} {P95} {P99}"),
        (with_waits(TIMED, waits({"sleep": 1.0})), f"{LOCK.format(0)} {P95} {P99}"),
    ],
)
def test_figures_of_a_plugins_line(server, figures):
    """A percentile that samples do not show is unknown, never its bound; an objective has figures if there is one. No
    thread that waits for an interpreter is 0, and unknown where the kernel does not show it."""
    limits = Thresholds(max_p95=Threshold(0.8, 2.0), max_p99=Threshold(None, 1.0))
    line = render_report([server], limits)
    assert line.endswith(f" {figures}")
    assert all(PERFORMANCE.fullmatch(figure) for figure in line.partition(" | ")[2].split())
