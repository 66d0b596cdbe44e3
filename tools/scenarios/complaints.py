"""What operators of uWSGI complain of, and the rows that have each complaint: `docs/complaints.md`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tools.scenarios.rows import ROWS
from tools.scenarios.scenario import Expected
from tools.tables import table


@dataclass(frozen=True)
class Complaint:
    """what: in the words of who has it. rows: the names of the rows that have it; their first findings answer it.
    made_at: threads on GitHub, `OWNER/NAME#NUMBER`, or another source. needs: what the answer needs. more: where else
    it is answered, as Markdown; instead of a row only if a scenario cannot have it."""

    what: str
    rows: tuple[str, ...] = ()
    made_at: tuple[str, ...] = ()
    needs: str = "stats"
    more: str = ""


WAITS = "the right of [waits](waits.md#rights)"
REVIEW = "[review](settings.md#review-the-settings-that-will-cause-trouble)"

COMPLAINTS = (
    Complaint(
        "Requests fail, and no counter shows them: their head is above `buffer-size`",
        ("heads above buffer-size, with the log",),
        ("unbit/uwsgi#1164",),
        "[uWSGI's log](log.md); CRITICAL only over TCP, where the kernel's count of connections agrees",
    ),
    Complaint(
        "The modifier's plugin is missing, and all requests fail",
        ("a modifier without a plugin", "a modifier without a plugin, with the log"),
        needs="stats; the modifier: uWSGI's log",
    ),
    Complaint(
        "With gevent, one call stops all requests of its worker: nothing is patched, or a library in C blocks",
        ("gevent, a call that sleeps", "gevent, a connection that is not answered", "gevent, a call that computes"),
        ("unbit/uwsgi#701", "unbit/uwsgi#1990"),
        WAITS,
    ),
    Complaint(
        "Cheaper mode starts workers when requests already wait, and the application takes a long time to load",
        ("cheaper, an application that loads slowly",),
    ),
    Complaint(
        "A CPU quota stops the workers, although they use little CPU",
        ("throttled by a CPU quota",),
        ("kubernetes/kubernetes#67577",),
        "cgroups",
    ),
    Complaint(
        "Requests are slow, or get each other's answers: a connection was opened before the fork",
        ("a connection opened before the fork",),
        ("sqlalchemy/sqlalchemy#5955", "nautobot/nautobot#127"),
        WAITS,
    ),
    Complaint(
        "Nobody serves although workers are idle: the holder of the accept lock is stopped",
        ("the holder of the thunder lock is stopped",),
        ("unbit/uwsgi#2461", "unbit/uwsgi#1028"),
        "stats; the holder's state from `/proc`",
    ),
    Complaint("A worker is stopped, and its requests hang", ("a worker of four is stopped",), needs="`/proc`"),
    Complaint(
        "Exceptions that are none: clients, or nginx, leave before the answer",
        ("clients leave before the answer", "nginx gives up before the answer"),
        ("unbit/uwsgi#375",),
    ),
    Complaint(
        "SIGTERM reloads uWSGI and loses requests",
        ("SIGTERM without die-on-term",),
        ("unbit/uwsgi#849", "unbit/uwsgi#1974"),
        "stats; uWSGI's options",
        REVIEW,
    ),
    Complaint(
        "A reload waits for one long request, and nobody is served",
        ("a full reload waits for a request", "a full reload that has two minutes waits"),
        ("unbit/uwsgi#1369",),
    ),
    Complaint("Requests wait at each deployment", ("full reload of a slow application",)),
    Complaint(
        "All workers reach `max-requests` at once",
        ("all workers reach max-requests together",),
        ("unbit/uwsgi#648", "unbit/uwsgi#2020"),
        more=REVIEW,
    ),
    Complaint("A cache is full, and the application makes everything again", ("a full cache",)),
    Complaint("Tasks of the spooler come late", ("a spooler that falls behind",), needs="the spooler's directory"),
    Complaint("`can't start new thread`", ("a leak of threads",)),
    Complaint(
        "`Too many open files`",
        ("a leak of descriptors reaches the limit",),
        needs="Linux 6.2, or the right of waits",
    ),
    Complaint(
        "A worker hangs while it imports the application",
        ("the import waits for a backend", "the import waits for a lock"),
        ("unbit/uwsgi#2040",),
        f"{WAITS} names what it waits for",
    ),
    Complaint(
        "After a deployment nothing works",
        ("import ends every worker", "import error without need-app"),
        needs="stats; the reason: uWSGI's log",
    ),
    Complaint("Static files hold the workers", ("static files for slow clients",), ("uWSGI's documentation",)),
    Complaint(
        "Requests hang in a server that does not answer",
        ("requests and a server that does not answer", "2x4, a backend that does not answer"),
        needs=WAITS,
    ),
    Complaint(
        "Requests wait for a slow database",
        ("psycopg2 and a slow query", "2x4, two backends, one of them slow", "4x4, a saturated backend"),
        needs=WAITS,
    ),
    Complaint(
        "A row lock, or one slow command of Redis, holds everybody up",
        ("Django and a row that all requests lock", "redis-py and a blocked Redis"),
        needs=WAITS,
    ),
    Complaint("Name lookups are slow", ("2x4, slow DNS",), needs=WAITS),
    Complaint(
        "`harakiri` does not fire",
        ("harakiri that cannot fire",),
        ("uWSGI's source",),
        more=REVIEW,
    ),
    Complaint(
        "Nobody reads the log, and every request stops",
        ("standard output is a pipe that nobody reads", "a full log pipe"),
        needs=WAITS,
    ),
    Complaint(
        "A pool of connections is too small",
        ("SQLAlchemy's pool of five", "a pool of five connections"),
        ("SQLAlchemy's default of 5",),
        WAITS,
    ),
    Complaint(
        "A lock of a file, of a module, of the interpreter",
        (
            "one file lock for all processes",
            "a lock that all processes share",
            "2x8, a lock of the application",
            "2x8, an extension sleeps with the interpreter lock",
            "1x8 on the CPU",
        ),
        needs=WAITS,
    ),
    Complaint(
        "Requests wait for threads of their own application: an executor, the event loop of a client library",
        ("an executor of two threads",),
        needs=WAITS,
    ),
    Complaint("Nothing goes on, without an error: a deadlock", ("two locks, taken in both orders",), needs=WAITS),
    Complaint(
        "The application calls itself over HTTP, and hangs under load",
        ("requests that call their own server",),
        needs=WAITS,
    ),
    Complaint(
        "A thread in the background makes every request slow",
        ("a thread of the application computes",),
        needs=WAITS,
    ),
    Complaint(
        "Memory grows, and `reload-on-rss` hides it",
        ("a leak that reload-on-rss cannot keep up with", "leak without a limit"),
        needs="`memory-report` or uWSGI's processes",
    ),
    Complaint(
        "The kernel kills workers for lack of memory",
        ("a leak reaches the cgroup's memory limit",),
        needs="cgroups",
    ),
    Complaint(
        "A worker crashes, or is killed",
        ("one request in 50 crashes its worker", "kill -9 of a worker"),
        needs="stats; the signal: uWSGI's log",
    ),
    Complaint(
        "It was down, and nothing shows it a minute later",
        ("killed, and started again by its service manager",),
    ),
    Complaint(
        "Mules, spoolers or a router take the CPU or the memory",
        ("two mules compute",),
        ("unbit/uwsgi#2299",),
        "`auto-procname`, or the right of waits",
        "`role_takes_memory`",
    ),
    Complaint("Kept connections hold the threads of `http11-socket`", ("2x2, clients keep their connections",)),
    Complaint(
        "An uneven share of the requests saturates one worker",
        ("hot worker by map-socket", "full worker by map-socket"),
        more="the [example](design.md#purpose)",
    ),
    Complaint("Event streams, which are meant to last, look like stuck requests", ("gevent with long requests",)),
    Complaint("Cheaper mode, which ends workers in order, looks like a crash loop", ("cheaper scaling",)),
    Complaint("Threads of ending workers look as if they waited for a lock", ("max-requests, gentle, with threads",)),
    Complaint("Before the first request, headroom is said to be known", ("no request at all",)),
)


def lines() -> Iterator[str]:
    """The table: what the rows expect first is what is said. Raises KeyError for a name that no row has."""
    by_name = {row.name: row for row in ROWS}
    yield from table(
        ("complaint", "where it was made", "what is said", "row of [scenarios](scenarios.md)", "what it needs"),
        (
            (
                each.what,
                ", ".join(map(_link, each.made_at)),
                "; ".join(filter(None, (_say([by_name[name].expected for name in each.rows]), each.more))),
                "; ".join(each.rows),
                each.needs,
            )
            for each in COMPLAINTS
        ),
    )


def _say(expectations: Sequence[Expected]) -> str:
    """The codes that rows expect first, each once; of healthy ones, and of those that cannot be judged, the outcome."""
    said = [
        f"`{code}`" if code else expected.outcome.upper()
        for expected in expectations
        for code in (expected.first or ("",))
    ]
    return ", ".join(dict.fromkeys(said))


def _link(source: str) -> str:
    """A thread on GitHub as a link; any other source as it is."""
    repository, is_thread, number = source.partition("#")
    name = repository.rpartition("/")[2]
    return f"[{name}#{number}](https://github.com/{repository}/issues/{number})" if is_thread else source
