"""Every document captured from real uWSGI is decoded, and shows the case for which it was captured."""

import json

import msgspec
import pytest

from tests.support.captured_documents import NAMES, document, kind, words_of_requests
from uwsgi_headroom import stats
from uwsgi_headroom.stats.server import STATES

HOSTILE = [name for name in NAMES if name.startswith("hostile_")]
SERVERS = [name for name in NAMES if kind(name) == "server"]


def server(name):
    return stats.decode(document(name))


def everything_in(value):
    """Every string of a snapshot, keys included, however deep."""
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
    """A captured document decodes to the kind in its name, with uWSGI's version and the master's pid."""
    snapshot = stats.decode(document(name))
    assert snapshot.kind == kind(name)
    assert snapshot.version.startswith("2.0.")
    assert snapshot.pid > 1


@pytest.mark.parametrize("name", SERVERS)
def test_workers_are_numbered_by_their_place(name):
    """Workers are numbered 1 to N in the order of the document, whatever ids uWSGI wrote."""
    workers = server(name).workers
    assert [worker.worker_id for worker in workers] == list(range(1, len(workers) + 1))
    assert {worker.state for worker in workers} <= set(STATES)


@pytest.mark.parametrize("name", SERVERS)
def test_threads_add_up(name):
    """A worker has at most as many busy threads as threads; without a process, none are busy or available."""
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


def test_other_figures_of_workers():
    """Slots in cheaper's reserve, all with id 0 in the document, have threads and no spawn; a worker that still loads
    its application has none; static requests are unknown without cores; a harakiri counts for its worker."""
    assert document("cheaper_never_spawned").count(b'"id":0,"pid":0') == 4
    assert '"in_request":1' in document("cheap_mode_ghost").decode()
    for slot in server("cheaper_never_spawned").workers[2:]:
        assert (slot.threads, slot.last_spawn, slot.respawns) == (2, None, 0)
    assert server("worker_starting").workers[0].apps == ()
    for worker in server("no_cores").workers:
        assert (worker.threads, worker.static_requests, worker.request_starts) == (None, None, ())
    assert [(worker.harakiris, worker.respawns) for worker in server("harakiri").workers] == [(1, 2), (0, 1)]
    assert server("no_metrics").custom_metrics == {}


@pytest.mark.parametrize("name", SERVERS)
def test_requests_and_errors_are_those_of_the_cores(name):
    """They are the sum over the worker's cores. If uWSGI omits these, requests are the worker's own field, and errors
    are unknown."""
    text = document(name).decode("utf-8", "replace")
    raw = json.loads("".join(character if character >= " " else " " for character in text), strict=False)["workers"]
    for worker, written in zip(server(name).workers, raw, strict=True):
        cores = written.get("cores")
        assert worker.requests == (sum(core["requests"] for core in cores) if cores else written["requests"])
        assert worker.write_errors == (sum(core["write_errors"] for core in cores) if cores else None)
        assert worker.read_errors == (sum(core["read_errors"] for core in cores) if cores else None)


def test_a_full_reload_resets_the_workers_counters():
    """After a full reload every counter is reset, under the same master."""
    before, after = server("full_reload_before"), server("full_reload_after")
    assert before.pid == after.pid
    assert [worker.requests for worker in before.workers] == [10, 10]
    assert [worker.requests for worker in after.workers] == [0, 0]
    assert [worker.running_time for worker in after.workers] == [0.0, 0.0]
    assert [worker.respawns for worker in after.workers] == [1, 1]


def test_custom_metrics():
    """Metrics of every kind keep their kind and value, negative and huge ones too."""
    metrics = server("metrics").custom_metrics
    values = {name: (metrics[name].kind, metrics[name].value) for name in ("orders.placed", "balance", "huge")}
    assert values == {"orders.placed": (0, 3), "balance": (1, -12), "huge": (1, 2**63 - 1)}


def test_static_requests_are_counted_apart():
    """Requests for files that uWSGI serves itself are also counted as static."""
    (worker,) = server("static_served").workers
    assert (worker.requests, worker.static_requests, worker.running_time) == (8, 5, 0.060655)


def test_two_mountpoints():
    """A worker has an application for each mountpoint, each with its own counters."""
    apps = server("apps_two_mountpoints").workers[1].apps
    assert [(app.mountpoint, app.requests, app.exceptions) for app in apps] == [
        ("", 0, 0),
        ("/shop", 3, 0),
        ("/api", 2, 2),
    ]


def test_caches():
    """A cache has its name, hits, misses and number of items."""
    sessions, pages = server("caches").caches
    assert (sessions.name, sessions.hits, sessions.misses, sessions.items, sessions.max_items) == (
        "sessions",
        1,
        1,
        1,
        100,
    )
    assert (pages.name, pages.items) == ("pages", 0)


def test_spoolers():
    """A spooler has its folder and whether it runs a task."""
    assert [(spooler.directory, spooler.running) for spooler in server("spoolers").spoolers] == [
        ("/srv/demo/mail", 1),
        ("/srv/demo/reports", 0),
    ]


def test_crons():
    """A cron's schedule keeps its negative numbers; a running cron has a process."""
    crons = server("crons").crons
    assert len(crons) == 7
    assert [cron.pid > 0 for cron in crons] == [True, False, False, True, False, False, False]
    assert (crons[1].minute, crons[1].hour, crons[1].week) == (-5, -2, 1)


def test_legion():
    """The lord of a legion has the time when it became the lord."""
    (legion,) = server("legion_lord").legions
    assert (legion.name, legion.valor, len(legion.members)) == ("demo", 100, 1)
    assert legion.lord_since


def test_thunder_lock():
    """thunder-lock is recognised by the lock of that name."""
    assert server("locks_thunder").thunder_lock is True
    assert server("minified").thunder_lock is False


def test_memory_report():
    """Resident memory is known with memory-report, and None, not 0, without it."""
    assert server("memory_report").workers[0].resident_bytes == 12140544
    assert server("minified").workers[0].resident_bytes is None


def test_threads_busy():
    """Four workers of eight threads have eleven requests in service, with the start of the oldest."""
    workers = server("threads_4x8_busy").workers
    assert [worker.threads for worker in workers] == [8] * 4
    assert [worker.busy_threads for worker in workers] == [4, 4, 2, 1]
    assert {min(worker.request_starts) for worker in workers} == {1795249581}
    assert workers[0].running_time == 0.244394


def test_queues():
    """A TCP socket has its queue and limit; for a UNIX socket uWSGI's meaningless 0 of 0 becomes None."""
    snapshot = server("queue_filled")
    assert [(socket.name, socket.queue, socket.limit) for socket in snapshot.sockets] == [
        ("/run/uwsgi/app", None, None),
        ("127.0.0.1:58737", 4, 5),
    ]
    assert snapshot.listen_queue == 4


def test_a_socket_configured_twice_is_one():
    """uWSGI lists it twice."""
    assert document("sockets_twice").count(b'"name":"twice.sock"') == 2
    assert [socket.name for socket in server("sockets_twice").sockets].count("twice.sock") == 1


def test_minified_is_the_same_document():
    body = document("minified")
    assert b"\n" not in body
    assert stats.decode(body) == stats.decode(json.dumps(json.loads(body), indent="\t").encode())


def test_emperor():
    """An emperor's snapshot has its vassals and those that it throttles."""
    snapshot = stats.decode(document("emperor"))
    assert [(vassal.name, vassal.accepting) for vassal in snapshot.vassals] == [("good.ini", 1), ("broken.ini", 0)]
    assert [vassal.name for vassal in snapshot.blacklist] == ["broken.ini"]


def test_router():
    """A router's snapshot has its subscribed keys and the nodes behind them."""
    snapshot = stats.decode(document("router_http_subscriptions"))
    (key,) = snapshot.subscriptions
    assert (key.key, key.hits) == ("demo.test", 6)
    assert [(node.name, node.requests, node.rx) for node in key.nodes] == [
        ("/run/uwsgi/1/app", 3, 708),
        ("/run/uwsgi/2/app", 3, 708),
    ]


def test_a_trailing_comma_is_repaired():
    """A router's document is decoded in spite of its trailing comma, which is not valid JSON."""
    body = document("router_both_invalid_json")
    with pytest.raises(json.JSONDecodeError):
        json.loads(body)
    assert stats.decode(body).kind == "router"


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_requests_do_not_blind(name):
    """Requests in service are counted, whatever bytes the clients sent."""
    (worker,) = server(name).workers
    assert worker.threads == 8
    assert worker.busy_threads == (3 if name == "hostile_everything" else 1)


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_of_a_request_is_kept(name):
    """A snapshot contains nothing of a request's path, headers or cookies."""
    words = words_of_requests(name)
    assert {"HTTP_HOST", "PATH_INFO", "REMOTE_ADDR"} <= words
    strings = everything_in(stats.decode(document(name)))
    assert not {(word, string) for word in words for string in strings if word in string}


def test_workers_are_frozen():
    """A snapshot cannot be changed."""
    worker = server("minified").workers[0]
    with pytest.raises(AttributeError):
        worker.requests = 3
