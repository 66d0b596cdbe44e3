"""What threads wait for: locks, backends, clients, work without the interpreter lock; and checks from elsewhere.

They need the right to see it: as an ordinary user beside uWSGI of the same user, without Yama, or as root. One row
shows what is said without it. The application asks stand-ins, or real servers with real clients: psycopg2, SQLAlchemy
and Django on PostgreSQL, redis-py, requests, and nginx in front. Rows of DNS also need the right to serve port 53.
"""

import os
from dataclasses import replace
from pathlib import Path

from tools.scenarios.beside import needs
from tools.scenarios.scenario import APPS, CALM, NO_MORE, Expected, Load, Scenario, Server, healthy

SERVER = Server(2, 8)

SWINGING = Load(clients=80, fewest=8, period=10, think_ms=1000, path="/backend")
"""About 8 requests a second, up to 80 and back, in 10 s."""
APP = APPS / "outside_app.py"

REAL_APP = APPS / "real_app.py"
POSTGRES = ("initdb", "postgres")

LARGE_HEAD = Server(
    2,
    2,
    app=Path("large.py"),
    files={
        "large.py": """def application(environ, start_response):
    start_response("200 OK", [("Set-Cookie", "a=" + "x" * 9000)])
    return [b"ok"]
"""
    },
)
UPLOADS = f"set $a {'x' * 3000}; proxy_method POST; proxy_set_body $a$a$a$a;"


def as_root() -> str | None:
    """Why the error log of nginx is not read: its master has to be root's."""
    return "it needs root" if os.geteuid() else needs(servers=("nginx",))()


def _server(client: str, beside: str, threads: int = 4) -> Server:
    """Lazy applications, as their clients' guides ask for: each worker has its own connections."""
    options = ("--pythonpath", "{clients}", "--env", f"CLIENT={client}")
    lazy = () if client == "django" else ("--lazy-apps",)  # Django's creates its table once
    return Server(2, threads, (*options, *lazy), app=REAL_APP, beside=(beside,))


ROWS = (
    Scenario(
        "2x8, a lock of the application",
        SERVER,
        Expected("warning", ("application_lock",), words=("py-spy", "lock")),
        (Load(clients=8, path="/lock", io_ms=20),),
        why="In each worker one request holds the lock, and three wait for it. More threads would wait as well.",
        twin=healthy("", Load(clients=8, io_ms=20)),
        resized=True,
    ),
    Scenario(
        "4x8, a lock of the application, as another user",
        Server(4, 8, ("--hook-master-start=safeexec:chmod 666 {directory}/stats",), before="chmod 755 ."),
        Expected(
            "critical",
            ("saturation",),
            also=("queue_wait",),
            words=("sudo", "a lock of the application", "a backend", "slow clients"),
            not_words=NO_MORE,
            limits=("threads",),
        ),
        (Load(clients=60, path="/lock", io_ms=40),),
        as_nobody=True,
        quick=True,
        why="All threads are busy and all interpreters idle, and this user may not see why. More threads would wait "
        "for the lock as well, and answer no more requests.",
        twin=healthy("", Load(clients=8, io_ms=40)),
        resized=True,
    ),
    Scenario(
        "2x8, an extension sleeps with the interpreter lock",
        SERVER,
        Expected("warning", ("interpreter_lock_held",), words=("extension", "processes"), limits=("other", None)),
        (Load(clients=8, path="/hold", io_ms=20),),
        why="The interpreters use hardly any CPU, and yet three of four requests wait for their lock.",
        twin=healthy("", Load(clients=8, io_ms=20)),
        resized=True,
    ),
    Scenario(
        "1x8 hashing without the interpreter lock",
        Server(1, 8),
        Expected(
            "critical",
            ("cpu_bound",),
            also=("computes_outside_the_lock",),
            not_words=NO_MORE,
            limits=("cpu",),
        ),
        (Load(clients=6, path="/hash", cpu_ms=50),),
        alone=True,
        why="The CPUs are the limit. The interpreter seems saturated by its CPU use, but no thread waits for a lock.",
        twin=healthy("", Load(rate=4, path="/hash", cpu_ms=50)),
    ),
    Scenario(
        "4x4, a saturated backend",
        Server(4, 4, backend=2),
        Expected(
            "warning",
            ("backend_saturated",),
            words=("backend", "faster", "saturated"),
            not_words=NO_MORE,
            limits=("other", None),
        ),
        (SWINGING,),
        seconds=60,
        why="The backend works on two requests at once, 50 ms on each: 40/s. At times twice as many arrive, and all 16 "
        "threads wait for it. More threads would wait as well. On average, they wait 0.3 s for one.",
        twin=healthy(
            "4x4, a backend with room, at the same load",
            server=Server(4, 4, backend=16),
            expected=Expected("ok", not_words=("saturated",)),
        ),
    ),
    Scenario(
        "4x4, the same backend at 30 %",
        Server(4, 4, backend=2),
        Expected("ok", not_words=("saturated",)),
        (Load(rate=12, path="/backend"),),
        seconds=30,
        resized=True,
    ),
    Scenario(
        "2x2, clients keep their connections",
        Server(2, 2, ("--http11-socket", "{directory}/web")),
        Expected(
            "critical",
            ("queue_wait", "clients_refused"),
            words=("keep connections open", "http11-socket", "at least"),
            not_words=NO_MORE,
        ),
        (Load(clients=4, io_ms=50, think_ms=1000, keep_alive=True), Load(rate=4, io_ms=50, most=50, start=1)),
        seconds=20,
        why="A kept connection takes a thread, also between its requests. All other clients wait until one is closed.",
        twin=healthy("", Load(clients=2, io_ms=50, think_ms=1000), Load(rate=4, io_ms=50, start=1)),
    ),
    Scenario(
        "stats over TCP, as another user",
        Server(2, 2, tcp_stats=True),
        CALM,
        (Load(part=0.3, io_ms=100),),
        as_nobody=True,
        resized=True,
    ),
    Scenario(
        "emperor with a broken vassal",
        Server(
            options=("--emperor", "{directory}/vassals", "--emperor-stats", "{directory}/stats"),
            bare=True,
            files={"vassals/broken.ini": "[uwsgi]\nmaster = true\nhttp-socket = /nonexistent/web\n"},
        ),
        Expected("warning", first=("vassals_throttled",), words=("log",)),
        seconds=8,
        lead=5,
        why="The other vassals serve; the application of this one is down, and only its emperor's log says why.",
        twin=healthy("", server={"files": {"vassals/good.ini": "[uwsgi]\nmaster = true\nhttp-socket = %dweb\n"}}),
    ),
    Scenario(
        "2x4, two backends, one of them slow",
        Server(2, 4, app=APP, beside=("answer:0.4", "answer:0.02")),
        Expected(
            "warning",
            ("waits_for_backend",),
            words=("the threads wait for python", "queries", "more `threads` help only if"),
            not_words=NO_MORE,
        ),
        (Load(clients=7, path="/ask?n=0&n=1&timeout=30"),),
        seconds=15,
        twin=healthy(
            "2x4, two backends that answer",
            Load(rate=20, path="/ask?n=0&n=1&timeout=30"),
            server=Server(2, 4, app=APP, beside=("answer:0.02", "answer:0.02")),
        ),
    ),
    Scenario(
        "2x4, a backend that does not answer",
        Server(2, 4, app=APP, beside=("hole",)),
        Expected(
            "warning",
            ("waits_for_backend",),
            words=("does not answer", "127.0.0.1:", "timeout"),
            not_words=NO_MORE,
        ),
        (Load(clients=6, path="/new?n=0&timeout=2"),),
        seconds=15,
        quick=True,
        why="Its queue of connections is full, as behind a firewall that drops packets: six threads hang until their "
        "timeout of two seconds.",
        twin=healthy(
            "2x4, a backend that answers to new connections",
            Load(rate=20, path="/new?n=0&timeout=2"),
            server=Server(2, 4, app=APP, beside=("answer:0.02",)),
        ),
    ),
    Scenario(
        "2x4, a lock around a backend that does not answer",
        Server(2, 4, app=APP, beside=("hole",)),
        Expected(
            "critical",
            ("waits_for_backend",),
            words=("does not answer", "127.0.0.1:", "that one of these threads holds", "timeout"),
            not_words=(*NO_MORE, "holds the lock for less time"),
        ),
        (Load(clients=12, path="/locked?n=0&timeout=1"),),
        seconds=15,
        why="As with a log handler whose host is gone: one thread of each worker waits for its connection, with the "
        "lock that the other three wait for. What ends the wait ends both.",
        twin=healthy("", Load(rate=20, path="/locked?n=0&timeout=1"), server={"beside": ("answer:0.02",)}),
    ),
    Scenario(
        "2x4, connections that a firewall has forgotten",
        Server(2, 4, app=APP, beside=("lost",)),
        Expected(
            "warning", ("waits_for_backend",), words=("does not answer", "127.0.0.1:", "keepalives"), not_words=NO_MORE
        ),
        (Load(clients=6, path="/ask?n=0&timeout=20"), Load(rate=5)),
        seconds=12,
        lead=5,
        why="Each thread asked once and was answered. Its next question is sent again and again, and not acknowledged.",
        twin=healthy("", Load(rate=20, path="/ask?n=0&timeout=20"), server={"beside": ("answer:0.02",)}),
    ),
    Scenario(
        "2x4, a lock around a slow backend, beside other requests",
        Server(2, 4, app=APP, beside=("answer:0.3",)),
        Expected(
            "warning",
            ("application_lock", "saturation"),
            words=("lock of the application, whose holder waits for python",),
            not_words=NO_MORE,
        ),
        (Load(clients=6, path="/locked?n=0&timeout=5"), Load(rate=10)),
        seconds=15,
        why="As with a log handler that sends mail: the others wait for the thread that talks to the mail server.",
        twin=healthy("", Load(rate=10, path="/locked?n=0&timeout=5"), server={"beside": ("answer:0.01",)}),
    ),
    Scenario(
        "2x4, slow DNS",
        Server(2, 4, app=APP, beside=("dns:0.5",)),
        Expected(
            "warning",
            ("waits_for_backend",),
            words=("dns at 127.0.9.", "resolver with a cache"),
            not_words=NO_MORE,
        ),
        (Load(clients=4, path="/lookup?n=0&timeout=5"),),
        seconds=15,
        twin=healthy(
            "2x4, DNS that answers",
            Load(rate=20, path="/lookup?n=0&timeout=5"),
            server=Server(2, 4, app=APP, beside=("dns:0.002",)),
        ),
    ),
    Scenario(
        "psycopg2 and a slow query",
        _server("psycopg2", "postgres"),
        Expected(
            "warning",
            ("waits_for_backend",),
            words=("the threads wait for postgres at 127.0.9.", ":5432", "queries"),
            not_words=NO_MORE,
        ),
        (Load(clients=7, io_ms=400),),
        seconds=15,
        lead=4,
        skip=needs("psycopg2-binary", servers=POSTGRES),
        why="Seven of eight threads wait for their query: libpq waits in poll(2) for a socket that it has made "
        "non-blocking.",
        twin=healthy("psycopg2 and a fast query", Load(rate=20, io_ms=10)),
    ),
    Scenario(
        "SQLAlchemy's pool of five",
        _server("sqlalchemy", "postgres", threads=16),
        Expected(
            "warning",
            ("pool_exhausted",),
            words=("a place in a pool of 5", "pool_size"),
            not_words=("one request at a time", *NO_MORE),
        ),
        (Load(clients=28, io_ms=100),),
        seconds=15,
        lead=5,
        skip=needs("psycopg2-binary", "sqlalchemy", servers=POSTGRES),
        twin=healthy("SQLAlchemy's pool with room", Load(clients=4, io_ms=100)),
    ),
    Scenario(
        "Django and a row that all requests lock",
        _server("django", "postgres"),
        Expected(
            "warning",
            ("waits_for_backend", "backend_saturated"),
            words=("postgres at 127.0.9.", ":5432"),
            not_words=NO_MORE,
        ),
        (Load(clients=7, io_ms=50),),
        seconds=15,
        lead=4,
        skip=needs("psycopg2-binary", "django", servers=POSTGRES),
        twin=healthy("Django and rows that nobody waits for", Load(rate=5, io_ms=20)),
    ),
    Scenario(
        "redis-py and a blocked Redis",
        _server("redis", "redis"),
        Expected(
            "warning",
            ("waits_for_backend", "backend_saturated"),
            words=("redis at 127.0.9.", ":6379"),
            not_words=NO_MORE,
        ),
        (Load(clients=7, io_ms=50),),
        seconds=15,
        lead=4,
        skip=needs("redis", servers=("redis-server",)),
        why="Redis does one command at a time, and each takes 50 ms: seven of eight threads wait for it, on sockets "
        "with a timeout.",
        twin=healthy("redis-py and a Redis that answers", Load(rate=20, io_ms=1)),
    ),
    Scenario(
        "requests and a server that does not answer",
        _server("requests", "hole"),
        Expected(
            "warning", ("waits_for_backend",), words=("does not answer", "127.0.0.1:", "timeout"), not_words=NO_MORE
        ),
        (Load(clients=6, io_ms=2000),),
        seconds=15,
        lead=4,
        skip=needs("requests"),
        twin=healthy(
            "requests and an nginx that answers",
            Load(rate=10, io_ms=2000),
            server=_server("requests", "nginx"),
            skip=needs("requests", servers=("nginx",)),
        ),
    ),
    Scenario(
        "nginx gives up before the answer",
        Server(4, 2, nginx="proxy_read_timeout 100ms;"),
        Expected(
            "warning",
            ("clients_left",),
            words=("clients disconnect", "proxy_read_timeout"),
            not_words=("traceback", *NO_MORE),
        ),
        (Load(rate=15, io_ms=200, socket="front"), Load(rate=5, io_ms=20, socket="front")),
        skip=needs(servers=("nginx",)),
        twin=healthy("nginx that waits for the answer", server=Server(4, 2, nginx="proxy_read_timeout 5s;")),
    ),
    Scenario(
        "nginx and a response with large headers",
        replace(LARGE_HEAD, nginx="proxy_buffer_size 8k;"),
        Expected(
            "warning",
            ("web_server_fails",),
            words=("headers are larger than its buffer", "proxy_buffer_size"),
            not_words=("traceback", *NO_MORE),
        ),
        (Load(rate=10, socket="front"),),
        log=True,
        skip=as_root,
        twin=healthy("", server=replace(LARGE_HEAD, nginx="proxy_buffer_size 32k; proxy_buffers 8 32k;")),
    ),
    Scenario(
        "nginx and bodies that the application does not read",
        Server(2, 2, nginx=UPLOADS),
        Expected(
            "warning",
            ("web_server_fails",),
            words=("before it has read the request", "post-buffering"),
            not_words=("traceback", *NO_MORE),
        ),
        (Load(rate=10, socket="front"),),
        log=True,
        skip=as_root,
        twin=healthy("", server=Server(2, 2, ("--post-buffering", "8192"), nginx=UPLOADS)),
    ),
)
