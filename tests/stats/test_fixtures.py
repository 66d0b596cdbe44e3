"""Every document captured from real uWSGI is decoded, and shows the case for which it was captured."""

import json
from itertools import count
from operator import attrgetter

import msgspec
import pytest

from tests.support.captured_documents import NAMES, document, kind, words_of_requests
from uwsgi_headroom import stats
from uwsgi_headroom.errors import StatsError
from uwsgi_headroom.routes import LONGEST_PATH, MOST_PATHS, OTHER, Shape, Templates
from uwsgi_headroom.stats import decoder
from uwsgi_headroom.stats.raw import Core, CoreWithVariables, RawDocument, RawWorker, RequestInfo
from uwsgi_headroom.stats.server import STATES

HOSTILE = [name for name in NAMES if name.startswith("hostile_")]
SERVERS = [name for name in NAMES if kind(name) == "server"]


def server(name):
    return stats.decode(document(name))


def everything_in(value):
    keys = set()
    rest = [msgspec.to_builtins(value)]
    while rest:
        node = rest.pop()
        if isinstance(node, dict):
            rest += [*node, *node.values()]
        elif isinstance(node, (list, tuple)):
            rest += node
        else:
            keys.add(str(node))
    return keys


@pytest.mark.parametrize("name", NAMES)
def test_every_document_decodes_to_its_kind(name):
    snapshot = stats.decode(document(name))
    assert snapshot.kind == kind(name)
    assert snapshot.version.startswith("2.0.")
    assert snapshot.pid > 1


@pytest.mark.parametrize("name", SERVERS)
def test_workers_are_numbered_by_their_place(name):
    workers = server(name).workers
    assert [worker.worker_id for worker in workers] == list(range(1, len(workers) + 1))
    assert {worker.state for worker in workers} <= set(STATES)


@pytest.mark.parametrize("name", SERVERS)
def test_threads_add_up(name):
    for worker in server(name).workers:
        if worker.threads is not None:
            assert worker.busy_threads is not None
            assert worker.busy_threads <= worker.threads
        if worker.pid is None:
            assert not worker.busy_threads
            assert not worker.available_threads
            assert not worker.accepting


HAS_PROCESS, NONE = True, False
WORKERS = {
    # Until the master reaps a killed worker, its thread is busy as written; cheap mode leaves the flag set.
    "killed_worker_ghost": [("busy", HAS_PROCESS, True, 1, 2, 0), ("idle", HAS_PROCESS, True, 0, 2, 0)],
    "cheap_mode_ghost": [("cheap", NONE, False, 0, 0, 0)] * 2,
    # A worker of pid 0 that uWSGI calls idle and accepting during a graceful reload.
    "full_reload_draining": [("gone", NONE, False, 0, 0, 10), ("busy", HAS_PROCESS, True, 1, 1, 10)],
    "cheaper_never_spawned": [("idle", HAS_PROCESS, True, 0, 2, 6)] * 2 + [("never_spawned", NONE, False, 0, 0, 0)] * 4,
    "cheaper_scaled_down": [
        ("cheap", NONE, False, 0, 0, 8),
        ("idle", HAS_PROCESS, True, 0, 1, 8),
        *[("never_spawned", NONE, False, 0, 0, 0)] * 2,
    ],
    "cheaper_leaving": [("cheap", HAS_PROCESS, False, 0, 0, 1), ("idle", HAS_PROCESS, True, 0, 1, 1)],
    "paused": [("pause", HAS_PROCESS, False, 0, 0, 3), ("pause", HAS_PROCESS, False, 0, 0, 2)],
    "worker_starting": [("starting", HAS_PROCESS, False, 0, 0, 0), ("idle", HAS_PROCESS, True, 0, 2, 0)],
    "signal_handled": [("signal", HAS_PROCESS, True, 0, 1, 0), ("idle", HAS_PROCESS, True, 0, 1, 1)],
    # With stats-no-cores, threads are unknown, not 0; requests are the worker's own.
    "no_cores": [("idle", HAS_PROCESS, True, None, None, 5)] * 2,
    # The request that harakiri ended is not among the worker's requests.
    "harakiri": [("idle", HAS_PROCESS, True, 0, 1, 0)] * 2,
}
"""Of each worker: its state, whether it has a process and accepts, busy and available threads, and requests."""


@pytest.mark.parametrize("name", WORKERS)
def test_workers_in_every_state(name):
    """A worker that does not accept has no available threads; one without a process keeps its counters."""
    assert [
        (each.state, bool(each.pid), each.accepting, each.busy_threads, each.available_threads, each.requests)
        for each in server(name).workers
    ] == WORKERS[name]


APPS = [("", 0, 0), ("/shop", 3, 0), ("/api", 2, 2)]
CACHES = [("sessions", 1, 1, 1, 100), ("pages", 0, 0, 0, 10)]
CUSTOM = [(0, 3), (1, -12), (1, 2**63 - 1)]
QUEUES = [("/run/uwsgi/app", None, None), ("127.0.0.1:58737", 4, 5)]
NODES = [("/run/uwsgi/1/app", 3, 708), ("/run/uwsgi/2/app", 3, 708)]
FIGURES = [
    ("apps_two_mountpoints", lambda of: of.workers[1].apps, "mountpoint requests exceptions", APPS),
    ("caches", lambda of: of.caches, "name hits misses items max_items", CACHES),
    # Slots in cheaper's reserve, all with id 0 in the document.
    ("cheaper_never_spawned", lambda of: of.workers[2:], "threads last_spawn respawns", [(2, None, 0)] * 4),
    # The negative numbers of a cron's schedule.
    ("crons", lambda of: of.crons[1:2], "minute hour week", [(-5, -2, 1)]),
    ("emperor", lambda of: of.vassals, "name accepting", [("good.ini", 1), ("broken.ini", 0)]),
    ("emperor", lambda of: of.blacklist, "name", ["broken.ini"]),
    # All counters are reset, under the same master.
    ("full_reload_before", lambda of: of.workers, "requests", [10, 10]),
    ("full_reload_after", lambda of: of.workers, "requests running_time respawns", [(0, 0.0, 1)] * 2),
    ("harakiri", lambda of: of.workers, "harakiris respawns", [(1, 2), (0, 1)]),
    ("legion_lord", lambda of: of.legions, "name valor", [("demo", 100)]),
    # Custom metrics of every kind, negative and huge ones too.
    (
        "metrics",
        lambda of: [of.custom_metrics[name] for name in ("orders.placed", "balance", "huge")],
        "kind value",
        CUSTOM,
    ),
    # Resident memory is known with memory-report, and None, not 0, without it.
    ("memory_report", lambda of: of.workers[:1], "resident_bytes", [12140544]),
    ("minified", lambda of: of.workers[:1], "resident_bytes", [None]),
    ("no_cores", lambda of: of.workers, "threads static_requests request_starts", [(None, None, ())] * 2),
    # For a UNIX socket, uWSGI's meaningless 0 of 0 is unknown.
    ("queue_filled", lambda of: of.sockets, "name queue limit", QUEUES),
    ("router_http_subscriptions", lambda of: of.subscriptions, "key hits", [("demo.test", 6)]),
    ("router_http_subscriptions", lambda of: of.subscriptions[0].nodes, "name requests rx", NODES),
    ("spoolers", lambda of: of.spoolers, "directory running", [("/srv/demo/mail", 1), ("/srv/demo/reports", 0)]),
    # Files that uWSGI serves itself are counted as requests, too.
    ("static_served", lambda of: of.workers, "requests static_requests running_time", [(8, 5, 0.060655)]),
    ("threads_4x8_busy", lambda of: of.workers, "threads busy_threads", [(8, 4), (8, 4), (8, 2), (8, 1)]),
    # A worker that still loads its application has none.
    ("worker_starting", lambda of: of.workers[:1], "apps", [()]),
]
"""Of parts of a document: its name, the parts, and their fields with the values."""


@pytest.mark.parametrize(("name", "parts", "fields", "values"), FIGURES)
def test_figures(name, parts, fields, values):
    assert list(map(attrgetter(*fields.split()), parts(server(name)))) == values


def test_other_figures():
    """Of locks, legions, crons and queues. uWSGI's ids are not those of the workers: all of the reserve have 0."""
    assert document("cheaper_never_spawned").count(b'"id":0,"pid":0') == 4
    assert '"in_request":1' in document("cheap_mode_ghost").decode()
    assert server("no_metrics").custom_metrics == {}
    assert server("full_reload_before").pid == server("full_reload_after").pid
    assert [cron.pid > 0 for cron in server("crons").crons] == [True, False, False, True, False, False, False]
    (legion,) = server("legion_lord").legions
    assert (len(legion.members), bool(legion.lord_since)) == (1, True)
    assert (server("locks_thunder").thunder_lock, server("minified").thunder_lock) == (True, False)
    assert {min(worker.request_starts) for worker in server("threads_4x8_busy").workers} == {1795249581}
    assert server("threads_4x8_busy").workers[0].running_time == 0.244394
    assert server("queue_filled").listen_queue == 4


@pytest.mark.parametrize("name", SERVERS)
def test_requests_and_errors_are_those_of_the_cores(name):
    """If uWSGI omits these, requests are the worker's own field, and errors are unknown."""
    text = document(name).decode("utf-8", "replace")
    raw = json.loads("".join(character if character >= " " else " " for character in text), strict=False)["workers"]
    for worker, written in zip(server(name).workers, raw, strict=True):
        cores = written.get("cores")
        assert worker.requests == (sum(core["requests"] for core in cores) if cores else written["requests"])
        assert worker.write_errors == (sum(core["write_errors"] for core in cores) if cores else None)
        assert worker.read_errors == (sum(core["read_errors"] for core in cores) if cores else None)


def test_a_socket_configured_twice_is_one():
    assert document("sockets_twice").count(b'"name":"twice.sock"') == 2
    assert [socket.name for socket in server("sockets_twice").sockets].count("twice.sock") == 1


def test_minified_is_the_same_document():
    body = document("minified")
    assert b"\n" not in body
    assert stats.decode(body) == stats.decode(json.dumps(json.loads(body), indent="\t").encode())
    # A trailing comma is repaired.
    body = document("router_both_invalid_json")
    with pytest.raises(json.JSONDecodeError):
        json.loads(body)
    assert stats.decode(body).kind == "router"


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_requests_do_not_blind(name):
    (worker,) = server(name).workers
    assert worker.threads == 8
    assert worker.busy_threads == (3 if name == "hostile_everything" else 1)


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_of_a_request_is_kept(name):
    words = words_of_requests(name)
    assert {"HTTP_HOST", "PATH_INFO", "REMOTE_ADDR"} <= words
    strings = everything_in(stats.decode(document(name)))
    assert not {(word, string) for word in words for string in strings if word in string}


def test_workers_are_frozen():
    worker = server("minified").workers[0]
    with pytest.raises(AttributeError):
        worker.requests = 3


SECRET = "hunter2swordfish"
EXPORT = Shape("POST", ("export",))


def with_variables(variables, busy=1):
    """A document with one thread whose request has this JSON text as its variables."""
    core = b'{"id":0,"requests":3,"in_request":%d,"vars":%b,"req_info":{"request_start":1795250000}}' % (
        busy,
        variables,
    )
    worker = b'{"id":1,"pid":8,"accepting":1,"respawn_count":1,"status":"busy","cores":[{"id":0},%b]}' % core
    return b'{"version":"2.0.31","pid":7,"workers":[%b]}' % worker


def listed(*variables):
    """Variables as uWSGI writes them, with an empty text at the end."""
    return b"[\n" + b",\n".join(json.dumps(text).encode() for text in (*variables, "")) + b"\n\t\t]"


def worker_of(body, *, routes=True):
    snapshot = stats.decode(body, Templates() if routes else None)
    return snapshot.workers[0]


def shape_of(variables):
    worker = worker_of(with_variables(variables))
    assert worker.serving.keys() == worker.shapes.keys() == {1}
    return worker.shapes[1]


POST, PATH, URI = "REQUEST_METHOD=POST", "PATH_INFO=/export", f"REQUEST_URI=/export?q={SECRET * 1000}"
# A client chooses the text of headers, and uWSGI escapes its quotation marks.
HEADERS = [
    *('HTTP_X="PATH_INFO=/faked"', 'HTTP_X=","PATH_INFO=/faked","', '"PATH_INFO=/faked', "HTTP_PATH_INFO=/faked"),
    *('HTTP_X=\\"PATH_INFO=/faked\\', "HTTP_X=PATH_INFO=/faked", 'HTTP_X=\n"PATH_INFO=/faked'),
]


@pytest.mark.parametrize(
    ("variables", "shape"),
    [
        (listed("QUERY_STRING=a=1", POST, "HTTP_HOST=x", PATH), EXPORT),
        (listed(PATH, POST), EXPORT),
        (listed(POST, "PATH_INFO="), Shape("POST", ())),
        # The URI counts only without a path, up to the question mark, however long the query is.
        (listed(POST, URI), EXPORT),
        (listed(POST, URI, "PATH_INFO=/login"), Shape("POST", ("login",))),
        (listed(POST, URI, "PATH_INFO=/a@b"), OTHER),
        (listed(POST, PATH, "PATH_INFO=/x", "REQUEST_METHOD=GET"), EXPORT),  # the first of a name counts
        *((listed(header, POST, PATH), EXPORT) for header in HEADERS),
        (listed('X="PATH_INFO=' * 5000, POST, PATH), OTHER),  # a client that sends thousands gains nothing
        # A request whose method or path is missing or unusual has no route, and the document is decoded.
        *((each, OTHER) for each in (b"[]", b'[""]', b"null", b"7", b'"PATH_INFO=/x"', b"[[[[1]]]]")),
        (listed(POST), OTHER),
        (listed(PATH), OTHER),
        (listed("REQUEST_METHOD=post", PATH), OTHER),
        (listed(POST, "PATH_INFO=/" + "a" * LONGEST_PATH), OTHER),
        *((listed(POST, f"PATH_INFO=/a{end}"), OTHER) for end in ('"b', "\u00e9", "\tb")),
    ],
    ids=count(),
)
def test_the_method_and_the_path_make_the_shape(variables, shape):
    assert shape_of(variables) == shape


def test_the_paths_of_one_document_are_bounded():
    """A document has no more different shapes than that, and a path that repeats counts once."""
    cores = [b'{"in_request":1,"vars":["REQUEST_METHOD=GET","PATH_INFO=/a/%d"]}' % (i // 2) for i in range(8000)]
    worker = worker_of(b'{"workers":[{"pid":8,"accepting":1,"status":"busy","cores":[%b]}]}' % b",".join(cores))
    shapes = list(worker.shapes.values())
    assert [shape == OTHER for shape in shapes] == [False] * 2 * MOST_PATHS + [True] * 2 * MOST_PATHS


@pytest.mark.parametrize("junk", [b"\xff\xfe\x80", b"\x01\x02\x1f", b"\\u0041\\t\\\\", b"\xed\xa0\x80\x01"])
def test_raw_bytes_of_clients_do_no_harm(junk):
    """Control characters and text that is not UTF-8, in another variable and in the path."""
    assert shape_of(b'["HTTP_X=%b","REQUEST_METHOD=POST","PATH_INFO=/export",""]' % junk) == EXPORT
    assert shape_of(b'["REQUEST_METHOD=POST","PATH_INFO=/%b",""]' % junk) == OTHER
    large = b'["HTTP_X=%b","REQUEST_METHOD=POST","PATH_INFO=/export",""]' % (junk * 400_000)
    assert shape_of(large) == EXPORT


def test_idle_threads_have_no_shape():
    worker = worker_of(with_variables(listed(POST, PATH), busy=0))
    assert (worker.serving, worker.shapes) == ({}, {})


def test_off_no_variable_is_decoded(monkeypatch):
    """Without routes, the types that are decoded have no field for variables, and the other decoder is not used."""
    monkeypatch.setattr(decoder, "_route_decoder", None)
    body = with_variables(listed(POST, PATH, f"HTTP_COOKIE={SECRET}"))
    assert worker_of(body, routes=False).shapes == {}
    parts = (RawDocument, RawWorker, Core, RequestInfo)
    fields = {field for part in parts for field in part.__struct_encode_fields__}
    assert {"workers", "cores", "in_request", "request_start"} <= fields
    assert "vars" not in fields
    assert "vars" in CoreWithVariables.__struct_encode_fields__


def test_on_only_the_shape_is_left():
    """Nothing else of the request is in the snapshot, nor in the error of a document that is refused."""
    variables = listed(POST, f"PATH_INFO=/reset/{SECRET * 3}", f"HTTP_COOKIE={SECRET}", "REMOTE_ADDR=1.2.3.4")
    body = with_variables(variables)
    snapshot = stats.decode(body, Templates())
    assert "reset" in repr(snapshot)
    assert SECRET not in repr(snapshot)
    assert "1.2.3.4" not in repr(snapshot)
    for broken in (body[:-3], body.replace(b'"requests":3', b'"requests":"x"'), body + b"x"):
        with pytest.raises(StatsError) as caught:
            stats.decode(broken, Templates())
        assert SECRET not in str(caught.value)
