"""Each part of a document is bounded, and no realistic document of uWSGI is over a bound."""

import json

import pytest

from tests.stats.test_decode import refusal, server
from uwsgi_headroom import stats
from uwsgi_headroom.config.defaults import SIZE_CAP
from uwsgi_headroom.errors import StatsError
from uwsgi_headroom.stats import EmperorSnapshot, RouterSnapshot, Snapshot
from uwsgi_headroom.stats.bounds import LOCKS_BYTES, MOST, QUOTES

SECRET = "hunter2"


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
    "sockets": lambda count: server(sockets=some(count, name=SECRET)),
    "caches": lambda count: server(caches=some(count, name=SECRET)),
    "spoolers": lambda count: server(spoolers=some(count, dir=SECRET)),
    "crons": lambda count: server(crons=some(count, command=SECRET)),
    "legions": lambda count: server(legions=some(count, legion=SECRET)),
    "members of legions": lambda count: server(legions=[{"members": some(1)}, {"members": some(count - 1)}]),
    "locks": lambda count: server(locks=[{f"{SECRET} {number}": 0} for number in range(count)]),
    "metrics": lambda count: server(metrics={f"worker.1.{number}": {} for number in range(count)}),
    "custom metrics": lambda count: server(metrics={f"{SECRET}.{number}": {} for number in range(count)}),
    "vassals": lambda count: emperor(vassals=some(count, id=SECRET)),
    "blacklisted vassals": lambda count: emperor(blacklist=some(count, id=SECRET)),
    "subscriptions": lambda count: router(subscriptions=some(count, key=SECRET)),
    "nodes": lambda count: router(subscriptions=[{"nodes": some(1)}, {"nodes": some(count - 1)}]),
    "static nodes": lambda count: router(static_nodes=some(count, name=SECRET)),
}


def test_every_bound_is_tested():
    assert PARTS.keys() == MOST.keys()


@pytest.mark.parametrize("part", PARTS)
def test_as_many_as_may_be_are_read(part):
    """A document with exactly as many of a part as its bound is read; parts of an earlier document do not count."""
    for _ in range(2):
        assert isinstance(stats.decode(PARTS[part](MOST[part])), (Snapshot, EmperorSnapshot, RouterSnapshot))


@pytest.mark.parametrize("part", PARTS)
def test_one_more_is_refused(part):
    """A document with one part more is refused; the message has the bound and quotes nothing of the document."""
    error = refusal(PARTS[part](MOST[part] + 1))
    assert error.reason == "too_large"
    assert f"more than {MOST[part]:,} {part}" in str(error)
    assert SECRET not in str(error)


def test_parts_listed_under_a_key_twice_are_counted_together():
    half = json.dumps(some(MOST["caches"] // 2 + 1))
    assert refusal(f'{{"workers":[],"caches":{half},"caches":{half}}}'.encode()).reason == "too_large"


def test_a_document_that_needs_repair_is_counted_once():
    """Parts counted before a repair do not count twice: a control character in a request does not hide the server."""
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
        lambda name: server(legions=[{"legion": name, "members": [{"name": name}]}]),
        lambda name: emperor(vassals=[{"id": name}], blacklist=[{"id": name}]),
        lambda name: router(subscriptions=[{"key": name, "nodes": [{"name": name}]}]),
        lambda name: router(static_nodes=[{"name": name}]),
    ],
)
def test_names_have_a_length(make, name):
    """A name of 255 characters is read; a longer one is cut, or left out, and costs no other field."""
    read = str(stats.decode(make("é" * name)))
    assert ("é" * 255 in read) == (name == 255)
    assert "é" * 256 not in read


def test_paths_may_be_longer():
    """A spooler's directory and a cron's command may be as long as a path."""
    whole = stats.decode(server(spoolers=[{"dir": "d" * 4096}], crons=[{"command": "c" * 4096}]))
    longer = stats.decode(server(spoolers=[{"dir": "d" * 4097}], crons=[{"command": "c" * 4097}]))
    assert (whole.spoolers[0].directory, whole.crons[0].command, whole.cut_texts) == ("d" * 4096, "c" * 4096, 0)
    assert (longer.spoolers[0].directory, longer.crons[0].command) == ("d" * 4095 + "…", "c" * 4095 + "…")
    assert longer.cut_texts == 2


def test_what_was_cut_is_counted_by_document():
    """Texts of all parts count, also those that are left out; the next document begins anew."""
    long = "x" * 9000
    locks = [{long: 0}, {"thunder": 7}]
    cut = stats.decode(server(version=long, caches=[{"name": long}, {"name": "a"}], locks=locks, metrics={long: {}}))
    assert (cut.cut_texts, cut.locks, cut.custom_metrics) == (4, {"thunder": 7}, {})
    assert [len(cache.name) for cache in cut.caches] == [255, 1]
    following = stats.decode(server())
    assert isinstance(following, Snapshot)
    assert following.cut_texts == 0


def test_locks_are_measured_before_they_are_built():
    """A list of locks longer than 1,024 locks can be is refused by its size in bytes."""
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
    """64 workers of 64 threads have 29,248 of uWSGI's own metrics, and may have custom metrics as well."""
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
    """64 x 64 threads, or 1,024 busy ones with as many request variables as `buffer-size` allows, are within bounds."""
    body = as_uwsgi_writes(workers, cores, variables, busy=variables > 0)
    assert len(body) <= SIZE_CAP
    snapshot = stats.decode(body)
    assert sum(worker.threads or 0 for worker in snapshot.workers) == workers * cores
    assert sum(worker.busy_threads or 0 for worker in snapshot.workers) == (workers * cores if variables else 0)


def test_many_names_are_refused():
    """A large document with very many names would take long to decode: it is refused before that."""
    body = b'{"workers":[]' + b',"x":0' * (QUOTES // 2) + b" " * 2**20 + b"}"
    with pytest.raises(StatsError, match="more than 500,000 quotation marks") as caught:
        stats.decode(body)
    assert caught.value.reason == "too_large"
    assert isinstance(stats.decode(body.replace(b',"x":0', b"", 2)), Snapshot)


def test_quotes_in_request_variables_are_not_counted():
    """Quotation marks that a client sends do not count, so the client cannot blind the exporter."""
    core = b'{"requests":1,"in_request":1,"vars":["A=' + rb"\"" * 2000 + b'",""],"req_info":{}}'
    body = b'{"workers":[{"pid":2,"accepting":1,"cores":[' + b",".join([core] * 1024) + b"]}]}"
    assert body.count(b'"') > QUOTES
    assert stats.decode(body).workers[0].busy_threads == 1024


@pytest.mark.parametrize("variable", [b"{" * 4000, b"{}," * 1300, b'{\\"name\\":0},' * 300, b"\x01{}" * 1300])
def test_braces_in_request_variables_are_not_counted(variable):
    """Text of a client that resembles parts of a document does not count towards their bounds."""
    core = b'{"requests":1,"in_request":1,"vars":["A=' + variable + b'",""],"req_info":{}}'
    body = b'{"workers":[{"pid":2,"accepting":1,"cores":[' + b",".join([core] * 1024) + b"]}]}"
    assert stats.decode(body).workers[0].busy_threads == 1024


@pytest.mark.parametrize("escape", [r"\ud800", r"\uDFFF", r"\ud83d\ud83d", r"\\\ud800"])
def test_half_a_surrogate_pair_is_replaced(escape):
    snapshot = stats.decode(b'{"workers":[],"caches":[{"name":"a' + escape.encode() + b'b"}]}')
    assert "\ufffd" in snapshot.caches[0].name
    assert (snapshot.caches[0].name[0], snapshot.caches[0].name[-1]) == ("a", "b")


def test_other_escapes_stay_beside_half_a_surrogate_pair():
    """Complete pairs, and escaped backslashes before a u, are left alone."""
    snapshot = stats.decode(rb'{"workers":[],"caches":[{"name":"\ud83e\udd84 \\ud800 \ud800 \u00e9"}]}')
    assert snapshot.caches[0].name == "\U0001f984 \\ud800 \ufffd é"


def test_negative_counts_and_dates_of_a_server_are_unknown():
    """A negative count, date or length is unknown, and the rest of the document is read."""
    snapshot = stats.decode(
        server(
            signal_queue=-5,
            spoolers=[{"running": -1}],
            crons=[{"started_at": -1}],
            legions=[{"valor": -1, "quorum": -1, "i_am_the_lord": -1, "members": [{"last_seen": -1}]}],
            workers=[{"pid": 1, "accepting": 1, "cores": [{"in_request": 1, "req_info": {"request_start": -9}}]}],
        )
    )
    assert (snapshot.signal_queue, snapshot.spoolers[0].running, snapshot.crons[0].started_at) == (None, None, 0)
    legion = snapshot.legions[0]
    assert (legion.valor, legion.quorum, legion.lord_since, legion.members[0].last_seen) == (None,) * 4
    assert snapshot.workers[0].serving == {0: None}


def test_negative_counts_and_dates_of_emperors_and_routers_are_unknown():
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
    """Beyond a megabyte, control bytes in requests and the names of abstract sockets are still repaired."""
    core = b'{"requests":1,"in_request":1,"vars":["A=' + b"\x01\xff" * 2000 + b'",""],"req_info":{}}'
    cores = b",".join([core] * 512)
    body = b'{"sockets":[{"name":"\\0app"}],"workers":[{"pid":2,"accepting":1,"cores":[' + cores + b"]}]}"
    assert len(body) > 2**20
    snapshot = stats.decode(body)
    assert snapshot.sockets[0].name == "@app"
    assert snapshot.workers[0].busy_threads == 512
