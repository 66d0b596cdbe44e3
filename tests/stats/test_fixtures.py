"""Every document captured from real uWSGI is decoded, and shows the case for which it was captured."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tests.support.captured_documents import NAMES, document, kind, words_of_requests
from uwsgi_headroom import stats
from uwsgi_headroom.stats import EmperorSnapshot, RouterSnapshot, Snapshot
from uwsgi_headroom.stats.server import STATES, Worker

HOSTILE = [name for name in NAMES if name.startswith("hostile_")]
SERVERS = [name for name in NAMES if kind(name) == "server"]


def server(name: str) -> Snapshot:
    snapshot = stats.decode(document(name))
    assert isinstance(snapshot, Snapshot)
    return snapshot


def states(name: str) -> list[str]:
    return [worker.state for worker in server(name).workers]


def everything_in(value: object) -> set[str]:
    """Every string of a snapshot, keys included, however deep."""
    keys: set[str] = set()
    rest: list[Any] = [msgspec.to_builtins(value)]
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
def test_every_document_decodes_to_its_kind(name: str) -> None:
    """A captured document decodes to the kind in its name, with uWSGI's version and the master's pid."""
    snapshot = stats.decode(document(name))
    assert snapshot.kind == kind(name)
    assert snapshot.version.startswith("2.0.")
    assert snapshot.pid > 1


@pytest.mark.parametrize("name", SERVERS)
def test_workers_are_numbered_by_their_place(name: str) -> None:
    """Workers are numbered 1 to N in the order of the document, whatever ids uWSGI wrote."""
    workers = server(name).workers
    assert [worker.worker_id for worker in workers] == list(range(1, len(workers) + 1))
    assert {worker.state for worker in workers} <= set(STATES)


@pytest.mark.parametrize("name", SERVERS)
def test_threads_add_up(name: str) -> None:
    """A worker has at most as many busy threads as threads; without a process, none are busy or available."""
    for worker in server(name).workers:
        if worker.threads is not None:
            assert worker.busy_threads is not None
            assert worker.busy_threads <= worker.threads
        if worker.pid is None:
            assert not worker.busy_threads
            assert not worker.available_threads
            assert not worker.accepting


@pytest.mark.parametrize("name", SERVERS)
def test_requests_are_those_of_the_cores(name: str) -> None:
    """Requests are the sum over the worker's cores, or the worker's own field if uWSGI omits the cores."""
    text = document(name).decode("utf-8", "replace")
    raw = json.loads("".join(character if character >= " " else " " for character in text), strict=False)["workers"]
    for worker, written in zip(server(name).workers, raw, strict=True):
        cores = written.get("cores")
        assert worker.requests == (sum(core["requests"] for core in cores) if cores else written["requests"])


@pytest.mark.parametrize("name", SERVERS)
def test_errors_are_those_of_the_cores(name: str) -> None:
    """Write and read errors are the sum over the worker's cores, and unknown if uWSGI omits the cores."""
    text = document(name).decode("utf-8", "replace")
    raw = json.loads("".join(character if character >= " " else " " for character in text), strict=False)["workers"]
    for worker, written in zip(server(name).workers, raw, strict=True):
        cores = written.get("cores")
        assert worker.write_errors == (sum(core["write_errors"] for core in cores) if cores else None)
        assert worker.read_errors == (sum(core["read_errors"] for core in cores) if cores else None)


def test_a_killed_worker_before_uwsgi_reaps_it_counts_as_uwsgi_says() -> None:
    """Until the master reaps a killed worker, the document does not show its death: its thread is busy as written."""
    ghost, other = server("killed_worker_ghost").workers
    assert (ghost.state, ghost.busy_threads, ghost.requests) == ("busy", 1, 0)
    assert (other.state, other.busy_threads) == ("idle", 0)


def test_a_worker_killed_by_cheap_mode_is_not_busy() -> None:
    """In cheap mode, the flag of a worker that was killed in a request stays set; the worker has no busy thread."""
    assert '"in_request":1' in document("cheap_mode_ghost").decode()
    for worker in server("cheap_mode_ghost").workers:
        assert (worker.state, worker.pid, worker.busy_threads, worker.available_threads) == ("cheap", None, 0, 0)


def test_a_drained_worker_is_gone() -> None:
    """A worker of pid 0 that uWSGI calls idle and accepting during a graceful reload is gone and takes no requests."""
    gone, last = server("full_reload_draining").workers
    assert (gone.state, gone.pid, gone.accepting, gone.available_threads) == ("gone", None, False, 0)
    assert (last.state, last.busy_threads, last.available_threads) == ("busy", 1, 1)


def test_a_full_reload_resets_the_workers_counters() -> None:
    """After a full reload every counter is reset, under the same master."""
    before, after = server("full_reload_before"), server("full_reload_after")
    assert before.pid == after.pid
    assert [worker.requests for worker in before.workers] == [10, 10]
    assert [worker.requests for worker in after.workers] == [0, 0]
    assert [worker.running_time for worker in after.workers] == [0.0, 0.0]
    assert [worker.respawns for worker in after.workers] == [1, 1]


def test_slots_never_spawned() -> None:
    """Slots in cheaper's reserve, all with id 0, have worker ids of their own, the configured threads and no spawn."""
    assert document("cheaper_never_spawned").count(b'"id":0,"pid":0') == 4
    snapshot = server("cheaper_never_spawned")
    assert states("cheaper_never_spawned") == ["idle", "idle"] + ["never_spawned"] * 4
    for worker in snapshot.workers[2:]:
        assert (worker.threads, worker.available_threads, worker.last_spawn, worker.respawns) == (2, 0, None, 0)


def test_slots_scaled_down() -> None:
    """A worker that cheaper ended is cheap, keeps its counters and has no available threads."""
    assert states("cheaper_scaled_down") == ["cheap", "idle", "never_spawned", "never_spawned"]
    cheap = server("cheaper_scaled_down").workers[0]
    assert (cheap.pid, cheap.requests, cheap.available_threads) == (None, 8, 0)


def test_a_worker_that_cheaper_sends_away() -> None:
    """A worker that is already cheap but still has a process takes no new requests."""
    leaving, stays = server("cheaper_leaving").workers
    assert leaving.pid
    assert (leaving.state, leaving.accepting, leaving.available_threads) == ("cheap", False, 0)
    assert (stays.state, stays.accepting, stays.available_threads) == ("idle", True, 1)


def test_a_paused_worker_takes_nothing() -> None:
    """Paused workers have a process and no available threads."""
    for worker in server("paused").workers:
        assert worker.pid
        assert (worker.state, worker.accepting, worker.available_threads) == ("pause", False, 0)


def test_a_worker_that_starts_takes_nothing() -> None:
    """A worker that still loads its application is `starting`, with no available or busy threads and no application."""
    starting, up = server("worker_starting").workers
    assert (starting.state, starting.available_threads, starting.busy_threads, starting.apps) == ("starting", 0, 0, ())
    assert (up.state, up.available_threads) == ("idle", 2)


def test_a_worker_in_a_signal_handler() -> None:
    """`sig17` is the state `signal`; the worker is still accepting."""
    assert states("signal_handled") == ["signal", "idle"]
    assert server("signal_handled").workers[0].accepting


def test_no_cores_is_unknown_and_not_zero() -> None:
    """With stats-no-cores threads, busy threads and static requests are unknown; requests are the worker's own."""
    for worker in server("no_cores").workers:
        assert (worker.threads, worker.busy_threads, worker.static_requests) == (None, None, None)
        assert (worker.available_threads, worker.request_starts) == (None, ())
        assert worker.requests == 5


def test_no_metrics() -> None:
    """With stats-no-metrics only the custom metrics are missing."""
    assert server("no_metrics").custom_metrics == {}
    assert states("no_metrics") == ["idle"]


def test_custom_metrics() -> None:
    """Metrics of every kind keep their kind and value, negative and huge ones too."""
    metrics = server("metrics").custom_metrics
    values = {name: (metrics[name].kind, metrics[name].value) for name in ("orders.placed", "balance", "huge")}
    assert values == {"orders.placed": (0, 3), "balance": (1, -12), "huge": (1, 2**63 - 1)}


def test_static_requests_are_counted_apart() -> None:
    """Requests for files that uWSGI serves itself are also counted as static."""
    (worker,) = server("static_served").workers
    assert (worker.requests, worker.static_requests, worker.running_time) == (8, 5, 0.060655)


def test_two_mountpoints() -> None:
    """A worker has an application for each mountpoint, each with its own counters."""
    apps = server("apps_two_mountpoints").workers[1].apps
    assert [(app.mountpoint, app.requests, app.exceptions) for app in apps] == [
        ("", 0, 0),
        ("/shop", 3, 0),
        ("/api", 2, 2),
    ]


def test_caches() -> None:
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


def test_spoolers() -> None:
    """A spooler has its folder and whether it runs a task."""
    assert [(spooler.directory, spooler.running) for spooler in server("spoolers").spoolers] == [
        ("/srv/demo/mail", 1),
        ("/srv/demo/reports", 0),
    ]


def test_crons() -> None:
    """A cron's schedule keeps its negative numbers; a running cron has a process."""
    crons = server("crons").crons
    assert len(crons) == 7
    assert [cron.pid > 0 for cron in crons] == [True, False, False, True, False, False, False]
    assert (crons[1].minute, crons[1].hour, crons[1].week) == (-5, -2, 1)


def test_legion() -> None:
    """The lord of a legion has the time when it became the lord."""
    (legion,) = server("legion_lord").legions
    assert (legion.name, legion.valor, len(legion.members)) == ("demo", 100, 1)
    assert legion.lord_since


def test_thunder_lock() -> None:
    """thunder-lock is recognised by the lock of that name."""
    assert server("locks_thunder").thunder_lock is True
    assert server("minified").thunder_lock is False


def test_memory_report() -> None:
    """Resident memory is known with memory-report, and None, not 0, without it."""
    assert server("memory_report").workers[0].resident_bytes == 12140544
    assert server("minified").workers[0].resident_bytes is None


def test_harakiri() -> None:
    """A harakiri is counted for its worker; the request that it ended is not among the worker's requests."""
    worker, other = server("harakiri").workers
    assert (worker.harakiris, worker.respawns, worker.requests) == (1, 2, 0)
    assert (other.harakiris, other.respawns) == (0, 1)


def test_threads_busy() -> None:
    """Four workers of eight threads have eleven requests in service, with the start of the oldest."""
    workers = server("threads_4x8_busy").workers
    assert [worker.threads for worker in workers] == [8] * 4
    assert [worker.busy_threads for worker in workers] == [4, 4, 2, 1]
    assert {min(worker.request_starts) for worker in workers} == {1795249581}
    assert workers[0].running_time == 0.244394


def test_queues() -> None:
    """A TCP socket has its queue and limit; for a UNIX socket uWSGI's meaningless 0 of 0 becomes None."""
    snapshot = server("queue_filled")
    assert [(socket.name, socket.queue, socket.limit) for socket in snapshot.sockets] == [
        ("/run/uwsgi/app", None, None),
        ("127.0.0.1:58737", 4, 5),
    ]
    assert snapshot.listen_queue == 4


def test_a_socket_configured_twice_is_one() -> None:
    """A socket that uWSGI lists twice is one socket."""
    assert document("sockets_twice").count(b'"name":"twice.sock"') == 2
    assert [socket.name for socket in server("sockets_twice").sockets].count("twice.sock") == 1


def test_minified_is_the_same_document() -> None:
    """A minified document decodes to the same snapshot as the indented one."""
    body = document("minified")
    assert b"\n" not in body
    assert stats.decode(body) == stats.decode(json.dumps(json.loads(body), indent="\t").encode())


def test_emperor() -> None:
    """An emperor's snapshot has its vassals and those that it throttles."""
    snapshot = stats.decode(document("emperor"))
    assert isinstance(snapshot, EmperorSnapshot)
    assert [(vassal.name, vassal.accepting) for vassal in snapshot.vassals] == [("good.ini", 1), ("broken.ini", 0)]
    assert [vassal.name for vassal in snapshot.blacklist] == ["broken.ini"]


def test_router() -> None:
    """A router's snapshot has its subscribed keys and the nodes behind them."""
    snapshot = stats.decode(document("router_http_subscriptions"))
    assert isinstance(snapshot, RouterSnapshot)
    (key,) = snapshot.subscriptions
    assert (key.key, key.hits) == ("demo.test", 6)
    assert [(node.name, node.requests, node.rx) for node in key.nodes] == [
        ("/run/uwsgi/1/app", 3, 708),
        ("/run/uwsgi/2/app", 3, 708),
    ]


def test_a_trailing_comma_is_repaired() -> None:
    """A router's document is decoded in spite of its trailing comma, which is not valid JSON."""
    body = document("router_both_invalid_json")
    with pytest.raises(json.JSONDecodeError):
        json.loads(body)
    assert stats.decode(body).kind == "router"


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_requests_do_not_blind(name: str) -> None:
    """Requests in service are counted, whatever bytes the clients sent."""
    (worker,) = server(name).workers
    assert worker.threads == 8
    assert worker.busy_threads == (3 if name == "hostile_everything" else 1)


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_of_a_request_is_kept(name: str) -> None:
    """A snapshot contains nothing of a request's path, headers or cookies."""
    words = words_of_requests(name)
    assert {"HTTP_HOST", "PATH_INFO", "REMOTE_ADDR"} <= words
    strings = everything_in(stats.decode(document(name)))
    assert not {(word, string) for word in words for string in strings if word in string}


def test_workers_are_frozen() -> None:
    """A snapshot cannot be changed."""
    worker: Worker = server("minified").workers[0]
    with pytest.raises(AttributeError):
        worker.requests = 3  # type: ignore[misc]
