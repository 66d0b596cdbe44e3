"""Anything but a document of uWSGI raises StatsError, with a reason and no quotation of the document."""

import json
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.captured_documents import NAMES, document, with_a_wrong_value
from uwsgi_headroom import stats
from uwsgi_headroom.errors import StatsError

SMALL = "router_http"
SECRET = "hunter2-in-a-cookie"


def refusal(body):
    with pytest.raises(StatsError) as caught:
        stats.decode(body)
    return caught.value


def decoded_or_refused(body):
    try:
        return stats.decode(body)
    except StatsError as error:
        return error


def server(**keys):
    return json.dumps({"version": "2.0.31", "pid": 7, "workers": [], **keys}).encode()


def worker(**keys):
    return server(workers=[{"id": 1, "pid": 8, "accepting": 1, "respawn_count": 1, "status": "idle", **keys}])


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(b"", "empty", id="nothing"),
        pytest.param(b" \n\t\r\n ", "empty", id="whitespace"),
        pytest.param(b"\xef\xbb\xbf" + server(), "not_json", id="byte order mark"),
        pytest.param(server().decode().encode("utf-16"), "not_json", id="utf-16"),
        pytest.param(b"uwsgi\n", "not_json", id="text"),
        pytest.param(b"HTTP/1.0 200 OK\r\n\r\n" + server(), "not_json", id="http"),
        pytest.param(server() + server(), "not_json", id="two documents"),
        pytest.param(server() + b"x", "not_json", id="trailing bytes"),
        pytest.param(server()[:-1], "truncated", id="cut"),
        pytest.param(b"null", "not_uwsgi", id="null"),
        pytest.param(b"3", "not_uwsgi", id="a number"),
        pytest.param(b'"workers"', "not_uwsgi", id="a string"),
        pytest.param(b"[]", "not_uwsgi", id="a list"),
        pytest.param(b"{}", "not_uwsgi", id="an empty object"),
        pytest.param(b'{"status":"ok","workers":3}', "not_uwsgi", id="workers of another program"),
        pytest.param(b'{"workers":{"a":1}}', "not_uwsgi", id="workers by name"),
        pytest.param(server(workers=[{}] * 1025), "too_large", id="too many workers"),
        pytest.param(b'{"jsonrpc":"2.0","result":[1]}', "not_uwsgi", id="another protocol"),
    ],
)
def test_refused_with_a_reason(body, reason):
    assert refusal(body).reason == reason


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(b'{"x":' * 100_000, "truncated", id="objects"),
        pytest.param(b'{"x":' + b"[" * 100_000, "truncated", id="lists"),
        pytest.param(b'{"workers":[{"cores":[{"vars":' + b"[" * 100_000, "truncated", id="variables"),
        pytest.param(b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "not_uwsgi", id="complete"),
    ],
)
def test_a_deep_document_is_refused(body, reason):
    """For its depth up to Python 3.13. From 3.14 the size of the stack is the bound: what fits is refused as any other
    document."""
    assert refusal(body).reason in (("not_json", reason) if sys.version_info >= (3, 14) else ("not_json",))


def test_a_cron_without_a_schedule_runs_at_any_time():
    """Where a field is missing, any value fits, as where uWSGI writes -1; and the command does not run."""
    snapshot = stats.decode(server(crons=[{"command": "x"}]))
    (cron,) = snapshot.crons
    assert (cron.minute, cron.hour, cron.day, cron.month, cron.week, cron.pid, cron.started_at) == (*(-1,) * 6, 0)


def test_http_is_pointed_out():
    assert "http://" in str(refusal(b"HTTP/1.1 400 Bad Request\r\n\r\n"))


def test_the_error_for_an_empty_answer_names_its_causes():
    for word in ("http-socket", "exporter", "stopping", "stats-http"):
        assert word in str(refusal(b""))


@pytest.mark.parametrize(("directory", "byte"), [('/srv/a"b', 34), ("/srv/a\\q", 34)])
def test_the_error_for_damaged_json_of_uwsgi(directory, byte):
    """uWSGI does not escape its directory: the address is right, and the error does not ask for another."""
    error = refusal(b'{"version":"2.0.31","cwd":"%s","workers":[]}' % directory.encode())
    assert error.reason == "not_json"
    assert f"uWSGI's JSON is damaged near byte {byte}:" in str(error)
    assert "give the address" not in str(error)
    assert "give the address" in str(refusal(b'{"versions":"2","cwd":"%s"}' % directory.encode()))


def test_the_error_for_a_web_page_names_its_owner():
    page = "<!doctype html>\n<html><head><title>{}</title></head></html>"
    own, other = (refusal(page.format(title).encode()) for title in ("shop · uwsgi-headroom", "Welcome"))
    assert "the page of a uwsgi-headroom exporter" in str(own)
    assert "an application's (`http-socket`)" in str(other)
    assert (own.reason, other.reason) == ("not_json", "not_json")


@pytest.mark.parametrize("at", range(len(document(SMALL))))
def test_cut_anywhere(at):
    assert refusal(document(SMALL)[:at]).reason == ("truncated" if at else "empty")


@pytest.mark.parametrize("name", NAMES)
def test_cut_at_many_places(name):
    body = document(name).rstrip()
    for at in {*range(0, len(body), 97), len(body) - 1}:
        assert refusal(body[:at]).reason in ("truncated", "empty")


@pytest.mark.parametrize("value", [-1, 2**63, 2**64, 10**30, 10**400])
@pytest.mark.parametrize(
    ("body", "path"),
    [
        ('{"version":"2","workers":[{"requests":%s}]}', "$.workers[0].requests"),
        ('{"version":"2","workers":[{},{"cores":[{"requests":%s}]}]}', "$.workers[1].cores[0].requests"),
        ('{"version":"2","workers":[],"listen_queue":%s}', "$.listen_queue"),
        ('{"version":"2","workers":[],"sockets":[{"queue":%s}]}', "$.sockets[0].queue"),
        ('{"version":"2","workers":[],"caches":[{"hits":%s}]}', "$.caches[0].hits"),
    ],
)
def test_an_invalid_count_is_refused(body, path, value):
    """A negative counter, or one of 2**63 and more, is refused; the message has its place but not its value."""
    error = refusal((body % value).encode())
    assert error.reason == "not_uwsgi"
    assert path in str(error)
    assert str(value) not in str(error)


@pytest.mark.parametrize("value", [2**63, 2**64 - 1, 2**64 - 60_000_000])
def test_wrapped_running_time_is_absent(value):
    """A running time that wrapped because the clock was set back is unknown; the worker's other figures are known."""
    snapshot = stats.decode(worker(running_time=value, requests=3))
    assert (snapshot.workers[0].running_time, snapshot.workers[0].requests) == (None, 3)


def test_missing_keys_are_unknown():
    snapshot = stats.decode(b'{"workers":[{}]}')
    (worker,) = snapshot.workers
    names = "pid threads busy_threads requests static_requests running_time exceptions harakiris respawns signals"
    names += " transmitted_bytes resident_bytes last_spawn"
    assert {getattr(worker, name) for name in names.split()} == {None}
    assert (snapshot.listen_queue, snapshot.signal_queue, snapshot.locks, snapshot.thunder_lock) == (None,) * 4


def test_unknown_keys_are_skipped():
    later = {"later": [{"a": [1.5, None, True, {}]}]}
    assert stats.decode(worker(uss=1, pss=2.5, requests=3, **later)).workers[0].requests == 3


def test_threads_are_numbered_from_0():
    """A busy thread has the number in uWSGI's log ("core 3"): its position among the cores, from 0."""
    raw = json.loads(document("threads_4x8_busy"))["workers"]
    busy = [{place for place, core in enumerate(worker["cores"]) if core["in_request"]} for worker in raw]
    snapshot = stats.decode(document("threads_4x8_busy"))
    assert [set(worker.serving or ()) for worker in snapshot.workers] == busy
    assert any(busy)


def test_the_oldest_request_is_of_busy_threads_only():
    """An idle thread has no request in service, even if the start of its last one is still in the document."""
    cores = [
        {"in_request": 0, "req_info": {"request_start": 5}},
        {"in_request": 1, "req_info": {}},
        {"in_request": 1, "req_info": {"request_start": 9}},
    ]
    snapshot = stats.decode(worker(cores=cores))
    assert (snapshot.workers[0].busy_threads, snapshot.workers[0].request_starts) == (2, (9,))


@pytest.mark.parametrize(
    "body",
    [
        worker(status=SECRET, cores=[{"vars": [f"HTTP_COOKIE={SECRET}"], "requests": "many"}]),
        worker(cores=[{"vars": [f"HTTP_COOKIE={SECRET}"]}])[:-20],
        worker(cores=[{"vars": [f"HTTP_COOKIE={SECRET}"]}]) + b"x",
        server(workers=SECRET),
        server(metrics={SECRET: {"value": SECRET}}),
        server(locks=[{SECRET: SECRET}]),
        server(locks=[SECRET]),
        SECRET.encode(),
        b'{"version": "' + SECRET.encode() + b'\\x"}',
        b"HTTP/1.0 401 " + SECRET.encode(),
    ],
)
def test_a_refusal_quotes_nothing(body):
    error = refusal(body)
    assert SECRET not in str(error)
    assert SECRET not in repr(error)
    assert error.__cause__ is None


def test_a_wrong_value_anywhere_is_refused_or_harmless():
    """Either way, and a decoded document has no number too large for a float."""
    count = 0
    for body in with_a_wrong_value():
        count += 1
        outcome = decoded_or_refused(body)
        if not isinstance(outcome, StatsError):
            assert "0" * 300 not in repr(outcome)
    assert count > 2000


@given(st.binary(max_size=400))
@example(b'{"workers":[{"cores":[{"vars":["\xff')
@settings(max_examples=300)
def test_any_bytes(body):
    decoded_or_refused(body)


@given(st.sampled_from(NAMES), st.data())
@settings(max_examples=150)
def test_damaged_documents(name, data):
    body = bytearray(document(name))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(body)))
        until = at + data.draw(st.integers(0, 8))
        body[at:until] = data.draw(st.binary(max_size=8) | st.sampled_from([b'"', b"\\", b"}", b"]", b"\xff", b"-"]))
    decoded_or_refused(bytes(body))


@pytest.mark.parametrize(
    "filling",
    [b"[", b'{"x":', b'"', b"\\", b"\xff", b"\x01", b"9", b" ", b'",\n', b'{"id":0},', b'{"cores":[{"vars":["a'],
)
def test_sixteen_megabytes_of_anything_come_to_an_end(filling):
    head = b'{"version":"2.0.31","workers":['
    decoded_or_refused(head + filling * ((16 * 2**20 - len(head)) // len(filling)))


@pytest.mark.parametrize("variable", [b"a" * 1000, b"\xff" * 1000, b"\x01" * 1000, b'\\"' * 500, b"\\\\" * 500])
def test_sixteen_megabytes_of_request_variables(variable):
    cores = b",".join([b'{"requests":1,"in_request":1,"vars":["' + variable + b'",""]}'] * 15_000)
    snapshot = stats.decode(b'{"workers":[{"pid":2,"accepting":1,"status":"busy","cores":[' + cores + b"]}]}")
    assert snapshot.workers[0].busy_threads == 15_000
