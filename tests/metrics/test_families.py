"""The families of a scrape: their values, what they leave out, and their number of series."""

import contextlib
import json
import os
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.support.captured_documents import NAMES, document, with_a_wrong_value
from tests.support.monitoring import find
from tests.support.observations import down, of_uwsgi, proven, render_families, series, up, watched
from uwsgi_headroom import stats
from uwsgi_headroom.analysis.findings import Finding, Held
from uwsgi_headroom.analysis.findings.kind import Kind
from uwsgi_headroom.analysis.worker_states import count_harmful_now, count_workers_sharing_one_cpu
from uwsgi_headroom.errors import REASONS, StatsError
from uwsgi_headroom.history.code_time import CodeTotals
from uwsgi_headroom.history.events import KINDS
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.metrics import families
from uwsgi_headroom.metrics.subsystems import crontab_schedule
from uwsgi_headroom.record import Options, ServerRecord, Setup, Waits, WorkerRecord
from uwsgi_headroom.stats.raw import Cron
from uwsgi_headroom.surroundings import RoleUse
from uwsgi_headroom.watch.recorder import Verdict

GOLDEN = Path(__file__).with_name("golden")
GOLDENS = {
    "threads_4x8_busy": proven("threads_4x8_busy"),
    "cheaper_never_spawned": up("cheaper_never_spawned"),
    "no_cores": up("no_cores"),
    "hostile_everything": up("hostile_everything"),
    "subsystems": up(
        "subsystems",
        json.dumps(
            json.loads(document("metrics"))
            | {key: json.loads(document(key))[key] for key in ("caches", "spoolers", "crons")}
            | {"legions": json.loads(document("legion_lord"))["legions"]}
        ).encode(),
    ),
    "emperor": up("emperor"),
    "router_http_subscriptions": up("router_http_subscriptions"),
    "down": down("down"),
    "watched": watched(proven("threads_4x8_busy")),
}


def test_stuck_threads_are_counted_by_the_setting():
    """A thread counts from the age that the server's setting gives."""
    busy = up("threads_4x8_busy")
    name = 'uwsgi_threads_stuck{server="threads_4x8_busy"}'
    counts = [series(replace(busy, stuck_seconds=seconds))[name] for seconds in (30.0, 1e9)]
    assert counts[0] > counts[1] == 0


def test_event_streams_do_not_count_as_stuck_while_async_cores_are_free():
    """Five of twenty cores that hold a request are no harm, all of them are."""
    threads = replace(proven("gevent"), stuck_seconds=-1e9)
    setup = Setup(Options(gevent=10), 4096, "async", None, False)
    host = replace(threads.reading.host, setup=setup)
    coroutines = replace(threads, outcome=replace(threads.reading, host=host))
    counts = [series(server)['uwsgi_threads_stuck{server="gevent"}'] for server in (threads, coroutines)]
    assert counts == [5, 0]
    workers = [replace(worker, threads=len(worker.ages)) for worker in coroutines.server.workers if worker.ages]
    assert count_harmful_now(replace(coroutines.server, workers=tuple(workers)), -1e9) == 5


def test_websockets_do_not_count_as_stuck():
    """On threads, requests that wait for a client's later messages are meant to last; a fifth one is stuck."""
    threads = replace(proven("gevent"), stuck_seconds=-1e9)
    assert threads.reading
    counts = []
    for clients in (5.0, 4.0):
        host = replace(threads.reading.host, waits=Waits(threads={"client": clients}, websockets=clients))
        waiting = replace(threads, outcome=replace(threads.reading, host=host))
        counts.append(series(waiting)['uwsgi_threads_stuck{server="gevent"}'])
    assert counts == [0, 5]


def test_totals_that_another_watch_has_counted_have_no_series():
    """While stats are silent, the watch of the kernel's figures has counted less: counters would fall, and jump."""
    one = proven("threads_4x8_busy")
    host = replace(one.reading.host, roles=(RoleUse("master", 1, 5.0, None, 1),))
    one = replace(one, outcome=replace(one.reading, host=host), code=CodeTotals(observed_seconds=7.0))
    names = {"uwsgi_process_cpu_seconds_total", "uwsgi_code_observed_seconds_total"}
    for each, shown in (one, names), (replace(one, is_silent=True), set()):
        assert names & {line.name for family in families([each]) for line in family.samples} == shown


@pytest.mark.parametrize("name", GOLDENS)
def test_golden(name):
    """A captured document gives exactly the metrics of its golden file, which documents them.

    `UPDATE_GOLDEN=1` writes the files anew; the exporter's own metrics, which differ from run to run, are left out.
    """
    text = render_families(of_uwsgi([GOLDENS[name]])).decode()
    path = GOLDEN / f"{name}.metrics"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)
    assert path.read_text() == text, "if the change is meant: UPDATE_GOLDEN=1 pytest tests/metrics"


def test_no_golden_is_left_behind():
    """Every golden file belongs to a case."""
    assert {path.stem for path in GOLDEN.glob("*.metrics")} == set(GOLDENS)


def test_no_series_twice():
    """With every captured document as a server of its own, no series appears twice."""
    everything = [*[up(name) for name in NAMES], down("down"), down("down too"), proven("prefork_4x1_served", "proven")]
    counts = Counter(
        (s.name, tuple(sorted(s.labels.items()))) for family in families(everything) for s in family.samples
    )
    assert [sample for sample, times in counts.items() if times > 1] == []


def no_events(name: str) -> dict[str, float]:
    """Every kind of event has a series before the first, so that its first increase is seen."""
    later = ("log_message", "deploy_judged")  # with a log, and with a reload
    return {f'uwsgi_events_total{{kind="{kind}",server="{name}"}}': 0.0 for kind in KINDS if kind not in later}


def is_down(name: str) -> dict[str, float]:
    return {f'uwsgi_verdict_info{{cause="down",harm="down",server="{name}",verdict="down"}}': 1.0}


def test_findings_are_what_alerts_say():
    """A page and a ticket, with the time since which they hold; a text that is too long is cut, never in a letter."""
    row = Kind("request_stuck", "critical", "Worker {id} is stuck.", "It waits for {what}.", act="Restart it.")
    stuck = row.found(id=3, what="é" * 150, worker_id=3)
    plain = Finding("queue_wait", "warning", "Requests wait at /srv/secret.", "For long.", row)
    held = [Held(each, each, 1_780_000_000.0, 0.0, 5.0, 0.0, 2, is_page=each is stuck) for each in (stuck, plain)]
    observation = replace(up("shop", document("minified")), alerts=held, judged_at=1_780_000_007.0)
    names = ("uwsgi_finding_", "uwsgi_judged_")
    found = {key: value for key, value in series(observation).items() if key.startswith(names)}
    judged, page, ticket = found
    assert found == {judged: 1_780_000_007.0, page: 1_780_000_000.0, ticket: 1_780_000_000.0}
    assert 'act="Restart it.",code="request_stuck",evidence="It waits for ' in page
    assert 'title="Worker 3 is stuck.",urgency="page",worker_id="3"' in page
    assert f"{'é' * 91}..." in page
    assert 'code="queue_wait",evidence="",server="shop",title="Queue wait.",urgency="ticket"' in ticket
    assert "secret" not in str(found)


def test_a_verdict_is_one_series():
    """It names status, cause and harm, and says since when, if that is known; so does a server that is down."""
    shop, since = up("shop", document("minified")), 1_780_000_000.0
    name = 'uwsgi_verdict_info{cause="%s",harm="%s",server="shop",verdict="%s"}'
    at = 'uwsgi_verdict_since_time_seconds{server="shop"}'
    said = []
    for observation in (
        shop,
        replace(shop, verdict=Verdict("ok")),
        replace(shop, verdict=Verdict("critical", "saturation", since, "clients_refused"), loaded_at=since - 60),
        replace(down("shop"), down_since=since, verdict=Verdict("ok")),
    ):
        found = {key: value for key, value in series(observation).items() if "verdict_" in key and "events" not in key}
        said.append((found.pop(at, None), *found.items()))
        loaded = series(observation).get('uwsgi_last_reload_time_seconds{server="shop"}')
        assert loaded == observation.loaded_at
    assert said == [
        (None, (name % ("none", "none", "unknown"), 1.0)),
        (None, (name % ("none", "none", "ok"), 1.0)),
        (since, (name % ("saturation", "clients_refused", "critical"), 1.0)),
        (since, (name % ("down", "down", "down"), 1.0)),
    ]


def test_one_server_down_leaves_the_others_alone():
    alone = series(up("minified"))
    assert series(down("a"), up("minified"), down("b")) == alone | {
        'uwsgi_up{server="a"}': 0.0,
        'uwsgi_up{server="b"}': 0.0,
        **is_down("a"),
        **is_down("b"),
        **no_events("a"),
        **no_events("b"),
    }


def test_read_errors_are_counters_from_the_start():
    """Every reason has a series before the first failure, so that its first increase is seen."""
    (errors,) = [family for family in families([down("shop")]) if family.name == "uwsgi_exporter_read_errors"]
    values = {sample.labels["reason"]: sample.value for sample in errors.samples}
    assert values == dict.fromkeys(REASONS, 0) | {"refused": 3}


def test_what_is_unknown_is_absent():
    """For a worker without data, only its existence and that it takes no requests are exported."""
    values = series(up("bare", b'{"version":"2.0.31","pid":7,"workers":[{}]}'))
    worker = {name for name in values if "worker_id" in name}
    assert worker == {'uwsgi_worker_accepting{server="bare",worker_id="1"}'}
    assert not [name for name in values if name.startswith(("uwsgi_threads", "uwsgi_socket", "uwsgi_listen"))]
    assert not [name for name in values if name.startswith(("uwsgi_thunder", "uwsgi_signal"))]


def test_options_that_are_known():
    """Options are exported if they are known to be set, and absent otherwise."""
    setup = Setup(Options(harakiri=0, source={"harakiri": "app.ini"}), None, None, None, None)
    values = series(up("minified", host=HostFacts(setup=setup)))
    assert values['uwsgi_harakiri_seconds{server="minified"}'] == 0
    assert not [name for name in values if name.startswith("uwsgi_listen_backlog_limit")]
    assert not [name for name in series(up("minified")) if name.startswith("uwsgi_harakiri_seconds")]


def test_queues():
    """If the kernel was asked, its figure counts. Otherwise a TCP socket's queue is uWSGI's own figure; a UNIX socket's
    is absent, and marked as not measurable."""
    tcp, unix = 'server="queue_filled",socket="127.0.0.1:58737"', 'server="queue_filled",socket="/run/uwsgi/app"'
    lengths = [f"uwsgi_socket_queue_length{{{tcp}}}", f"uwsgi_socket_queue_length{{{unix}}}"]
    lengths += ['uwsgi_listen_queue_length{server="queue_filled"}']
    asked, own, bare = series(proven("queue_filled")), series(up("queue_filled")), series(up("minified"))
    assert [asked.get(name) for name in lengths] == [3, 3, 3]
    assert [own.get(name) for name in lengths] == [4, None, 4]
    assert own[f"uwsgi_socket_max_queue_length{{{tcp}}}"] == 5
    assert not [name for name in bare if name.startswith(("uwsgi_socket_queue_length", "uwsgi_listen_queue_length"))]
    assert bare['uwsgi_socket_queue_measurable{server="minified",socket="/run/uwsgi/app"}'] == 0


def test_the_age_of_the_oldest_request():
    values = series(up("threads_4x8_busy"))
    name = 'uwsgi_worker_oldest_request_age_seconds{server="threads_4x8_busy",worker_id="1"}'
    assert values[name] == 1795250100.25 - 1795249581
    assert not [name for name in series(up("prefork_4x1_served")) if "oldest" in name]
    early = document("threads_4x8_busy").replace(b'"request_start":1795249581', b'"request_start":1795259581')
    assert series(up("threads_4x8_busy", early))[name] == 0


def test_a_process_that_is_gone_has_no_oldest_request():
    """uWSGI lists its requests until its master notices: they have no age. Other workers keep theirs."""
    server = proven("threads_4x8_busy")
    gone, *others = [worker for worker in server.reading.snapshot.workers if worker.request_starts]
    assert others
    running = {pid: process for pid, process in server.reading.host.processes.items() if pid != gone.pid}
    host = replace(server.reading.host, processes=running)
    values = series(replace(server, outcome=replace(server.reading, host=host)))
    ages = {name for name in values if name.startswith("uwsgi_worker_oldest_request_age_seconds")}
    name = 'uwsgi_worker_oldest_request_age_seconds{{server="threads_4x8_busy",worker_id="{}"}}'
    assert ages == {name.format(worker.worker_id) for worker in others}


def test_a_lord_is_one():
    assert series(up("legion_lord"))['uwsgi_legion_lord{legion="demo",server="legion_lord"}'] == 1
    other = document("legion_lord").replace(b'"i_am_the_lord":1795250932', b'"i_am_the_lord":0')
    assert series(up("legion_lord", other))['uwsgi_legion_lord{legion="demo",server="legion_lord"}'] == 0


@pytest.mark.parametrize(
    ("name", "metric", "number"),
    [("routed", "uwsgi_routed_requests_total", 3), ("offloaded", "uwsgi_offloaded_requests_total", 4)],
)
def test_requests_that_a_worker_does_not_answer_itself(name, metric, number):
    """They are summed over the workers, and absent with stats-no-cores."""
    assert series(up(name))[f'{metric}{{server="{name}"}}'] == number
    assert not [key for key in series(up("no_cores")) if key.startswith(metric)]


SPOOLER = {"dir": "/srv/mail", "pid": 9, "tasks": 2, "respawns": 1, "running": 1}
NODE = {"name": "/run/app", "hits": 2}


@pytest.mark.parametrize(
    ("document", "sums"),
    [
        (
            {"workers": [], "spoolers": [SPOOLER, {**SPOOLER, "tasks": 5}]},
            {
                'uwsgi_spooler_tasks_total{server="s",spooler="/srv/mail"}': 7,
                'uwsgi_spooler_respawns_total{server="s",spooler="/srv/mail"}': 2,
                'uwsgi_spooler_running{server="s",spooler="/srv/mail"}': 2,
            },
        ),
        (
            {"active_sessions": 0, "static_nodes": [NODE, NODE]},
            {'uwsgi_router_static_node_hits_total{node="/run/app",server="s"}': 4},
        ),
        (
            {"workers": [], "locks": [{"spooler on /s": 9}, {"spooler on /s": 0}]},
            {'uwsgi_lock_held{lock="spooler on /s",server="s"}': 1},
        ),
    ],
    ids=["spoolers", "nodes", "locks"],
)
def test_parts_of_one_name_are_one_series(document, sums):
    """uWSGI lists a directory once for each of its `spooler-processes`, and a backend that `to` names twice twice: they
    are summed. A lock is held if one of that name is."""
    values = series(up("s", json.dumps({"version": "2.0.31", **document}).encode()))
    assert sums.items() <= values.items()


def test_applications_appear_from_two_on():
    """A single application's requests are those of its worker; with several, each application has its own."""
    assert not [name for name in series(up("minified")) if "worker_app" in name]
    values = series(up("apps_two_mountpoints"))
    name = 'uwsgi_worker_app_exceptions_total{app_id="2",mountpoint="/api",server="apps_two_mountpoints",worker_id="2"}'
    assert values[name] == 2


def test_no_command_of_a_cron_is_shown():
    """A cron is identified by position and schedule, because its command may contain a secret."""
    text = render_families(of_uwsgi([up("crons")])).decode()
    assert "sleep" not in text
    assert 'uwsgi_cron_running{cron="1",schedule="* * * * *",server="crons"} 1.0' in text
    assert crontab_schedule(Cron(minute=-5, hour=-2, week=1)) == "*/5 */2 * * 1"


def test_workers_sharing_one_cpu():
    """Workers share a CPU if each is pinned to it alone; a mask of several CPUs, or the master's, is not a pin."""

    def sharing(*masks: tuple[int, ...], master: tuple[int, ...] | None = (0, 1)) -> int:
        workers = tuple(WorkerRecord(1, "accepting", 1, affinity=mask or None) for mask in masks)
        return count_workers_sharing_one_cpu(ServerRecord(workers, master_affinity=master))

    assert sharing((0,), (1,)) == 0
    assert sharing((0,), (0,), (0,), (1,)) == 3
    assert sharing((0, 1), (0, 1)) == 0
    assert sharing((), ()) == 0
    assert sharing((0,), (0,), (1,), master=(0,)) == 0
    assert sharing((0,), (0,), master=None) == 2


@pytest.mark.parametrize("name", ["threads_4x8_busy", "prefork_8x1_busy", "ugreen", "memory_report", "minified"])
def test_series_of_a_worker(name):
    """A worker has at most 25 series and a server 184 more, 17 of them for waits, 49 for the histogram of response
    times and 5 for its objective, with all the kernel's figures, for any number of threads. Each named backend, route,
    rule about the settings that speaks, and finding (up to five) adds one. Code has 34 at most
    (`history.code_time`)."""
    apart = re.compile(r"uwsgi_(backend_|route_|code_|settings_advice)")
    values = [key for key in series(proven(name)) if not apart.match(key)]
    each = Counter(match[1] for key in values if (match := re.search(r'worker_id="(\d+)"', key)))
    assert max(each.values()) <= 25
    assert len(values) <= 25 * len(each) + 184


def test_tasks_of_spoolers():
    """Tasks that wait are there for each directory that could be listed, once, and absent for the others."""
    name = "uwsgi_spooler_queue_length"
    found = {key: value for key, value in series(proven("spoolers")).items() if key.startswith(name)}
    assert found == {
        f'{name}{{server="spoolers",spooler="/srv/demo/{spooler}"}}': 3.0 for spooler in ("mail", "reports")
    }
    assert not [key for key in series(up("spoolers")) if key.startswith(name)]


def test_labels_hold_no_pid_and_no_request():
    """They would create new series permanently. The opt-in label `route` has 51 values at most."""
    names = {label for family in families([proven("threads_4x8_busy")]) for s in family.samples for label in s.labels}
    assert not names & {"pid", "uri", "path", "status", "method", "core", "thread", "core_id"}


def test_names_and_types_agree():
    """Counters end in `_total` and no other family does; every family is documented in sentences."""
    everything = [*[up(name) for name in NAMES], proven("prefork_4x1_served")]
    for family in of_uwsgi(everything):
        for sample in family.samples:
            assert sample.name.startswith("uwsgi_")
            assert sample.name.endswith("_total") == (family.type == "counter")
        assert family.documentation.endswith(".")


def test_no_document_breaks_a_scrape():
    """With any value replaced, a document is refused or its figures can be written: a failed scrape would lose the
    figures of every server. Of the documents that are decoded to the same values, one is enough."""
    bodies: dict[str, bytes] = {}
    for body in with_a_wrong_value():
        with contextlib.suppress(StatsError):
            bodies.setdefault(repr(stats.decode(body)), body)
    assert len(bodies) > 400
    for body in bodies.values():
        render_families(of_uwsgi([up("wrong", body)]))


def test_promtool_finds_nothing_wrong():
    """Prometheus' own linter accepts every metric of every captured document."""
    everything = [*[up(name) for name in NAMES], down("down"), proven("minified", "proven")]
    text = render_families(families(everything))
    ran = subprocess.run([find("promtool"), "check", "metrics"], input=text, capture_output=True, check=False)
    assert (ran.returncode, ran.stdout.decode(), ran.stderr.decode()) == (0, "", "")


def test_settings_that_will_hurt():
    """A rule has a series while it speaks; without the options there is none, not even a 0."""
    known = proven("threads_4x8_busy")
    options = Options(complete=True, stats=":1717", processes=4, threads=8)
    setup = Setup(options, 4096, "threads", None, False)
    hurt = series(replace(known, outcome=replace(known.reading, host=replace(known.reading.host, setup=setup))))
    advice = 'uwsgi_settings_advice{rule="%s",server="threads_4x8_busy"}'
    assert (hurt[advice % "stats_exposed"], hurt[advice % "need_app"]) == (2.0, 1.0)
    assert hurt['uwsgi_settings_reviewed{server="threads_4x8_busy"}'] == 1.0
    assert not [name for name in series(up("threads_4x8_busy")) if name.startswith("uwsgi_settings")]
