"""The document of a server, with and without figures."""

import msgspec
import pytest
from msgspec import structs
from msgspec.structs import replace

from tests.support.captured_documents import NAMES, kind
from tests.support.scripted_watch import ScriptedWatch, replayed
from tests.support.simulated_server import EPOCH, Server, emperor, router
from uwsgi_headroom.analysis.capacity import CpuShares
from uwsgi_headroom.documents import build, schema
from uwsgi_headroom.documents.sections import build_setup
from uwsgi_headroom.errors import ReadError, SourceError
from uwsgi_headroom.kernel.facts import Memories
from uwsgi_headroom.kernel.memory import AvailableMemory, WorkerMemory
from uwsgi_headroom.kernel.setup import MasterIdentity
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.record import Options, Setup
from uwsgi_headroom.source import Unix
from uwsgi_headroom.stats import Snapshot
from uwsgi_headroom.stats.raw import App

FACTS = MasterIdentity(host="web1", started=EPOCH - 100.0, working_directory="/srv/shop", emperor_pid=5)
REFUSED = SourceError("refused", "nobody listens at /run/shop.stats")


def loaded(server: Server, seconds: int = 70) -> ScriptedWatch:
    """A server whose first worker gets 4 of 5 requests and uses 0.4 of its interpreter."""

    def second(_: int) -> None:
        server.serve(1, 20, each=0.1, cpu=0.02)
        server.serve(2, 5, each=0.1, cpu=0.02)
        server.busy(3, 1, *[0] * (server.processes - 2))

    return ScriptedWatch().seconds(server, seconds, second)


def test_a_server_under_load():
    """Every figure covers the window, every level is that of the last reading."""
    document = loaded(Server()).document()
    assert (document.state, document.status, document.error) == ("up", "ok", None)
    assert (document.kind, document.version) == ("server", "2.0.31")
    assert document.verdict == (
        "Headroom 1.4x until requests wait; 2.5x until the hottest worker's interpreter saturates."
    )
    assert document.flow.requests == 1500
    assert (document.flow.throughput, document.flow.response_time) == (pytest.approx(25), pytest.approx(0.1))
    assert (document.flow.littles_law, document.flow.observed) == (pytest.approx(2.5), pytest.approx(4))
    assert (document.headroom.factor, document.headroom.first) == (pytest.approx(2.5), "hottest_interpreter")
    assert (document.headroom.by_limit["threads"], document.headroom.ceiling) == (pytest.approx(8), "cpu")
    assert document.threads == schema.Threads(configured=32, available=32, busy=4, stuck=0, mean=32.0)
    assert (document.balance.active, document.balance.even_share, document.balance.hottest) == (4, 0.25, 1)
    assert document.balance.hot_ratio == pytest.approx(3.2)
    first, second, *_ = document.workers
    assert (first.share, second.share) == (pytest.approx(0.8), pytest.approx(0.2))
    assert (first.requests, first.window_requests, first.lifetime_share) == (1400, 1200, pytest.approx(0.8))
    assert (first.interpreter_load, first.concurrency) == (pytest.approx(0.4), pytest.approx(3))
    assert (first.state, first.busy_threads, first.threads, first.pid) == ("busy", 3, 8, 101)
    assert (first.age, first.affinity, first.last_cpu) == (70, (0, 1, 2, 3), 0)
    assert (document.host.cpus, document.host.limited_by) == (4, "host")
    assert [finding.code for finding in document.findings] == ["unevenness_harmless"]


def test_memory():
    """The document has a worker's size, available memory, how many more workers fit, and each one's unique memory."""
    server = Server()
    reading = server.read(1.0)
    unknown = ScriptedWatch().read(reading).document()
    assert (unknown.host.memory, unknown.workers[0].unique_bytes) == (None, None)

    memory = Memories(WorkerMemory(180, "uss", 720, {101: 180, 102: 150}), AvailableMemory(719, "cgroup"))
    document = ScriptedWatch().read(replace(reading, host=replace(reading.host, memory=memory))).document()
    assert document.host.memory == schema.MemorySection(
        available=719, limited_by="cgroup", per_worker=180, source="uss", more_workers=3
    )
    assert [worker.unique_bytes for worker in document.workers] == [180, 150, None, None]

    memory = Memories(None, AvailableMemory(719, "host"))
    document = ScriptedWatch().read(replace(reading, host=replace(reading.host, memory=memory))).document()
    assert document.host.memory == schema.MemorySection(
        available=719, limited_by="host", per_worker=None, source=None, more_workers=None
    )


def test_setup_windows_queues_and_identities():
    """Options have uWSGI's names, and the place where each is set."""
    options = Options(harakiri=30, async_cores=10, source={"harakiri": "app.ini", "async_cores": "command line"})
    built = build_setup(Setup(options, 4096, "async", {"web": (1, 2)}, mapped=False))
    assert built.options == {
        "harakiri": schema.Option(value=30, source="app.ini"),
        "async": schema.Option(value=10, source="command line"),
    }
    assert (built.options_complete, built.options_changed) == (False, False)
    assert (built.somaxconn, built.concurrency_kind, built.mapped) == (4096, "async", False)
    assert built.socket_holders == {"web": (1, 2)}
    document = loaded(Server()).document(300.0)
    assert (document.window.asked, document.window.seconds) == (300, 70)
    assert [(covered.asked, covered.seconds) for covered in document.windows] == [(60, 60), (300, 70)]
    assert document.sampling.history_seconds == 70
    server = Server(queue=7)
    document = ScriptedWatch().seconds(server, 10, lambda _: server.serve(1, 14)).document()
    (socket,) = document.sockets
    assert (socket.queue, socket.limit, socket.mean_queue) == (7, 100, pytest.approx(7))
    assert socket.queue_wait == document.flow.queue_wait == pytest.approx(0.5, rel=0.1)
    identity = ScriptedWatch().read(Server(host=False).read(1.0)).document().identity
    assert identity
    assert {name for name, value in structs.asdict(identity).items() if value is not None} == {"pid"}
    assert ScriptedWatch().document().identity is None


def test_occupancy_is_a_share_of_the_time_at_each_level():
    """Every thread is busy for a quarter of the window, one of eight for the rest."""
    server = Server(2, 4)
    watch = ScriptedWatch().seconds(
        server, 61, lambda second: server.busy(4, 4) if second % 4 == 0 else server.busy(1, 0)
    )
    occupancy = watch.document().occupancy
    assert sum(occupancy.shares) == pytest.approx(1)
    assert occupancy.shares[-1] == pytest.approx(0.25, abs=0.02)
    assert occupancy.shares[occupancy.up_to.index(0.2)] == pytest.approx(0.75, abs=0.02)
    assert occupancy.full == pytest.approx(0.25, abs=0.02)


def test_figures_come_and_stay():
    """After one reading there are none; when the server goes down, they stay with their age."""
    document = ScriptedWatch().read(Server().read(5.0)).document()
    assert (document.state, document.status) == ("up", "unknown")
    assert "No figures yet" in document.verdict
    assert (document.window, document.flow, document.headroom) == (None, None, None)
    assert (document.balance, document.occupancy, document.findings) == (None, None, ())
    assert document.threads.configured == 32
    assert {worker.share for worker in document.workers} == {None}
    assert "figures" in {unknown.what for unknown in document.unknown}
    watch = loaded(Server())
    before = watch.document()
    document = watch.read(REFUSED, watch.now + 40).document()
    assert (document.state, document.status, document.age) == ("down", "unknown", 40)
    assert (document.flow, document.headroom, document.workers) == (before.flow, before.headroom, before.workers)
    assert document.read_at == before.read_at
    up = watch.read(Server(born=watch.now + 1).read(watch.now + 1)).document()
    assert (up.state, up.error, up.age) == ("up", None, 0)


def test_never_read():
    """Before the first reading, a server is no failure."""
    document = ScriptedWatch().document()
    assert (document.state, document.status) == ("stale", "unknown")
    assert (document.kind, document.age, document.error) == (None, None, None)
    assert document.verdict == "Not read yet: the first reading is under way."
    document = ScriptedWatch().read(REFUSED, 1.0).document()
    assert (document.state, document.status, document.kind, document.read_at) == ("down", "unknown", None, None)
    assert (document.error.reason, document.error.message) == ("refused", "nobody listens at /run/shop.stats")
    assert "Start uWSGI" in document.error.change
    assert document.error.runbook == "/runbooks/UwsgiDown?server=shop"
    assert document.verdict == "Down: nobody listens at /run/shop.stats."
    assert (document.threads, document.host, document.workers, document.sockets) == (None, None, (), ())
    watch = ScriptedWatch().read(REFUSED, 1.0)
    (listed,) = build.build_server_list([watch.document()], watch.clock).servers
    assert listed.act == "Start uWSGI, or wait until it has loaded its application"


def test_a_reading_that_grows_old_is_stale():
    """A server is stale after five seconds, or after three intervals of slow sampling."""
    watch = loaded(Server())
    watch.now += 4.9
    assert watch.document().state == "up"
    watch.now += 0.2
    document = watch.document()
    assert (document.state, document.status) == ("stale", "unknown")
    assert document.flow is not None
    for _ in range(20):
        watch.watch.pace.pause(Server().read(0.0, read_seconds=0.05))
    watch.now += 6.8
    assert watch.document().state == "up"
    watch.now += 0.2
    assert watch.document().state == "stale"


def test_no_cores_and_no_host_facts():
    """An unknown value is null and not 0, with the reason."""
    server = Server(cores=False, host=False, queue=None)
    document = ScriptedWatch().seconds(server, 5, lambda _: server.serve(1, 10)).document()
    assert document.threads == schema.Threads(configured=None, available=None, busy=None, stuck=None)
    assert document.occupancy is None
    assert {(worker.threads, worker.busy_threads, worker.concurrency) for worker in document.workers} == {(None,) * 3}
    assert {(worker.interpreter_load, worker.affinity, worker.last_cpu) for worker in document.workers} == {(None,) * 3}
    assert document.flow.throughput is not None
    assert document.flow.observed is None
    (socket,) = document.sockets
    assert (socket.queue, socket.measurable, socket.reason, socket.mean_queue) == (None, False, "hidden", None)
    assert {
        (unknown.what, unknown.why, unknown.socket) for unknown in document.unknown if unknown.what != "threads"
    } == {("processes", "another host", None), ("queue", "hidden", "app.sock")}
    assert "stats-no-cores" in next(unknown.why for unknown in document.unknown if unknown.what == "threads")


def test_requests_in_service_have_ages():
    """Requests are listed oldest first; requests of a killed worker are gone with it."""
    server = Server()
    server.busy(2, 1, 0, 0)
    server[1].request_starts = (EPOCH + 90, EPOCH + 50)
    server[2].request_starts = (EPOCH + 10,)
    server.kill(2)
    document = ScriptedWatch().read(server.read(100.0)).document()
    assert (document.workers[0].oldest_request_age, document.workers[0].request_ages) == (50, (50, 10))
    killed = document.workers[1]
    assert (killed.oldest_request_age, killed.request_ages, killed.busy_threads) == (None, (), 0)
    assert (document.threads.stuck, document.threads.stuck_seconds) == (1, 30.0)
    watch = ScriptedWatch().read(server.read(100.0))
    watch.watch.stuck_seconds = 5.0
    document = watch.document()
    assert (document.threads.stuck, document.threads.stuck_seconds) == (2, 5.0)


def test_workers_that_were_never_spawned_or_left():
    """Such workers have no process and no age, count as capacity, and are not compared."""
    server = Server(spawned=2)
    watch = ScriptedWatch().seconds(server, 20, lambda _: server.serve(1, 5))
    server.cheap(2)
    document = watch.seconds(server, 20, lambda _: server.serve(1, 5)).document()
    assert [worker.state for worker in document.workers] == ["idle", "cheap", "never_spawned", "never_spawned"]
    assert [worker.active for worker in document.workers] == [True, False, False, False]
    assert {(worker.pid, worker.age) for worker in document.workers[1:]} == {(None, None)}
    assert (document.threads.configured, document.threads.available) == (32, 8)


def test_an_emperor_and_a_router():
    document = replayed("emperor").document()
    assert (document.kind, document.router) == ("emperor", None)
    assert (document.threads, document.workers, document.host) == (None, (), None)
    assert len(document.emperor.vassals) == 2
    assert all(vassal.pid > 1 and vassal.age is not None for vassal in document.emperor.vassals)
    assert (document.status, document.verdict) == ("warning", "1 vassal of the emperor fails to start.")
    assert [finding.runbook for finding in document.findings] == ["/runbooks/UwsgiVassalThrottled?server=emperor"]
    alone = replayed("emperor_alone").document()
    assert (alone.status, alone.verdict, alone.findings) == ("ok", "Emperor with 0 vassals; no application runs.", ())
    document = replayed("router_http_subscriptions").document()
    assert (document.kind, document.emperor, document.status) == ("router", None, "ok")
    assert [len(key.nodes) for key in document.router.subscriptions]


@pytest.mark.parametrize("other", [emperor, router])
def test_an_address_that_changes_its_kind(other):
    """If an emperor or a router replaces a server, the server's figures are not shown."""
    document = loaded(Server()).read(other(200.0)).document()
    assert (document.flow, document.workers, document.threads) == (None, (), None)
    assert document.status == "ok"


@pytest.mark.parametrize("name", NAMES)
def test_every_captured_document(name):
    document = replayed(name).document()
    assert document.state == "up"
    assert document.kind == kind(name)
    assert msgspec.json.decode(msgspec.json.encode(document), type=schema.ServerDocument) == document


def test_names_that_are_paths_or_worse():
    """A path in the API works for any name; bytes that no JSON string can contain are escaped."""
    assert build.server_path("/run/a b/ü?.stats") == "/api/v2/servers/%2Frun%2Fa%20b%2F%C3%BC%3F.stats"
    watch = ScriptedWatch('a/"b"', Unix("/run/caf\udce9")).read(
        ReadError("not_found", "no such file: /run/caf\udce9"), 1.0
    )
    assert b'"a/\\"b\\""' in msgspec.json.encode(watch.document())
    assert b"no such file: /run/caf\\\\udce9" in msgspec.json.encode(watch.document())


def test_the_list_begins_with_what_needs_attention():
    """Servers that cannot be read come first, then the least headroom; idle ones come last, by name."""
    busy, busier = Server(), Server()

    def load(server, requests):
        return ScriptedWatch().seconds(server, 10, lambda _: server.serve(1, requests, cpu=0.02))

    watches = {
        "idle-10": ScriptedWatch().read(Server().read(1.0)),
        "busy": load(busy, 10),
        "down": ScriptedWatch().read(REFUSED, 1.0),
    }
    watches |= {"busier": load(busier, 20), "idle-9": ScriptedWatch().read(Server().read(1.0))}
    for name, watch in watches.items():
        watch.watch.name = name
    listed = build.build_server_list([watch.document() for watch in watches.values()], watches["busy"].clock)
    assert [server.name for server in listed.servers] == ["down", "busier", "busy", "idle-9", "idle-10"]
    assert [server.headroom for server in listed.servers][1:3] == [pytest.approx(2.5), pytest.approx(5)]


def judged(name: str, status: schema.Status, *findings: tuple[str, bool], own: float = 0.1) -> schema.ServerDocument:
    """A document with these advices, each of the host or not, on a host of two CPUs of which none is idle."""
    document = loaded(Server()).document()
    host = replace(document.host, cpus=2.0, limited_by="host")
    found = [
        schema.FindingSection(
            code=f"code_{place}",
            severity="critical" if status == "critical" else "warning",
            title="",
            evidence="",
            meaning="",
            change=change,
            runbook=None,
            of_host=of_host,
        )
        for place, (change, of_host) in enumerate(findings)
    ]
    return replace(
        document,
        name=name,
        status=status,
        findings=tuple(found),
        host=host,
        cpu=CpuShares(own=own, idle=0.02, others=1.0),
        identity=replace(document.identity, host="web1"),
    )


def test_the_list_sorts_by_what_can_be_changed():
    """A server that its own settings can help comes before one that only lacks what its host lacks."""
    get_cpu = ("Find out who has the CPUs. Then move it.", True)
    documents = [
        judged("starved", "critical", get_cpu),
        judged("slow", "warning", ("Set `a. b` or `c`: it helps. And more.", False)),
        judged("both", "critical", get_cpu, ("Raise `threads` from 8 to 12.", False)),
        judged("well", "ok", own=0.9),
    ]
    listed = build.build_server_list(documents, ScriptedWatch().clock)
    assert [(server.name, server.act, server.of_host) for server in listed.servers] == [
        ("both", "Raise `threads` from 8 to 12", False),
        ("slow", "Set `a. b` or `c`: it helps", False),
        ("starved", "Find out who has the CPUs", True),
        ("well", "", False),
    ]
    assert listed.host == (
        "web1: CPUs are full: 2 servers wait for a CPU. Of 2 CPUs, the workers of these 4 servers use 1.2, and other "
        "programs 0.8. Add CPUs, or move load to another host."
    )
    room = documents[3].headroom
    idle = replace(documents[3], headroom=replace(room, factor=1.1, first="cpu"))
    assert build.build_server_list([idle], ScriptedWatch().clock).servers[0].of_host


def test_a_fault_of_ours_about_a_server(monkeypatch):
    """If building a server's document fails, its document says so, and the list has it beside the others."""
    broken, well = loaded(Server()), loaded(Server())
    words = "hunter2"

    def fails(*_arguments):
        raise ZeroDivisionError(words)

    monkeypatch.setattr(broken.watch, "figures", fails)
    document = broken.document()
    assert (document.state, document.status, document.workers) == ("down", "unknown", ())
    assert document.error.reason == "internal"
    assert words not in str(document)
    listed = build.build_server_list([document, well.document()], well.clock)
    assert [server.state for server in listed.servers] == ["down", "up"]


def identified(reading: Reading, *mountpoints: str, options: Options | None = None) -> schema.Identity:
    """The identity in the document of this reading, with these applications in the first worker."""
    snapshot = reading.snapshot
    assert isinstance(snapshot, Snapshot)
    apps = tuple(App(mountpoint=mountpoint) for mountpoint in mountpoints)
    first, *others = snapshot.workers
    workers = (replace(first, apps=apps), *others)
    setup = Setup(options or Options(), 4096, "threads", None, None)
    host = replace(reading.host, identity=FACTS, setup=setup)
    changed = replace(reading, snapshot=replace(snapshot, workers=workers), host=host)
    identity = ScriptedWatch().read(changed).document().identity
    assert identity
    return identity


def test_which_server_it_is():
    """The master's PID comes from uWSGI, the rest from the kernel and the options."""
    options = Options(application="shop:app", configuration_files=("/etc/shop.ini",))
    reading = Server().read(1.0)
    assert identified(reading, "/other", options=options) == schema.Identity(
        pid=reading.snapshot.pid,
        host="web1",
        application="shop:app",
        configuration_file="/etc/shop.ini",
        working_directory="/srv/shop",
        started=EPOCH - 100.0,
        uptime=pytest.approx(101.0),
        emperor_pid=5,
    )


@pytest.mark.parametrize(
    ("mountpoints", "application"), [(("/shop",), "/shop"), (("", "/"), None), (("/a", "/b"), None), ((), None)]
)
def test_an_application_that_no_option_names(mountpoints, application):
    assert identified(Server().read(1.0), *mountpoints).application == application


def test_the_list_says_who_waits_and_whose_vassal_it_is():
    server = Server(2, 4, queue=6)
    watch = ScriptedWatch().seconds(server, 70, lambda _: server.serve(1, 3, each=0.5))
    reading = watch.watch.reading
    watch.read(replace(reading, at=reading.at + 0.5, host=replace(reading.host, identity=FACTS)))
    document = watch.document()
    (listed,) = build.build_server_list([document], watch.clock).servers
    assert (listed.queue_wait, listed.waiting) == (document.flow.queue_wait, "severe")
    assert listed.queue_wait == pytest.approx(2, rel=0.02)
    assert (listed.pid, listed.emperor_pid) == (reading.snapshot.pid, 5)
