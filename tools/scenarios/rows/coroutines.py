"""Requests that wait in coroutines (gevent, and uWSGI's own ugreen), for threads that serve none, or for each other.

Only the gevent rows have coroutines that wait: in ugreen, of several requests that wait at once, none ever ends (uWSGI
2.0.31). Those with threads need the right to see waits, as the rows in `waits` do.
"""

from tools.scenarios.scenario import APPS, CALM, NO_MORE, Expected, Load, Scenario, Server, healthy

GEVENT = Server(2, 20, ("--gevent", "20", "--gevent-monkey-patch"))
UNPATCHED = ("--gevent", "20")
NO_MORE_COROUTINES = ("raise `gevent`", "raise `async`", *NO_MORE)
KERNEL_APP = APPS / "kernel_app.py"
OUTSIDE_APP = APPS / "outside_app.py"
FULL = Expected("warning", ("saturation",), words=("async",), not_words=("raise `threads`",), limits=("threads",))
APP = APPS / "threads_app.py"
CONSUMER = ("--env", "CONSUMER=1")

ROWS = (
    Scenario(
        "async on the CPU",
        Server(1, 20, ("--ugreen", "--async", "20")),
        Expected(
            "critical",
            ("interpreter_bound", "queue_wait", "saturation"),
            words=("processes",),
            not_words=("raise `gevent`", "raise `async`", "raise `threads`"),
            limits=("interpreters", "hottest_interpreter"),
        ),
        (Load(clients=16, cpu_ms=80),),
        alone=True,
        why="One interpreter at its limit: 16 users wait 1.3 s for 80 ms of work. More coroutines make it worse.",
        twin=healthy("", Load(rate=3, cpu_ms=80)),
    ),
    Scenario("gevent at rest", GEVENT, CALM, (Load(clients=4, io_ms=200),)),
    Scenario(
        "gevent with long requests",
        GEVENT,
        CALM,
        (Load(clients=20, io_ms=50_000), Load(clients=2, io_ms=50)),
        lead=33,
        why="Event streams and long polls last by nature, and half of the cores are free.",
    ),
    Scenario("gevent full", GEVENT, FULL, (Load(clients=40, io_ms=400),), twin="gevent at rest"),
    Scenario(
        "gevent, more clients than cores",
        GEVENT,
        Expected(
            "critical",
            ("saturation", "queue_wait"),
            words=("all async cores are busy", "gevent", "without a pause"),
            not_words=("CPUs", "`processes`", "`threads`"),
            limits=("threads",),
        ),
        (Load(clients=70, io_ms=400),),
        why="uWSGI looks for a free core without a pause and uses all CPUs for that; more CPUs would not serve more.",
        twin="gevent at rest",
    ),
    Scenario(
        "gevent, a call that sleeps",
        Server(2, 20, UNPATCHED),
        Expected(
            "critical",
            ("loop_held",),
            words=(
                "the event loops of workers 1 and 2 are blocked by calls that are sleeping",
                "gevent-early-monkey-patch",
            ),
            not_words=NO_MORE_COROUTINES,
            limits=("other",),
        ),
        (Load(clients=20, io_ms=200),),
        why="Nothing is patched, so each worker serves one request at a time, and 18 of 20 clients wait in the queue.",
        twin="gevent, calls that yield",
    ),
    Scenario("gevent, calls that yield", GEVENT, CALM, (Load(clients=20, io_ms=200),)),
    Scenario(
        "gevent, a connection that is not answered",
        Server(2, 20, UNPATCHED, app=OUTSIDE_APP, beside=("hole",)),
        Expected(
            "critical",
            ("loop_held",),
            words=("blocked by calls that are connecting to 127.0.0.1:", "gevent-early-monkey-patch"),
            not_words=NO_MORE_COROUTINES,
        ),
        (Load(clients=6, path="/new?n=0&timeout=5"),),
        seconds=15,
        twin=healthy(
            "gevent, connections that yield", server=Server(2, 20, GEVENT.options, app=OUTSIDE_APP, beside=("hole",))
        ),
    ),
    Scenario(
        "gevent, the lock of a file",
        Server(2, 20, GEVENT.options, app=KERNEL_APP),
        Expected(
            "critical",
            ("loop_held",),
            words=("blocked by calls that are waiting for the lock of a file", "threadpool"),
            not_words=NO_MORE_COROUTINES,
            limits=("other",),
        ),
        (Load(clients=6, path="/flock", io_ms=100),),
        why="One coroutine sleeps with the lock, another one of the same thread waits for it in the kernel: no loop "
        "ever goes on.",
        twin="gevent, calls that yield",
    ),
    Scenario(
        "gevent, a call that computes",
        GEVENT,
        Expected(
            "warning",
            ("loop_held",),
            words=("blocked by calls that are computing", "another process"),
            not_words=NO_MORE_COROUTINES,
        ),
        (Load(clients=1, cpu_ms=4000), Load(clients=10, io_ms=50)),
        alone=True,
        twin=healthy("gevent at 60 % of a CPU", Load(rate=200, cpu_ms=2), server=Server(1, 20, GEVENT.options)),
    ),
    Scenario(
        "gevent with event streams",
        Server(1, 20, ("--gevent", "30", "--gevent-monkey-patch")),
        Expected("ok"),
        (Load(clients=20, path="/events?seconds=60", cpu_ms=2),),
        alone=True,
        why="20 streams send ten events a second each: the loop computes 40 % of the time, and no request ends.",
    ),
    Scenario(
        "an executor of two threads",
        Server(2, 8, app=APP),
        Expected(
            "critical",
            ("waits_for_threads",),
            words=("no running request of the same worker could hold this lock", "max_workers"),
            not_words=(*NO_MORE, "hold the lock"),
            limits=("other",),
        ),
        (Load(rate=60, io_ms=100, path="/executor", most=100),),
        lead=4,
        why="Each request waits until one of two threads of its worker has slept 100 ms for it: no request holds what "
        "the others wait for.",
        twin=healthy(
            "an executor with room",
            Load(clients=5, io_ms=100, path="/executor"),
            server=Server(2, 8, ("--env", "EXECUTOR=8"), app=APP),
            lead=2,
        ),
    ),
    Scenario(
        "a thread that was started before the fork",
        Server(2, 4, CONSUMER, app=APP),
        Expected(
            "warning",
            ("waits_for_threads",),
            words=("only in uwsgi's master", "before uwsgi forked", "set `lazy-apps`"),
            not_words=NO_MORE,
        ),
        (Load(clients=5, io_ms=20, path="/consumer"),),
        lead=8,
        twin=healthy(
            "a thread that each worker has started",
            Load(clients=4, io_ms=20, think_ms=100, path="/consumer"),
            server=Server(2, 4, (*CONSUMER, "--lazy-apps"), app=APP),
            lead=4,
        ),
    ),
    Scenario(
        "a C library that answers from a thread of its own",
        Server(2, 8, app=APP),
        Expected("ok", not_words=("lock of the application",), limits=("threads",)),
        (Load(rate=60, io_ms=100, path="/native"),),
        why="As with gRPC: each request waits in a condition variable of the C library for its own answer, at times "
        "beside requests that sleep, and none has what another one waits for.",
    ),
    Scenario(
        "a rate limit that requests sleep for",
        Server(2, 4, app=APP),
        Expected(
            "critical",
            ("saturation",),
            words=("if requests sleep because of a rate limit",),
            not_words=("serves at least",),
        ),
        (Load(clients=16, path="/limited"),),
        why="Ten requests a second are served, whatever the number of threads. From outside, this sleep is like any "
        "other, so no figure is promised.",
        twin=healthy("", Load(rate=3, path="/limited")),
    ),
    Scenario(
        "a lock that all processes share",
        Server(4, 2, app=APP),
        Expected(
            "warning",
            ("application_lock",),
            words=("all processes", "more threads or processes would also wait"),
            not_words=(*NO_MORE, "processes` help"),
            limits=("lock",),
        ),
        (Load(clients=8, io_ms=30, path="/processes"),),
        twin=healthy("", Load(clients=3, io_ms=30)),
    ),
    Scenario(
        "two locks, taken in both orders",
        Server(2, 4, app=APP),
        Expected(
            "critical",
            ("waits_for_threads",),
            words=("deadlock", "or each other, and never end"),
            not_words=NO_MORE,
        ),
        (Load(rate=20, io_ms=50, path="/deadlock", most=40),),
        seconds=16,
        lead=4,
        twin=healthy("", Load(rate=20, io_ms=50)),
    ),
    Scenario(
        "requests that call their own server",
        Server(4, 2, ("--http-socket", "{tcp}", "--env", "SELF={tcp}"), app=APP),
        Expected(
            "critical",
            ("waits_for_backend",),
            words=("call the uwsgi that serves them", "call the code behind the second requests"),
            not_words=NO_MORE,
        ),
        (Load(rate=30, io_ms=200, path="/itself", socket="tcp", most=60),),
        twin=healthy("", Load(rate=2, io_ms=200, path="/itself", socket="tcp")),
    ),
    Scenario(
        "a thread of the application computes",
        Server(1, 4, app=APP),
        Expected(
            "warning",
            ("interpreter_bound", "interpreter_lock_held"),
            words=("threads that serve no request", "mule"),
            not_words=NO_MORE,
        ),
        (Load(rate=20, io_ms=10, path="/computes"),),
        alone=True,
        why="The interpreter is saturated by a thread in the background; requests wait for its lock, again and again. "
        "Another process would start such a thread as well.",
        twin=healthy("", Load(rate=20, io_ms=10)),
    ),
    Scenario(
        "an event loop in each request",
        Server(2, 4, app=APP, backend=64),
        Expected("critical", ("waits_for_backend",), words=("at 127.0.0.1:",), not_words=("py-spy", "is not known")),
        (Load(clients=16, io_ms=200, path="/event_loop"),),
        why="`asyncio.run()` makes a loop with a pair of sockets that wakes it up; what the request waits for is the "
        "backend.",
        twin=healthy("", Load(clients=2, io_ms=200, path="/event_loop")),
    ),
)
