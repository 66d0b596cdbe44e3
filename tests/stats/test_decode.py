"""Anything but a document of uWSGI raises StatsError, with a reason and no quotation of the document."""

import json
import sys

import pytest

from tests.support.captured_documents import NAMES, document, with_a_wrong_value
from uwsgi_headroom import stats
from uwsgi_headroom.config.defaults import SIZE_CAP
from uwsgi_headroom.errors import StatsError
from uwsgi_headroom.stats import EmperorSnapshot, RouterSnapshot, Snapshot
from uwsgi_headroom.stats.bounds import LOCKS_BYTES, MOST, QUOTES

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
    """For its depth; from Python 3.14 on, as any other document if the stack is large enough."""
    assert refusal(body).reason in (("not_json", reason) if sys.version_info >= (3, 14) else ("not_json",))


def test_a_cron_without_a_schedule_runs_at_any_time():
    """Where a field is missing, any value fits, as where uWSGI writes -1; and the command does not run."""
    snapshot = stats.decode(server(crons=[{"command": "x"}]))
    (cron,) = snapshot.crons
    assert (cron.minute, cron.hour, cron.day, cron.month, cron.week, cron.pid, cron.started_at) == (*(-1,) * 6, 0)


def test_the_error_names_its_causes():
    assert "http://" in str(refusal(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
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
    error = refusal((body % value).encode())
    assert error.reason == "not_uwsgi"
    assert path in str(error)
    assert str(value) not in str(error)


@pytest.mark.parametrize("value", [2**63, 2**64 - 1, 2**64 - 60_000_000])
def test_wrapped_running_time_is_absent(value):
    snapshot = stats.decode(worker(running_time=value, requests=3))
    assert (snapshot.workers[0].running_time, snapshot.workers[0].requests) == (None, 3)


def test_missing_keys_are_unknown():
    snapshot = stats.decode(b'{"workers":[{}]}')
    (found,) = snapshot.workers
    names = "pid threads busy_threads requests static_requests running_time exceptions harakiris respawns signals"
    names += " transmitted_bytes resident_bytes last_spawn"
    assert {getattr(found, name) for name in names.split()} == {None}
    assert (snapshot.listen_queue, snapshot.signal_queue, snapshot.locks, snapshot.thunder_lock) == (None,) * 4
    # Unknown keys are skipped.
    later = {"later": [{"a": [1.5, None, True, {}]}]}
    assert stats.decode(worker(uss=1, pss=2.5, requests=3, **later)).workers[0].requests == 3


def test_threads_are_numbered_from_0():
    """A busy thread has the number in uWSGI's log ("core 3"): its position among the cores, from 0."""
    raw = json.loads(document("threads_4x8_busy"))["workers"]
    busy = [{place for place, core in enumerate(worker["cores"]) if core["in_request"]} for worker in raw]
    snapshot = stats.decode(document("threads_4x8_busy"))
    assert [set(worker.serving or ()) for worker in snapshot.workers] == busy
    assert any(busy)
    # The oldest request is that of a busy thread.
    requests = [(0, {"request_start": 5}), (1, {}), (1, {"request_start": 9})]
    cores = [{"in_request": busy, "req_info": info} for busy, info in requests]
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
    count = 0
    for body in with_a_wrong_value():
        count += 1
        outcome = decoded_or_refused(body)
        if not isinstance(outcome, StatsError):
            assert "0" * 300 not in repr(outcome)
    assert count > 2000


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


BOUNDED_SECRET = "hunter2"


def emperor(**keys):
    return json.dumps({"version": "2.0.31", "vassals": [], **keys}).encode()


def router(**keys):
    return json.dumps({"version": "2.0.31", "active_sessions": 0, **keys}).encode()


def some(count, **keys):
    return [dict(keys) for _ in range(count)]


PARTS = {
    "workers": lambda count: server(workers=some(count)),
    "cores": lambda count: server(workers=[{"cores": some(count - count // 2)}, {"cores": some(count // 2)}]),
    "applications of one worker": lambda count: server(workers=[{"apps": some(9)}, {"apps": some(count)}]),
    "applications": lambda count: server(
        workers=[{"apps": some(128)} for _ in range(count // 128)] + [{"apps": some(count % 128)}]
    ),
    "sockets": lambda count: server(sockets=some(count, name=BOUNDED_SECRET)),
    "caches": lambda count: server(caches=some(count, name=BOUNDED_SECRET)),
    "spoolers": lambda count: server(spoolers=some(count, dir=BOUNDED_SECRET)),
    "crons": lambda count: server(crons=some(count, command=BOUNDED_SECRET)),
    "legions": lambda count: server(legions=some(count, legion=BOUNDED_SECRET)),
    "members of legions": lambda count: server(legions=[{"members": some(1)}, {"members": some(count - 1)}]),
    "locks": lambda count: server(locks=[{f"{BOUNDED_SECRET} {number}": 0} for number in range(count)]),
    "metrics": lambda count: server(metrics={f"worker.1.{number}": {} for number in range(count)}),
    "custom metrics": lambda count: server(metrics={f"{BOUNDED_SECRET}.{number}": {} for number in range(count)}),
    "vassals": lambda count: emperor(vassals=some(count, id=BOUNDED_SECRET)),
    "blacklisted vassals": lambda count: emperor(blacklist=some(count, id=BOUNDED_SECRET)),
    "subscriptions": lambda count: router(subscriptions=some(count, key=BOUNDED_SECRET)),
    "nodes": lambda count: router(subscriptions=[{"nodes": some(1)}, {"nodes": some(count - 1)}]),
    "static nodes": lambda count: router(static_nodes=some(count, name=BOUNDED_SECRET)),
}


@pytest.mark.parametrize("part", MOST)
def test_as_many_as_may_be_are_read_and_one_more_is_refused(part):
    """Parts of an earlier document do not count; the message has the bound and quotes nothing of the document."""
    for _ in range(2):
        assert isinstance(stats.decode(PARTS[part](MOST[part])), (Snapshot, EmperorSnapshot, RouterSnapshot))
    error = refusal(PARTS[part](MOST[part] + 1))
    assert error.reason == "too_large"
    assert f"more than {MOST[part]:,} {part}" in str(error)
    assert BOUNDED_SECRET not in str(error)


def test_parts_listed_under_a_key_twice_are_counted_together():
    half = json.dumps(some(MOST["caches"] // 2 + 1))
    assert refusal(f'{{"workers":[],"caches":{half},"caches":{half}}}'.encode()).reason == "too_large"
    # A document that needs repair is counted once: a control character in a request does not hide the server.
    caches = json.dumps(some(MOST["caches"])).encode()
    body = b'{"caches":' + caches + b',"workers":[{"cores":[{"vars":["A=\x01"]}]}]}'
    assert isinstance(stats.decode(body), Snapshot)


@pytest.mark.parametrize("name", [255, 256])
@pytest.mark.parametrize(
    "make",
    [
        lambda name: server(caches=[{"name": name}]),
        lambda name: server(sockets=[{"name": name}]),
        lambda name: server(workers=[{"apps": [{"mountpoint": name}]}]),
        lambda name: server(version=name),
        lambda name: server(metrics={name: {}}),
        lambda name: server(legions=[{"legion": name}]),
        lambda name: emperor(vassals=[{"id": name}], blacklist=[{"id": name}]),
        lambda name: router(subscriptions=[{"key": name, "nodes": [{"name": name}]}]),
        lambda name: router(static_nodes=[{"name": name}]),
    ],
)
def test_names_have_a_length(make, name):
    read = str(stats.decode(make("é" * name)))
    assert ("é" * 255 in read) == (name == 255)
    assert "é" * 256 not in read


def test_what_was_cut_is_counted_by_document():
    long = "x" * 9000
    locks = [{long: 0}, {"thunder": 7}]
    cut = stats.decode(server(version=long, caches=[{"name": long}, {"name": "a"}], locks=locks, metrics={long: {}}))
    assert (cut.cut_texts, cut.locks, cut.custom_metrics) == (4, {"thunder": 7}, {})
    assert [len(cache.name) for cache in cut.caches] == [255, 1]
    following = stats.decode(server())
    assert isinstance(following, Snapshot)
    assert following.cut_texts == 0
    # Paths may be longer.
    whole = stats.decode(server(spoolers=[{"dir": "d" * 4096}], crons=[{"command": "c" * 4096}]))
    longer = stats.decode(server(spoolers=[{"dir": "d" * 4097}], crons=[{"command": "c" * 4097}]))
    assert (whole.spoolers[0].directory, whole.crons[0].command, whole.cut_texts) == ("d" * 4096, "c" * 4096, 0)
    assert (longer.spoolers[0].directory, longer.crons[0].command) == ("d" * 4095 + "…", "c" * 4095 + "…")
    assert longer.cut_texts == 2


def test_locks_are_measured_before_they_are_built():
    error = refusal(server(locks=[{}] * LOCKS_BYTES))
    assert error.reason == "too_large"
    assert "locks" in str(error)


@pytest.mark.parametrize("locks", [3, [3], [{"a": "b"}], {"a": 1}])
def test_locks_of_another_type_are_not_uwsgis(locks):
    assert refusal(server(locks=locks)).reason == "not_uwsgi"


@pytest.mark.parametrize("pids", [(9, 0), (0, 9), (0, 0), (8, 9)])
def test_locks_of_one_name_have_one_holder(pids):
    """Locks of one name, as of spoolers of one directory, are held if any is; the first holder counts."""
    snapshot = stats.decode(server(locks=[{"spooler on /s": pids[0]}, {"user 0": 5}, {"spooler on /s": pids[1]}]))
    assert snapshot.locks == {"spooler on /s": pids[0] or pids[1], "user 0": 5}


def test_locks_that_are_not_there():
    for body in (server(), server(locks=None)):
        assert stats.decode(body).locks is None


def test_uwsgis_own_metrics_are_many():
    own = {f"worker.{worker}.core.{core}.m{key}": {} for worker in range(64) for core in range(64) for key in range(7)}
    snapshot = stats.decode(server(metrics={**own, "shop.orders": {"value": 3}}))
    assert snapshot.custom_metrics["shop.orders"].value == 3
    assert len(snapshot.custom_metrics) < MOST["custom metrics"]


def as_uwsgi_writes(workers, cores, variables, busy):
    """A document as uWSGI prints it, with tabs; each core has `variables` bytes of request variables."""
    request = [f"HTTP_X_{number}={'v' * (variables // 20 - 9)}" for number in range(20)] + [""] if busy else []
    info = {"request_start": 1_700_000_000} if busy else {}
    keys = ("id", "requests", "static_requests", "routed_requests", "offloaded_requests", "write_errors", "read_errors")
    core = {**dict.fromkeys(keys, 1), "in_request": int(busy), "vars": request, "req_info": info}
    names = ("requests", "delta_requests", "exceptions", "harakiri_count", "signals", "rss", "vsz", "tx", "avg_rt")
    worker = {
        **dict.fromkeys(names, 5), "id": 1, "pid": 8, "accepting": 1, "status": "busy" if busy else "idle",
        "running_time": 99, "last_spawn": 1, "respawn_count": 1, "apps": [], "cores": [core] * cores,
    }  # fmt: skip
    return json.dumps({"version": "2.0.31", "pid": 7, "workers": [worker] * workers}, indent="\t").encode()


@pytest.mark.parametrize(
    ("workers", "cores", "variables"), [(64, 64, 0), (64, 16, 4096), (1024, 1, 4096), (64, 64, 1024), (64, 256, 0)]
)
def test_large_servers_are_read(workers, cores, variables):
    body = as_uwsgi_writes(workers, cores, variables, busy=variables > 0)
    assert len(body) <= SIZE_CAP
    snapshot = stats.decode(body)
    assert sum(worker.threads or 0 for worker in snapshot.workers) == workers * cores
    assert sum(worker.busy_threads or 0 for worker in snapshot.workers) == (workers * cores if variables else 0)


def test_many_names_are_refused():
    body = b'{"workers":[]' + b',"x":0' * (QUOTES // 2) + b" " * 2**20 + b"}"
    with pytest.raises(StatsError, match="more than 500,000 quotation marks") as caught:
        stats.decode(body)
    assert caught.value.reason == "too_large"
    assert isinstance(stats.decode(body.replace(b',"x":0', b"", 2)), Snapshot)


def test_quotes_in_request_variables_are_not_counted():
    core = b'{"requests":1,"in_request":1,"vars":["A=' + rb"\"" * 2000 + b'",""],"req_info":{}}'
    body = b'{"workers":[{"pid":2,"accepting":1,"cores":[' + b",".join([core] * 1024) + b"]}]}"
    assert body.count(b'"') > QUOTES
    assert stats.decode(body).workers[0].busy_threads == 1024


@pytest.mark.parametrize("variable", [b"{" * 4000, b"{}," * 1300, b'{\\"name\\":0},' * 300, b"\x01{}" * 1300])
def test_braces_in_request_variables_are_not_counted(variable):
    core = b'{"requests":1,"in_request":1,"vars":["A=' + variable + b'",""],"req_info":{}}'
    body = b'{"workers":[{"pid":2,"accepting":1,"cores":[' + b",".join([core] * 1024) + b"]}]}"
    assert stats.decode(body).workers[0].busy_threads == 1024


@pytest.mark.parametrize("escape", [r"\ud800", r"\uDFFF", r"\ud83d\ud83d", r"\\\ud800"])
def test_half_a_surrogate_pair_is_replaced(escape):
    snapshot = stats.decode(b'{"workers":[],"caches":[{"name":"a' + escape.encode() + b'b"}]}')
    assert "\ufffd" in snapshot.caches[0].name
    assert (snapshot.caches[0].name[0], snapshot.caches[0].name[-1]) == ("a", "b")


def test_other_escapes_stay_beside_half_a_surrogate_pair():
    snapshot = stats.decode(rb'{"workers":[],"caches":[{"name":"\ud83e\udd84 \\ud800 \ud800 \u00e9"}]}')
    assert snapshot.caches[0].name == "\U0001f984 \\ud800 \ufffd é"


def test_negative_counts_and_dates_are_unknown():
    legion = {"valor": -1, "quorum": -1, "i_am_the_lord": -1}
    worker = {"pid": 1, "accepting": 1, "cores": [{"in_request": 1, "req_info": {"request_start": -9}}]}
    parts = {"spoolers": [{"running": -1}], "crons": [{"started_at": -1}], "legions": [legion], "workers": [worker]}
    snapshot = stats.decode(server(signal_queue=-5, **parts))
    assert (snapshot.signal_queue, snapshot.spoolers[0].running, snapshot.crons[0].started_at) == (None, None, 0)
    legion = snapshot.legions[0]
    assert (legion.valor, legion.quorum, legion.lord_since) == (None,) * 3
    assert snapshot.workers[0].serving == {0: None}
    # So are those of emperors and routers.
    keys = ("born", "last_heartbeat", "loyal", "ready", "accepting", "cursed", "respawns")
    snapshot = stats.decode(emperor(vassals=[dict.fromkeys(keys, -1)], blacklist=[{"attempt": -1}]))
    assert {getattr(snapshot.vassals[0], key) for key in keys} == {snapshot.blacklist[0].attempt} == {None}
    node = dict.fromkeys(("requests", "tx", "rx", "load", "weight", "failcnt", "death_mark"), -1)
    snapshot = stats.decode(
        router(subscriptions=[{"hits": -1, "nodes": [node]}], static_nodes=[{"name": "a", "hits": -1}])
    )
    (key,) = snapshot.subscriptions
    (read,) = key.nodes
    assert {key.hits, snapshot.static_nodes[0].hits, read.requests, read.tx, read.rx, read.load, read.weight} == {None}
    assert {read.failures, read.death_mark} == {None}


@pytest.mark.parametrize(
    ("keys", "lacks"),
    [
        ({}, False),  # it passes requests to the sockets of its own uWSGI
        ({"subscriptions": []}, True),
        ({"subscriptions": [{"key": "a", "nodes": [{"death_mark": 1}, {"death_mark": 0}]}]}, False),
        ({"subscriptions": [{"key": "a", "nodes": [{"death_mark": 1}]}]}, True),
        ({"static_nodes": [{"name": "a", "grace": 1_700_000_000}, {"name": "b", "grace": 0}]}, False),
        ({"static_nodes": [{"name": "a", "grace": 1_700_000_000}]}, True),
    ],
)
def test_a_router_without_a_living_node(keys, lacks):
    assert stats.decode(router(**keys)).lacks_nodes == lacks


def test_a_large_document_is_repaired_too():
    core = b'{"requests":1,"in_request":1,"vars":["A=' + b"\x01\xff" * 2000 + b'",""],"req_info":{}}'
    cores = b",".join([core] * 512)
    body = b'{"sockets":[{"name":"\\0app"}],"workers":[{"pid":2,"accepting":1,"cores":[' + cores + b"]}]}"
    assert len(body) > 2**20
    snapshot = stats.decode(body)
    assert snapshot.sockets[0].name == "@app"
    assert snapshot.workers[0].busy_threads == 512
