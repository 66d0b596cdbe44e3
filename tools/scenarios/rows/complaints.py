"""What operators complain of, each beside a twin of the same setup without the fault.

The kernel knows of the first ones: they need the right to see waits, and the quotas cgroups of version 1. uWSGI's own
document shows the later ones.
"""

from tools.scenarios import actions
from tools.scenarios.scenario import APPS, CALM, NO_MORE, Event, Expected, Load, Scenario, Server, healthy

APP = APPS / "kernel_app.py"
DEPLOYED = ("--lazy-apps", "--touch-workers-reload", "{directory}/reload")
BACKEND = ("--env", "BACKEND={backend}")
TOGETHER = ("--lazy-apps", "--thunder-lock", "--min-worker-lifetime", "0")
"""Workers that share the requests evenly, and load the application at each start."""

OWN_SOCKET = ("--socket", "{directory}/app")
STATIC = ("--static-map", "/static={directory}/files")
SLOW_READERS = Load(clients=12, path="/static/big.txt", late_ms=1000)

THREADS_APP = APPS / "threads_app.py"

ROWS = (
    Scenario(
        "sys.exit() in requests of workers with threads",
        Server(2, 4, app=THREADS_APP),
        Expected(
            "critical",
            ("requests_lost", "respawn_loop", "workers_ended"),
            not_words=("the lock's holder", *NO_MORE),
        ),
        (Load(rate=10, io_ms=50), Load(rate=0.3, path="/exits", most=9)),
        seconds=18,
        lead=8,
        why="Python waits for the worker's other threads, which do not end: the first such request hangs at a lock of "
        "threading.py, and the second one ends the worker.",
        twin=healthy("", Load(rate=10, io_ms=50)),
    ),
    Scenario(
        "throttled by a CPU quota",
        Server(2, 2, quota=0.25),
        Expected("critical", ("cpu_throttled",), words=("cpu quota", "headroom-"), not_words=NO_MORE),
        (Load(rate=1.5, cpu_ms=60),),
        alone=True,
        why="60 ms of CPU take about 240 ms, because each 0.1 s has 25 ms of it: the quota stops the worker while the "
        "CPUs are idle and the mean use is a third of the quota.",
        twin="a CPU quota that nobody feels",
    ),
    Scenario(
        "a CPU quota that nobody feels",
        Server(2, 2, quota=0.25),
        Expected("ok"),
        (Load(rate=5, cpu_ms=4, io_ms=20),),
        alone=True,
    ),
    Scenario(
        "programs whose output nobody reads",
        Server(2, 4, app=APP),
        Expected("warning", ("request_stuck",), words=("ps --ppid", "communicate"), not_words=NO_MORE),
        (Load(clients=2, path="/unread?io_ms=200000", requests=1), Load(rate=10, io_ms=20)),
        lead=26,
        why="A pipe holds 64 KB: the program waits until more is read, and the request until the program ends.",
        twin=healthy("", Load(rate=5, path="/unread?io_ms=2000"), Load(rate=10, io_ms=20)),
    ),
    Scenario(
        "the http router gives up first",
        Server(2, 4, ("--http", "{tcp}", "--http-timeout", "2", "--http-to", "{directory}/app", *OWN_SOCKET)),
        Expected("warning", ("clients_left",), words=("http-timeout` (2)",), not_words=NO_MORE),
        (Load(clients=2, io_ms=4000, socket="tcp"), Load(rate=5, io_ms=20, socket="tcp")),
        seconds=20,
        lead=5,
        twin=healthy("", Load(clients=2, io_ms=1000, socket="tcp"), Load(rate=5, io_ms=20, socket="tcp")),
    ),
    Scenario(
        "a connection opened before the fork",
        Server(5, 2, (*BACKEND, "--env", "IMPORT=shared"), app=APP, backend=64),
        Expected(
            "critical",
            ("connection_shared",),
            words=("share one connection to 127.0.0.1:", "and mix up responses", "@postfork", "lazy-apps"),
            not_words=NO_MORE,
            limits=("other", None),
        ),
        (Load(clients=5, io_ms=50, path="/shared"),),
        seconds=15,
        quick=True,
        why="50 ms become 250 ms, because the backend answers one query of a connection at a time, and all five "
        "workers use the same one.",
        twin=healthy(
            "a connection of each worker",
            Load(clients=3, io_ms=50, path="/own"),
            server=Server(5, 2, BACKEND, app=APP, backend=64),
        ),
    ),
    Scenario(
        "standard output is a pipe that nobody reads",
        Server(2, 4, app=APP, before="mkfifo pipe; exec 3<>pipe", output="> pipe 2>&1"),
        Expected(
            "critical",
            ("output_blocked",),
            words=("blocked writing to a pipe", "standard output"),
            not_words=(*NO_MORE, "lock of the application"),
        ),
        (Load(clients=12, io_ms=5, path="/print"),),
        lead=5,
        quick=True,
        why="The pipe is full after 64 KB: in each worker a thread is in write(2), and the others wait for the lock "
        "that Python holds meanwhile. Nothing completes.",
        twin=healthy(
            "standard output is a pipe that is read",
            Load(clients=3, io_ms=50, path="/print"),
            server=Server(2, 4, app=APP, before="mkfifo pipe; cat pipe > /dev/null &", output="> pipe 2>&1"),
            lead=2,
        ),
    ),
    Scenario(
        "a leak of descriptors reaches the limit",
        Server(2, 2, ("--max-fd", "64"), app=APP),
        Expected("critical", ("descriptors_used_up",), words=("file descriptors", "max-fd"), not_words=NO_MORE),
        (Load(rate=20, io_ms=10, path="/open"),),
        lead=6,
        twin=healthy("few descriptors and no leak", Load(rate=20, io_ms=10), lead=2),
    ),
    Scenario(
        "a timer that runs in a worker",
        Server(2, 1, ("--env", "IMPORT=timer"), app=APP),
        Expected("warning", ("signal_handlers",), words=("target='mule'", "of 2 threads"), not_words=NO_MORE),
        (Load(rate=100, io_ms=10),),
        twin=healthy(
            "a timer that runs in a mule", server=Server(2, 1, ("--env", "IMPORT=mule", "--mules", "1"), app=APP)
        ),
    ),
    Scenario(
        "a leak of threads",
        Server(2, 2, app=APP),
        Expected(
            "warning", ("threads_growing",), words=("starting threads that do not end", "one pool"), not_words=NO_MORE
        ),
        (Load(rate=40, io_ms=10, path="/thread"),),
        lead=9,
        twin=healthy("a pool of threads that fills up", Load(rate=40, io_ms=10, path="/thread?pool=1"), lead=2),
    ),
    Scenario(
        "the import waits for a backend",
        Server(3, 2, (*DEPLOYED, *BACKEND, "--env", "IMPORT=connect"), app=APP, backend=64),
        Expected(
            "critical",
            ("start_hangs",),
            words=("a long time to start", "waiting for 127.0.0.1:", "import"),
            not_words=NO_MORE,
        ),
        (Load(rate=10, io_ms=20),),
        (Event(0.5, actions.deploy_hanging),),
        seconds=25,
        twin="the same reload with an import that ends",
    ),
    Scenario(
        "the import waits for a lock",
        Server(3, 2, DEPLOYED, app=APP),
        Expected("critical", ("start_hangs",), words=("a long time to start", "waiting for a lock"), not_words=NO_MORE),
        (Load(rate=10, io_ms=20),),
        (Event(0.5, actions.deploy_hanging),),
        seconds=25,
        twin="the same reload with an import that ends",
    ),
    Scenario(
        "the same reload with an import that ends",
        Server(3, 2, DEPLOYED, app=APP),
        Expected("ok"),
        (Load(clients=1, io_ms=20),),
        (Event(0.5, actions.touch),),
        seconds=25,
    ),
    Scenario(
        "a full reload waits for a request",
        Server(3, 2),
        Expected(
            "critical",
            ("reload_waits",),
            words=("a reload waits until worker", "worker-reload-mercy", "chain reload"),
            not_words=("log", *NO_MORE),
        ),
        (Load(rate=10, io_ms=20), Load(clients=1, io_ms=50_000, requests=1)),
        (Event(2, actions.reload),),
        seconds=18,
        why="uWSGI has ended the idle workers, and starts new ones when the last request has ended: nobody is served.",
        twin="full reload",
    ),
    Scenario(
        "a worker at max-requests waits for a long request",
        Server(1, 4, ("--max-requests", "60", "--min-worker-lifetime", "0")),
        Expected(
            "critical",
            ("workers_ending",),
            words=("takes no new request until its running request", "`max-requests`", "end it with `kill -term"),
            not_words=("log", *NO_MORE),
        ),
        (Load(rate=20, io_ms=20), Load(clients=1, io_ms=60_000, requests=1)),
        lead=9,
        seconds=12,
        why="It has served what it may, and does not end before a request that takes a minute.",
        twin=healthy("", server={"options": ()}),
    ),
    Scenario(
        "a full reload that has two minutes waits",
        Server(3, 2, ("--worker-reload-mercy", "120")),
        Expected(
            "critical",
            ("reload_waits",),
            words=("a reload waits until worker", "now 120", "chain reload"),
            not_words=("log", *NO_MORE),
        ),
        (Load(rate=10, io_ms=20), Load(clients=1, io_ms=50_000, requests=1)),
        (Event(2, actions.reload),),
        seconds=18,
        twin="full reload",
    ),
    Scenario(
        "one file lock for all processes",
        Server(4, 2, app=APP),
        Expected(
            "warning",
            ("application_lock",),
            words=("lock of the application, on a file", "all processes"),
            not_words=("more `processes` help",),
            limits=("lock",),
        ),
        (Load(clients=8, io_ms=30, path="/flock"),),
        twin=healthy("", Load(clients=3, io_ms=30)),
    ),
    Scenario(
        "a program has the lock of a worker that ended",
        Server(2, 4, app=APP),
        Expected(
            "warning",
            ("application_lock",),
            words=("lock of the application, on a file", "`kill -9`", "lsof", "close_fds"),
            not_words=("py-spy", "for less time"),
        ),
        (Load(clients=1, requests=1, path="/leave"), Load(clients=6, io_ms=20, path="/flock", start=2)),
        lead=5,
        why="The kernel names the worker that took it, and ended. The program that it started has the same open file, "
        "and ignores SIGTERM, as the threads of uWSGI do.",
        twin=healthy("", Load(clients=3, io_ms=20)),
    ),
    Scenario(
        "a pool of five connections",
        Server(2, 16, BACKEND, app=APP, backend=64),
        Expected(
            "warning",
            ("pool_exhausted",),
            words=("a place in a pool of 5", "5 requests of a worker run at once", "pool_size"),
            not_words=("one request at a time", *NO_MORE),
        ),
        (Load(clients=28, io_ms=100, path="/pool"),),
        why="Of some 14 requests in each worker, five have a connection, and nine wait for one.",
        twin=healthy("a pool that is large enough", Load(clients=4, io_ms=100, path="/pool")),
    ),
    Scenario(
        "SQLite that one request writes to at a time",
        Server(2, 4, app=APP),
        Expected(
            "critical",
            ("sleeps_again",),
            words=("sleep again and again", "sqlite", "help only long polls"),
            not_words=NO_MORE,
            limits=("other",),
        ),
        (Load(clients=16, io_ms=60, path="/sqlite"),),
        seconds=12,
        why="A request has the file for 60 ms. The others sleep, try again and sleep; the kernel knows of no lock.",
        twin=healthy("SQLite with room", Load(clients=1, io_ms=60, path="/sqlite"), seconds=12),
    ),
    Scenario(
        "requests that sleep once, in every thread",
        Server(2, 4, app=APP),
        Expected("critical", ("saturation", "queue_wait"), words=("threads",), not_words=("try again",)),
        (Load(clients=16, io_ms=300, path="/"),),
        seconds=12,
        why="They try nothing: more threads help.",
        twin=healthy("", Load(clients=1, io_ms=100)),
    ),
    Scenario(
        "a semaphore of two, held while asleep",
        Server(2, 4, app=APP),
        Expected("critical", ("pool_exhausted",), words=("a place in a pool of 2",), not_words=NO_MORE),
        (Load(clients=16, io_ms=200, path="/two"),),
        seconds=12,
        why="Two of four threads wait for it, half of the time of a request: more threads would all wait.",
        twin=healthy("", Load(clients=2, io_ms=200, path="/two")),
    ),
    Scenario(
        "a lock, and then a sleep without it",
        Server(2, 8, app=APP),
        Expected(
            "warning",
            ("application_lock",),
            words=("a lock of the application",),
            not_words=("pool", *NO_MORE[:1]),
            limits=("lock", "other"),
        ),
        (Load(clients=14, path="/turn", io_ms=30),),
        why="Two threads of each worker sleep most of the time, as with a pool of two; but one has the lock, and the "
        "other one does not need it any more.",
        twin=healthy("", Load(clients=2, io_ms=30, path="/turn")),
    ),
    Scenario(
        "requests that start programs which compute",
        Server(2, 4, app=APP),
        Expected(
            "critical", ("cpu_bound",), words=("programs that the application starts use all cpus",), not_words=NO_MORE
        ),
        (Load(clients=16, io_ms=20, path="/run"),),
        seconds=12,
        alone=True,
        twin=healthy("requests that start few programs", Load(rate=1, io_ms=5, path="/run"), seconds=12),
    ),
    Scenario(
        "two mules compute",
        Server(2, 2, ("--mule=burn.py", "--mule=burn.py"), files={"burn.py": "while True:\n    pass\n"}),
        Expected("warning", ("cpu_used_by_others", "cpu_bound"), words=("uwsgi's own mules",), not_words=NO_MORE),
        (Load(rate=8, cpu_ms=40),),
        alone=True,
        twin=healthy(
            "two mules at rest",
            server=Server(
                2, 2, ("--mule=rest.py", "--mule=rest.py"), files={"rest.py": "import time\ntime.sleep(1000)\n"}
            ),
        ),
    ),
    Scenario(
        "a leak reaches the cgroup's memory limit",
        Server(2, 2, memory=120 << 20),
        Expected(
            "critical",
            ("out_of_memory",),
            words=("killed because memory ran out", "reload-on-rss", "memory limit of the cgroup"),
            not_words=("dmesg", *NO_MORE),
        ),
        (Load(rate=8, io_ms=200, path="/leak?kb=4096"),),
        seconds=18,
        twin=healthy(
            "a memory limit that nobody reaches",
            Load(rate=8, io_ms=50),
            server=Server(2, 2, memory=400 << 20),
            seconds=12,
        ),
    ),
    Scenario(
        "clients leave before the answer",
        Server(4, 2),
        Expected(
            "warning",
            ("clients_left",),
            words=("clients disconnect", "timeout"),
            not_words=("traceback", "processes", "threads"),
        ),
        (Load(rate=15, io_ms=200, patience_ms=100), Load(rate=5, io_ms=20)),
        twin="clients that have time for the answer",
    ),
    Scenario(
        "clients leave, and the application fails",
        Server(4, 2),
        Expected("warning", ("exceptions", "clients_left"), ("exceptions", "clients_left"), words=()),
        (Load(rate=10, io_ms=200, patience_ms=100), Load(rate=10, io_ms=20, path="/error")),
        twin="clients that have time for the answer",
    ),
    Scenario(
        "clients that have time for the answer",
        Server(4, 2),
        Expected("ok"),
        (Load(rate=15, io_ms=200, patience_ms=5000), Load(rate=5, io_ms=20)),
    ),
    Scenario(
        "the holder of the thunder lock is stopped",
        Server(4, 1, ("--thunder-lock",)),
        Expected(
            "critical",
            ("accept_blocked",),
            words=("workers are idle", "pid", "accept lock", "kill -cont"),
            not_words=("processes",),
        ),
        (Load(part=0.2, io_ms=50),),
        (Event(3, actions.stop_accept_lock_holder),),
        quick=True,
        why="Nobody is served from then on: with `thunder-lock` only the holder of its lock may accept.",
        twin=healthy("a thunder lock that works", Load(part=0.5, io_ms=50), expected=CALM),
    ),
    Scenario(
        "a worker of four is stopped",
        Server(4, 1),
        Expected("warning", ("workers_stopped",), words=("stopped", "kill -cont"), not_words=("processes",)),
        (Load(part=0.2, io_ms=50),),
        (Event(1, actions.stop_worker),),
    ),
    Scenario(
        "all workers reach max-requests together",
        Server(4, 1, ("--max-requests", "100", *TOGETHER), before="touch slow"),
        Expected(
            "critical",
            ("recycled_together",),
            words=("all workers reach `max-requests` together", "max-requests-delta"),
            not_words=("`processes`",),
            limits=("other", None),
        ),
        (Load(rate=27, io_ms=100),),
        seconds=20,
        lead=8,
        why="They share the requests evenly, so that all load the application at once, for three seconds.",
        twin=healthy(
            "max-requests with a delta",
            Load(rate=10, io_ms=50),
            server=Server(4, 1, ("--max-requests", "60", "--max-requests-delta", "40", *TOGETHER), before="touch slow"),
            expected=CALM,
            lead=30,
        ),
    ),
    Scenario(
        "SIGTERM without die-on-term",
        Server(4, 1, die_on_term=False),
        Expected("warning", ("requests_lost",), words=("sigterm", "die-on-term"), not_words=("dmesg", "died")),
        (Load(part=0.5, io_ms=1000),),
        (Event(5, actions.terminate),),
        why="Two requests or so are in service and are lost, of some twenty: one event, with one cause.",
    ),
    Scenario(
        "a leak that reload-on-rss cannot keep up with",
        Server(2, 1, ("--reload-on-rss", "50", "--lazy-apps", "--min-worker-lifetime", "0"), before="touch slow"),
        Expected(
            "critical",
            ("respawn_loop", "recycled_together"),
            words=("memory grows", "reload-on-rss", "per request (measured in"),
            not_words=("raise `processes`", "cpu"),
            limits=(None,),
        ),
        (Load(rate=10, io_ms=10, path="/leak?kb=2048"),),
        seconds=20,
        lead=5,
        why="Each worker serves some ten requests, and then the next one loads the application for three seconds.",
        twin="leak with reload-on-rss",
    ),
    Scenario(
        "a limit of address space",
        Server(2, 2, ("--limit-as", "300"), app=APP),
        Expected("warning", ("address_space_used_up",), words=("`limit-as`", "reload-on-rss"), not_words=NO_MORE),
        (Load(rate=5, io_ms=10), Load(rate=1, path="/report?kb=300000")),
        twin=healthy(
            "no limit of address space",
            Load(rate=5, io_ms=10),
            Load(rate=0.2, path="/report?kb=300000"),
            server=Server(2, 2, app=APP),
        ),
    ),
    Scenario(
        "cheaper at its limit of memory",
        Server(4, 1, ("--cheaper", "1", "--memory-report", "--cheaper-rss-limit-soft", "1000000")),
        Expected("critical", ("cheaper_does_not_scale",), words=("cheaper-rss-limit-soft",), limits=("threads", None)),
        (Load(clients=6, io_ms=300),),
        seconds=15,
        lead=5,
        twin=healthy(
            "cheaper below its limit",
            Load(clients=2, io_ms=300),
            server=Server(4, 1, ("--cheaper", "1", "--memory-report", "--cheaper-rss-limit-soft", "9000000000")),
        ),
    ),
    Scenario(
        "files of metrics of workers that ended",
        Server(2, 2, app=APP, before="for i in $(seq 1200); do : > counter_$i.db; done"),
        Expected(
            "warning", ("metrics_files",), words=("files of prometheus_client", "before each start"), not_words=NO_MORE
        ),
        (Load(rate=5, io_ms=10),),
        twin=healthy("files of metrics of workers that run", server=Server(2, 2, app=APP, before="touch counter_1.db")),
    ),
    Scenario(
        "a full cache",
        Server(2, 2, ("--cache2", "name=pages,items=50")),
        Expected("warning", ("cache_full",), words=("cache `pages` is full", "`items`"), not_words=("processes",)),
        (Load(rate=20, io_ms=5, path="/cache"),),
        twin=healthy("a cache with room", server=Server(2, 2, ("--cache2", "name=pages,items=5000"))),
    ),
    Scenario(
        "a spooler that falls behind",
        Server(2, 2, ("--spooler", "{directory}/spool"), before="mkdir spool"),
        Expected("warning", ("spooler_behind",), words=("spooler falls behind", "spooler-processes")),
        (Load(rate=3, io_ms=5, path="/spool?task_ms=2000"),),
        seconds=24,
        lead=8,
        twin=healthy("a spooler that keeps up", Load(rate=3, io_ms=5, path="/spool?task_ms=20")),
    ),
    Scenario(
        "static files for slow clients",
        Server(2, 2, STATIC, files={"files/big.txt": "x" * 2_000_000}),
        Expected(
            "critical", ("static_files",), words=("static files hold the threads", "offload-threads"), not_words=NO_MORE
        ),
        (SLOW_READERS, Load(rate=1, io_ms=20)),
        why="A client that reads after a second holds its worker's thread until then.",
        twin=healthy(
            "static files by offload threads",
            server=Server(2, 2, (*STATIC, "--offload-threads", "2"), files={"files/big.txt": "x" * 2_000_000}),
            expected=Expected("ok", limits=("threads", None)),
        ),
    ),
)
