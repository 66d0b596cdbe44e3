"""Findings about clients: what keeps them out, that they leave, and what uWSGI's log says of their requests."""

import re
import subprocess

import pytest
from msgspec.structs import replace

from tests.analysis.judging import AT, change_workers, describe, figures_of, idle, judge
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.findings import Finding, clients, collect_findings, correct_headroom, way_in
from uwsgi_headroom.analysis.verdict import say_verdict, worst_status
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.record import Backlog, LogMessage, LogRecord
from uwsgi_headroom.surroundings import Keeper, Refusal, Sharer, Way, WaysIn, WebError
from uwsgi_headroom.uwsgi_log.messages import MESSAGES

PATH = "/run/app.sock"
GONE = Way(PATH, PATH, "gone")
CLEAR = Way(PATH, PATH, "clear", refusal=Refusal("nginx", "www-data", "www-data"))
REPLACED = Way(PATH, PATH, "replaced", AT - 5.0)
REFUSED = CLEAR._replace(refusal=Refusal("nginx", "www-data", "www-data", PATH, "600", "root:root"))


def judged(ways: WaysIn, requests: int = 0) -> tuple[list[Finding], str]:
    of = window(20, worker(1, requests, each=0.01), worker(2, 0, each=0.0))
    figures = correct_headroom(figures_of(of, describe(ways_in=ways, time=AT)))
    found = collect_findings(figures)
    return found, say_verdict(figures, found)


def test_the_verdict_names_what_keeps_clients_out():
    """Also where it is a note, and only a web server's log says so."""
    error = WebError(PATH, PATH, "nginx", "refused", "Connection refused", "/e", 3)
    for ways in (WaysIn((GONE,)), WaysIn((REPLACED,)), WaysIn((REFUSED,)), WaysIn((CLEAR,), errors=(error,))):
        found, verdict = judged(ways)
        assert found[0].title.rstrip(".")[1:] in verdict


@pytest.mark.parametrize(
    ("name", "address", "reason", "own", "act"),
    [
        ("127.0.0.1:3031", "127.0.0.1:3031", "Cannot assign requested address", "127.0.0.1:3031", "over a UNIX socket"),
        ("127.0.0.1:3031", "127.0.0.1:3031", "Connection refused", "127.0.0.1:3031", "Compare the socket's address"),
        ("", "10.99.7.2:3031", "Connection refused", "127.0.0.1:3031", "Let uWSGI listen there"),
        ("", "10.99.7.2:3031", "Connection timed out", ":3031", "Let the firewall in between pass this port"),
    ],
)
def test_what_a_web_server_that_cannot_connect_needs(name, address, reason, own, act):
    error = WebError(name, address, "nginx", "refused", reason, "/e", 30)
    server = describe(ways_in=WaysIn(errors=(error,)), time=AT, queues={own: Backlog(0, 100, None)})
    (found,) = collect_findings(figures_of(window(20, worker(1, 0, each=0.0)), server))
    assert act in found.change


@pytest.mark.parametrize(
    ("ways", "is_clear"),
    [
        (WaysIn((CLEAR,)), True),
        (WaysIn((CLEAR, CLEAR._replace(refusal=None))), True),
        (WaysIn((CLEAR._replace(refusal=None),)), False),
        (WaysIn((CLEAR, Way("b", "/b", "unknown"))), False),
        (WaysIn(), False),
    ],
)
def test_the_way_in_is_clear(ways, is_clear):
    """Where it was looked at, the verdict without requests says so."""
    _, verdict = judged(ways)
    assert verdict.startswith("No requests yet; the way in is clear") == is_clear
    _, verdict = judged(ways, requests=100)
    assert "way in" not in verdict


@pytest.mark.parametrize(("quiet", "is_said"), [((240.0, 12.0), True), ((240.0, 0.2), False)])
def test_requests_that_come_no_more(quiet, is_said):
    """It is a note, if it is not chance."""
    figures = figures_of(window(20, worker(1, 0, each=0.0)), describe(ways_in=WaysIn((CLEAR,))))
    found = [each for each in collect_findings(replace(figures, quiet=quiet)) if each.kind is way_in.STOPPED]
    assert [each.severity for each in found] == ["info"] * is_said


def test_what_requests_start():
    """A forked child that takes requests is a warning at once, and no rival; so is a program that keeps connections
    open."""
    fork = Sharer(PATH, 7, AT - 5.0, "fork", is_stopped=False, is_older=False, parent=1)
    kinds = [
        [(each.kind, each.severity) for each in judged(ways, requests=100)[0] if each.kind.code in CODES]
        for ways in (WaysIn(sharers=(fork,)), WaysIn(keepers=(Keeper(5.0, "job", 2),)), WaysIn())
    ]
    assert kinds == [[(way_in.FORKED, "warning")], [(way_in.KEPT_OPEN, "warning")], []]
    rival, _ = judged(WaysIn(sharers=(fork._replace(socket="same"),)), requests=100)
    assert [each.severity for each in rival if each.kind is way_in.SHARED] == ["info"]


CODES = {kind.code for kind in (way_in.SHARED, way_in.FORKED, way_in.KEPT_OPEN)}


def left(write_errors: int | None, read_errors: int | None = 0, exceptions: int = 0) -> Window:
    """A minute of 2,000 requests, with these errors in the first worker and none in the others."""
    errors = {"write_errors": write_errors, "read_errors": read_errors}
    quiet = change_workers(idle(), **{name: None if number is None else 0 for name, number in errors.items()})
    return replace(change_workers(quiet, 1, **errors), exceptions=exceptions)


def answered(
    lines: int, agreed: int, exceptions: int = 0, path: str = "", **messages: LogMessage
) -> dict[str, Finding]:
    """The findings about a minute of 2,000 requests, of which the log has so many lines with status 500."""
    if lines:
        messages["status_5xx"] = LogMessage(lines, agreed)
    record = describe()
    known = {"log": LogRecord(messages=messages), "setup": replace(record.setup, log_path=path)}
    return judge(left(0, exceptions=exceptions), describe(**known))


def test_the_command_for_the_lines_of_errors(tmp_path):
    """It shows these lines, and no others; a name that a shell would split is quoted."""
    log = tmp_path / "shop's log"
    end = "2 headers in 64 bytes (1 switches on core 0)"
    lines = [("app: 0", "/a", 200), ("app: 0", "/b", 502), ("app: -1", "/routed", 500)]
    log.write_text("".join(f"[pid: 1|{app}|] GET {url} (HTTP/1.1 {status}) {end}\n" for app, url, status in lines))
    command = re.search(r"`(grep [^`]*)`", answered(1400, 1400, path=str(log))["server_errors"].change)
    assert clients.STATUS_5XX in command[1]
    ran = subprocess.run(["sh", "-c", command[1]], capture_output=True, text=True, check=True)
    assert [line.split()[4] for line in ran.stdout.splitlines()] == ["/b", "/routed"]
    for path in ("", "journal:shop.service"):
        assert "grep" not in answered(1400, 1400, path=path)["server_errors"].change


@pytest.mark.parametrize(("tracebacks", "is_named"), [(700, True), (699, False)])
def test_the_exception_of_server_errors(tracebacks, is_named):
    """It comes first, if the log has one for half of the errors; a scrape does not show it."""
    place = "ConnectionError at shop/cart.py:9"
    found = answered(1400, 1400, traceback=LogMessage(tracebacks, 0, place=place))["server_errors"]
    assert found.change.startswith(f"Find the cause of {place}" if is_named else "If this began with a deploy")
    assert "cart.py" not in found.public.act


@pytest.mark.parametrize(
    ("code", "lines", "severity"),
    [
        *[("status_3xx", 1800, "info"), ("status_3xx", 1799, None)],
        *[("status_4xx", 1800, "warning"), ("status_4xx", 954, "info"), ("status_4xx", 953, None)],
    ],
)
def test_redirects_and_errors_of_most_responses(code, lines, severity):
    """No verdict rests on redirects, or on half of the responses: an application may mean them."""
    found = answered(0, 0, **{code: LogMessage(lines, 0, limit=301)})
    assert [(each.code, each.severity) for each in found.values()] == [
        ("redirects" if code == "status_3xx" else "client_errors", severity)
    ] * bool(severity)


@pytest.mark.parametrize(("lines", "words"), [(35, "nearly all"), (25, "half of the")])
def test_few_responses_that_are_errors(lines, words):
    known = describe(log=LogRecord(messages={"status_4xx": LogMessage(lines, 0, limit=404)}))
    (found,) = clients.find_client_errors(figures_of(window(20, worker(1, 36, each=0.01)), known))
    assert (found.severity, words in found.title) == ("info", True)


@pytest.mark.parametrize("message", [each for each in MESSAGES if each.role != "event"], ids=lambda each: each.code)
def test_a_line_alone_is_never_critical(message):
    """However many lines are no more than a warning if nothing agrees."""
    lines = LogMessage(10_000, 0, (1,), (11,), 7, "KeyError at shop/views.py:12")
    found = judge(idle(), describe(log=LogRecord(messages={message.code: lines}))).values()
    assert worst_status(list(found)) != "critical"
    said = "".join(each.title + each.evidence + each.meaning + each.change for each in found)
    assert "{" not in said
    assert "shop/views.py" not in said
