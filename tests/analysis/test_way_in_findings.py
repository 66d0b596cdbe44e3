"""What keeps clients from uWSGI's sockets is named in the verdict; what a deploy does, or another user's web server, is
no alarm."""

import pytest
from msgspec.structs import replace

from tests.analysis.judging import AT, describe, figures_of, said, setup
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.findings import collect_findings, correct_headroom, way_in
from uwsgi_headroom.analysis.verdict import say_verdict
from uwsgi_headroom.record import LogRecord
from uwsgi_headroom.surroundings import Refusal, Rival, Sharer, Way, WaysIn, WebError, WebLine

PATH = "/run/app.sock"
NAMED = (WebLine(PATH, "/etc/nginx/nginx.conf", 12, "uwsgi_pass", "uwsgi"),)
GONE = Way(PATH, PATH, "gone")
CLEAR = Way(PATH, PATH, "clear", refusal=Refusal("nginx", "www-data", "www-data"))


def replaced(program: str = "", *, age: float = 5.0, serves: bool = False, nobody: bool = False) -> Way:
    rival = Rival(77, program, serves) if program else None
    return Way(PATH, PATH, "replaced", AT - age, nobody, rival)


def refused(path: str = PATH, mode: str = "600") -> Way:
    return CLEAR._replace(refusal=Refusal("nginx", "www-data", "www-data", path, mode, "root:root"))


def judged(
    ways: WaysIn,
    requests: int = 0,
    log: LogRecord | None = None,
    *,
    busy: float | None = None,
    is_counted: bool = True,
    **options: object,
) -> tuple[dict[str, object], str]:
    of = window(20, worker(1, requests, each=0.01, busy=busy), worker(2, 0, each=0.0, busy=busy))
    of = replace(of, is_counted=is_counted)
    figures = correct_headroom(figures_of(of, describe(ways_in=ways, time=AT, setup=setup(**options), log=log)))
    found = collect_findings(figures)
    return {each.code: each for each in found}, say_verdict(figures, found)


@pytest.mark.parametrize(
    ("way", "row", "plain", "named"),
    [
        (GONE, way_in.GONE, "warning", "critical"),
        (replaced("uwsgi"), way_in.REPLACED, "info", "info"),
        (replaced("uwsgi", age=601, serves=True), way_in.REPLACED, "warning", "warning"),
        (replaced(), way_in.REPLACED, "info", "info"),
        (replaced(age=601), way_in.REPLACED, "warning", "warning"),
        (replaced("python3"), way_in.REPLACED, "warning", "warning"),
        (replaced("python3", serves=True), way_in.REPLACED, "critical", "critical"),
        (replaced(nobody=True), way_in.REPLACED, "warning", "critical"),
        (refused(), way_in.REFUSED, "info", "critical"),
        (refused("/run", "700"), way_in.REFUSED, "info", "critical"),
        (refused(mode=""), way_in.REFUSED, "info", "critical"),
    ],
)
def test_what_keeps_clients_out(way, row, plain, named):
    """It is critical only with what proves that clients come that way; the verdict names it also where it is a note."""
    for ways, severity in ((WaysIn((way,)), plain), (WaysIn((way,), lines=NAMED), named)):
        found, verdict = judged(ways)
        assert said(found, row.code) == (row, severity)
        assert PATH in verdict
        assert found[row.code].title.rstrip(".")[1:] in verdict
        assert f"{NAMED[0].path}:12" in found[row.code].evidence or severity == plain
        assert PATH not in "".join(found[row.code].public)
        assert "77" not in "".join(found[row.code].public)


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
    """Only where it was looked at, the verdict of a server without requests says so."""
    _, verdict = judged(ways)
    assert verdict.startswith("No requests yet; the way in is clear") == is_clear
    _, verdict = judged(ways, requests=100)
    assert "way in" not in verdict


@pytest.mark.parametrize(
    ("directive", "protocol", "fits"),
    [
        ("uwsgi_pass", "uwsgi", True),
        ("proxy_pass", "uwsgi", False),
        ("proxy_pass", "http", True),
        ("uwsgi_pass", "http", False),
        ("server", "uwsgi", True),
        ("proxy_pass", "", True),
    ],
)
def test_the_protocol_of_a_directive(directive, protocol, fits):
    """It has to fit, unless requests come; one that says nothing about the protocol is not judged."""
    ways = WaysIn((CLEAR,), lines=(WebLine(PATH, "/etc/nginx/a", 3, directive, protocol),))
    found, _ = judged(ways)
    assert said(found, "protocol_mismatch") == (None if fits else (way_in.MISMATCH, "warning"))
    assert fits or "/etc/nginx/a:3" in found["protocol_mismatch"].change
    assert fits or "/etc" not in "".join(found["protocol_mismatch"].public)
    assert "protocol_mismatch" not in judged(ways, requests=100)[0]


def logged(cause: str, number: int = 3, name: str = PATH, address: str = PATH) -> WaysIn:
    return WaysIn((CLEAR,), errors=(WebError(name, address, "nginx", cause, "Connection refused", "/e", number),))


@pytest.mark.parametrize(
    ("ways", "requests", "options", "row", "severity"),
    [
        (logged("large_head"), 300, {}, way_in.LARGE_HEADS, "warning"),
        (logged("large_head"), 301, {}, way_in.LARGE_HEADS, "info"),
        (logged("large_head", 2), 9, {}, way_in.LARGE_HEADS, "info"),
        (logged("not_buffered"), 9, {}, way_in.NOT_BUFFERED, "warning"),
        (logged("unread"), 9, {}, way_in.UNREAD, "warning"),
        (logged("unread"), 9, {"post_buffering": 8192}, None, None),
        (logged("closed", name=":80"), 9, {"http": (":80",)}, way_in.ROUTER_CLOSES, "warning"),
        (logged("closed"), 9, {"http": (":80",)}, None, None),
        (logged("refused"), 0, {}, way_in.CANNOT_CONNECT, "critical"),
        (logged("refused", 2), 0, {}, way_in.CANNOT_CONNECT, "info"),
        (logged("refused"), 1, {}, None, None),
        (logged("refused")._replace(ways=(refused(),)), 0, {}, None, None),
        (logged("refused", name="", address="/old/app.sock"), 0, {}, way_in.ELSEWHERE, "warning"),
        (logged("refused", name="", address="10.0.0.2:80"), 0, {}, way_in.ELSEWHERE, "warning"),
        (logged("refused", name="", address="/old/app.sock"), 1, {}, None, None),
        (logged("refused", name="", address="/old/app.sock")._replace(lines=NAMED), 0, {}, None, None),
    ],
)
def test_what_the_log_of_a_web_server_says(ways, requests, options, row, severity):
    """It is a warning from 1 % of the requests on; another address is not this uWSGI's while requests come to it."""
    found, verdict = judged(ways, requests, **options)
    assert said(found, "web_server_fails") == (row and (row, severity))
    assert row is None or severity == "info" or found["web_server_fails"].title == verdict
    assert row is None or not any(text in str(found["web_server_fails"].public) for text in ("/e", "app.sock", "10."))


@pytest.mark.parametrize(
    ("socket", "age", "stopped", "requests", "options", "severity"),
    [
        ("same", 601, False, 100, {}, "warning"),
        ("same", 599, False, 100, {}, "info"),
        ("same", 601, False, 100, {"zerg": ("?",)}, "info"),
        ("older", 601, False, 0, {}, "warning"),
        ("older", 601, False, 100, {}, "info"),
        ("port", 601, False, 100, {}, "info"),
        ("port", 5, True, 100, {}, "warning"),
    ],
)
def test_another_uwsgi_at_the_same_socket(socket, age, stopped, requests, options, severity):
    """In a deploy, in zerg mode and with `reuse-port`, two are meant to be there; a stopped one keeps its clients."""
    sharer = Sharer(PATH, 77, AT - age, socket, stopped, is_older=True)
    found, _ = judged(WaysIn((CLEAR,), came=True, sharers=(sharer,)), requests, complete=True, **options)
    assert (found["socket_shared"].kind, found["socket_shared"].severity) == (way_in.SHARED, severity)
    assert "77" in found["socket_shared"].change


def test_a_router_without_a_target():
    """It is a warning, also while requests come by another way."""
    for requests in (0, 100):
        found, _ = judged(WaysIn((CLEAR,), dead_ends=("/run/other",)), requests)
        assert (found["router_dead_end"].kind, found["router_dead_end"].severity) == (way_in.DEAD_END, "warning")


@pytest.mark.parametrize(("requests", "quiet", "is_said"), [(0, (240.0, 12.0), True), (0, (240.0, 0.2), False)])
def test_requests_that_come_no_more(requests, quiet, is_said):
    """It is a note, if so many would have come that chance does not explain it."""
    figures = figures_of(window(20, worker(1, requests, each=0.0)), describe(ways_in=WaysIn((CLEAR,))))
    found = [each for each in collect_findings(replace(figures, quiet=quiet)) if each.kind is way_in.STOPPED]
    assert [each.severity for each in found] == ["info"] * is_said
