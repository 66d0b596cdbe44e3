"""E3: the benchmark of WSGI servers, `Pong!` at a rate that rises in steps."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from app.lab import published
from app.lab.clients import Load
from app.lab.experiment import (
    NONE,
    Experiment,
    Length,
    Results,
    Section,
    failures,
    load_label,
    plan_runs,
    render_table,
    show,
    show_share,
    spreads,
)
from app.lab.figures import (
    Figure,
    Finding,
    clients_cpus,
    error_rate,
    mean_ms,
    memory_mb,
    order,
    replies_per_cpu,
    throughput,
)
from app.lab.programs import Machine, Programs
from app.lab.results import Setup, Spread
from app.lab.run import Planned
from tools.environments import ROOT

KEY = "E3"
RATES = {False: (1000, 3000), True: (500, 1000, 1500, 2000, 3000, 4000)}
"""Requests a second, in the short and in the full run."""
IDLE, IDLE_RATE = 500, 100.0
HTTP10, KEEP_ALIVE = "HTTP/1.0", "keep-alive, ten calls"
CALLS = {HTTP10: 1, KEEP_ALIVE: published.E3_CALLS}
MANY = f"{IDLE} idle connections"
WARM_UP = 0.3
CARRIED = 0.98
"""A server that answers this part of the offered requests carries the rate."""


def rate_label(protocol: str, rate: int) -> str:
    """The name of a load."""
    return load_label(KEY, f"{protocol}, {rate}/s")


def plan(programs: Programs, _: Machine, length: Length) -> list[Planned]:
    """The runs: each server at each rate, and with idle connections."""
    setups = list(pong_setups(programs))
    seconds = length.seconds(1.5, 10)
    loads = {
        f"{protocol}, {rate}/s": Load(
            rate=rate, keep_alive=calls, warm_up=WARM_UP, seconds=seconds, timeout=published.E3_TIMEOUT
        )
        for protocol, calls in CALLS.items()
        for rate in RATES[length.full]
    }
    many = Load(
        idle=IDLE,
        rate=IDLE_RATE,
        keep_alive=published.E3_CALLS,
        warm_up=WARM_UP,
        seconds=seconds,
        timeout=published.E3_TIMEOUT,
    )
    return plan_runs(KEY, setups, loads | {MANY: many}, length.repetitions)


def report(results: Results) -> Section:
    """Reports a table for each protocol, one for many connections, and how the published orders compare."""
    lines = [
        "`Pong!` as text/plain, in an open loop: requests are due at a fixed rate, and response times count from when"
        " a request was due. Published was one CPU for the server alone; here the clients share the machine with it."
        " So the order of the servers is taken from replies per second of CPU that the server used, at the highest"
        " rate. Memory is the peak of all processes, shared pages counted once. A server *carries* a rate if it"
        f" answers {100 * CARRIED:.0f} % of the requests. *uWSGI* is a worker behind uWSGI's HTTP router; *uWSGI,"
        " http-socket* is the worker alone, which closes each connection after an answer, as Gunicorn's workers and"
        " wsgiref do.",
    ]
    for protocol in CALLS:
        rates = measured_rates(results, protocol)
        if not rates:
            continue
        lines += ["", f"**{protocol}**", "", *_table(results, protocol, rates)]
        lines += failures(results.runs, NAMES, rate_label(protocol, rates[-1]))
        lines += ["", _busy_clients(results, protocol, rates)]
    lines += _many_connections(results)
    missing = left_out(results.machine.missing)
    lines += ["", "Not measured:", "", *(f"* {name}: {why}." for name, why in (missing | published.GONE).items())]
    return Section(lines=lines, findings=compare_orders(results, _top_labels(results), load_label(KEY, MANY)))


def measured_rates(results: Results, protocol: str) -> list[int]:
    """The rates that were run, rising."""
    labels = {run.load for run in results.runs.outcomes}
    return [rate for rate in RATES[True] if rate_label(protocol, rate) in labels]


def _top_labels(results: Results) -> dict[str, str]:
    """The load with the highest rate of each protocol."""
    return {
        protocol: rate_label(protocol, rates[-1]) for protocol in CALLS if (rates := measured_rates(results, protocol))
    }


def _table(results: Results, protocol: str, rates: list[int]) -> list[str]:
    head = ["server"]
    for rate in rates:
        head += [f"replies/s at {rate}", f"mean ms at {rate}", "errors"]
    head += ["replies per CPU second", "memory MB", "published"]
    rows = []
    for name in _by_cpu(results, rate_label(protocol, rates[-1])):
        row = [name]
        for rate in rates:
            load = rate_label(protocol, rate)
            row += [
                show(results.runs.spread(name, load, throughput)),
                show(results.runs.spread(name, load, mean_ms), 1),
                show_share(results.runs.spread(name, load, error_rate)),
            ]
        load = rate_label(protocol, rates[-1])
        row += [
            show(results.runs.spread(name, load, replies_per_cpu)),
            show(results.runs.spread(name, load, memory_mb), 1),
            _published(name, protocol),
        ]
        rows.append(row)
    return render_table(head, rows)


def _published(name: str, protocol: str) -> str:
    """What was published about a server under a protocol."""
    if protocol == KEEP_ALIVE:
        replies = published.REPLIES_KEEP_ALIVE.get(name)
        if replies:
            return f"about {replies:,} replies/s"
        return "among the leaders" if name in published.FASTEST_KEEP_ALIVE else NONE
    if name in published.FASTEST_HTTP10:
        return "among the leaders"
    return f"fell over at {published.FELL_OVER[name]:,}/s" if name in published.FELL_OVER else NONE


def _by_cpu(results: Results, load: str) -> list[str]:
    """The servers with results, the one with most replies per CPU second first."""
    known = spreads(results.runs, NAMES, load, replies_per_cpu)
    ran = [name for name in NAMES if results.runs.of(name, load)]
    return sorted(ran, key=lambda name: -known[name].median if name in known else 0.0)


def _busy_clients(results: Results, protocol: str, rates: list[int]) -> str:
    """Says which servers carried the highest rate, and how busy the clients were meanwhile."""
    load = rate_label(protocol, rates[-1])
    replies = spreads(results.runs, NAMES, load, throughput)
    short = [name for name, value in replies.items() if value.median < CARRIED * rates[-1]]
    used = spreads(results.runs, NAMES, load, clients_cpus)
    most = max((value.high for value in used.values()), default=0.0)
    carried = f"All servers carried {rates[-1]}/s." if not short else f"Not carried at {rates[-1]}/s: {_listed(short)}."
    return f"{carried} The clients used up to {most:.2f} CPUs: at 1 they are the limit themselves."


def _many_connections(results: Results) -> list[str]:
    """Reports the runs with idle connections beside the published latencies."""
    load = load_label(KEY, MANY)
    ran = [name for name in NAMES if results.runs.of(name, load)]
    if not ran:
        return []
    head = ["server", "published latency ms", "mean ms", "errors", "memory MB"]
    rows = [
        [
            name,
            f"about {published.LATENCY_MS[name]}" if name in published.LATENCY_MS else NONE,
            show(results.runs.spread(name, load, mean_ms), 1),
            show_share(results.runs.spread(name, load, error_rate)),
            show(results.runs.spread(name, load, memory_mb), 1),
        ]
        for name in ran
    ]
    return [
        "",
        "**Many connections**",
        "",
        f"Published: {published.E3_NEW_CLIENTS} new clients a second for five minutes, each with 12 requests 5 s apart,"
        f" up to {published.E3_CONNECTIONS:,} connections. Here, scaled: {IDLE} connections"
        f" ({100 * IDLE / published.E3_CONNECTIONS:g} % of that) that send nothing, and {IDLE_RATE:g} requests a second"
        " beside them. A connection that never sends is harder than one between two requests for servers that"
        " give each connection a thread or a process.",
        "",
        *render_table(head, rows),
    ]


def _listed(names: Iterable[str]) -> str:
    return "; ".join(names)


EXPERIMENT = Experiment(key=KEY, title="WSGI servers", plan=plan, report=report)

PONG = "app.lab.applications.pong:application"
_FILE = "app/lab/applications/pong.py"


@dataclass(frozen=True, slots=True)
class Server:
    """A server of the comparison. package: of the lab's environment; empty if Python has it."""

    name: str
    package: str
    command: tuple[str, ...]


def _own(name: str) -> tuple[str, ...]:
    """The command of a server that has no program of its own."""
    return ("python", "-m", "app.lab.applications.pong", name, "{port}")


def _gunicorn(workers: int) -> tuple[str, ...]:
    return ("gunicorn", "--workers", str(workers), "--bind", "127.0.0.1:{port}", PONG)


# With keep-alive or without, uWSGI's router talks HTTP with the clients, as its `http` option of 2010 did.
_ROUTER = ("--http", "127.0.0.1:{port}", "--http-keepalive", "--module", PONG, "--disable-logging")
_SOCKET = ("--http-socket", "127.0.0.1:{port}", "--module", PONG, "--disable-logging")

_MOD_WSGI = (
    *("mod_wsgi-express", "start-server", _FILE, "--host", "127.0.0.1", "--port", "{port}"),
    *("--server-root", "{directory}/apache", "--working-directory", str(ROOT), "--log-to-terminal"),
)

SERVERS = (
    Server("Gunicorn, 1 worker", "gunicorn", _gunicorn(1)),
    Server("Gunicorn, 3 workers", "gunicorn", _gunicorn(3)),
    Server("gevent", "gevent", _own("gevent")),
    Server("Eventlet", "eventlet", _own("eventlet")),
    Server("Tornado", "tornado", _own("tornado")),
    Server("Twisted", "twisted", _own("twisted")),
    Server("Cheroot", "cheroot", _own("cheroot")),
    Server("mod_wsgi", "mod_wsgi", _MOD_WSGI),
    Server("Paster", "paste", _own("paste")),
    Server("wsgiref", "", _own("wsgiref")),
    Server("waitress", "waitress", ("waitress-serve", "--listen=127.0.0.1:{port}", PONG)),
    Server("bjoern", "bjoern", _own("bjoern")),
    Server(
        "granian",
        "granian",
        ("granian", "--interface", "wsgi", "--host", "127.0.0.1", "--port", "{port}", "--no-log", PONG),
    ),
)
UWSGI = {"uWSGI": _ROUTER, "uWSGI, http-socket": _SOCKET}
NAMES = (*UWSGI, *(server.name for server in SERVERS))


def pong_setups(programs: Programs) -> Iterator[Setup]:
    """Yields the servers that are installed."""
    for name, options in UWSGI.items():
        # Its figures are not sampled: the others are not sampled either.
        yield replace(programs.uwsgi_setup("E3", name, options), is_uwsgi=False)
    for server in SERVERS:
        if server.package not in programs.missing:
            yield Setup(
                name=server.name,
                command=(*_in_namespace(server), str(programs.lab.program(server.command[0])), *server.command[1:]),
                is_uwsgi=False,
                cwd=ROOT,
                environment={"PYTHONPATH": str(ROOT)},
            )


def left_out(missing: dict[str, str]) -> dict[str, str]:
    """Returns why a server is not measured, by its name."""
    return {server.name: missing[server.package] for server in SERVERS if server.package in missing}


def _in_namespace(server: Server) -> tuple[str, ...]:
    """What precedes the command: Apache refuses to serve as root, and as another user it could not read a
    checkout in root's home. In a user namespace it keeps root's rights under another name."""
    if server.package != "mod_wsgi" or os.geteuid() != 0:
        return ()
    return ("unshare", "--user", "--map-user=1000", "--map-group=1000")


Pair = tuple[str, str]
"""Two servers: the first was better, as published."""

THEN = (
    "Gunicorn, 1 worker",
    "Gunicorn, 3 workers",
    "Eventlet",
    "Tornado",
    "Twisted",
    "Cheroot",
    "mod_wsgi",
    "Paster",
    "wsgiref",
)
"""Servers of the published benchmark that were not among its leaders."""


def compare_orders(results: Results, top: Mapping[str, str], many: str) -> list[Finding]:
    """Returns a finding for each published order. top: the load with the highest rate, by protocol, HTTP/1.0 first.
    many: the load with many connections."""
    findings: list[Finding] = []
    for protocol, load in top.items():
        first = not findings
        pairs = _leaders(published.FASTEST_HTTP10) if first else list(_by_replies())
        found = spreads(results.runs, NAMES, load, replies_per_cpu)
        findings += _judge(f"replies per CPU second, {protocol}", pairs, found, more=True)
        if first:
            memory = spreads(results.runs, NAMES, load, memory_mb)
            findings += _judge("peak memory", _leaders(published.LEAST_MEMORY), memory, more=False)
    return findings + _latencies(results, many)


def _leaders(names: Iterable[str]) -> list[Pair]:
    return [(leader, other) for leader in names for other in THEN]


def _by_replies() -> Iterator[Pair]:
    """Yields the pairs whose published reply rates differ; the leaders were ahead of all others."""
    replies = dict.fromkeys(published.FASTEST_KEEP_ALIVE, published.REPLIES_KEEP_ALIVE["gevent"])
    replies = published.REPLIES_KEEP_ALIVE | replies
    return ((one, other) for one in replies for other in replies if replies[one] > replies[other])


def _latencies(results: Results, load: str) -> list[Finding]:
    """Compares latency with many connections; a server whose requests failed has none to compare."""
    found = {
        name: value
        for name, value in spreads(results.runs, NAMES, load, mean_ms).items()
        if (failed := _of(results, name, load, error_rate)) and failed.median < 0.01
    }
    figures = published.LATENCY_MS
    pairs = [(one, other) for one in figures for other in figures if figures[one] < figures[other]]
    if not found:
        return []
    lost = [name for name in figures if name not in found and results.runs.of(name, load)]
    findings = _judge("latency with many connections", pairs, found, more=False)
    if lost:
        text = f"{' and '.join(lost)} failed to answer 1 % of the requests or more."
        findings.append(Finding("differs", "answers with many connections", text))
    return findings


def _of(results: Results, name: str, load: str, figure: Figure) -> Spread | None:
    return results.runs.spread(name, load, figure)


def _judge(what: str, pairs: Iterable[Pair], found: Mapping[str, Spread], *, more: bool) -> list[Finding]:
    """Counts the published orders that hold, are reversed, or are not decided. more: whether more is better."""
    signs = {
        (one, other): order(found[other], found[one]) * (1 if more else -1)
        for one, other in pairs
        if one in found and other in found
    }
    if not signs:
        return []
    held = [pair for pair, sign in signs.items() if sign > 0]
    reversed_ = [pair for pair, sign in signs.items() if sign < 0]
    text = f"{len(signs)} published orders of two servers: {len(held)} hold beyond the ranges of the runs,"
    text += f" {len(reversed_)} reversed, {len(signs) - len(held) - len(reversed_)} undecided."
    if reversed_:
        text += " Reversed: " + "; ".join(_sentence(one, other, found) for one, other in reversed_) + "."
    if 2 * len(held) > len(signs):
        return [Finding("agrees", f"{what}, most orders" if reversed_ else what, text)]
    return [Finding("differs" if reversed_ else "open", what, text)]


def _sentence(one: str, other: str, found: Mapping[str, Spread]) -> str:
    return f"{other} ({_number(found[other])}) is ahead of {one} ({_number(found[one])})"


def _number(found: Spread) -> str:
    return f"{found.median:,.0f}" if found.median >= 100 else f"{found.median:.3g}"
