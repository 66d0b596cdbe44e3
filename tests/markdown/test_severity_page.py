"""docs/severity.md has every finding that warns, with the numbers of the code, and no other page repeats them."""

import re
from collections import defaultdict
from typing import NamedTuple

from tests.markdown.test_facts import rows
from tools.environments import ROOT
from tools.tables import list_rows
from uwsgi_headroom.analysis import destinations, figures, shortages, wait_states, worker_states
from uwsgi_headroom.analysis.advice import AGAIN_AND_AGAIN, INTERPRETERS_BUSY
from uwsgi_headroom.analysis.capacity import LEAST_OWN, REACHED
from uwsgi_headroom.analysis.findings import (
    causes,
    clients,
    cpus,
    evenness,
    lock_waits,
    log,
    loops,
    parts,
    queue,
    recycling,
    resources,
    threads,
    waits,
    way_in,
    workers,
)
from uwsgi_headroom.analysis.littles_law import IDLE_WHILE_WAITING, LEAST_WAIT, MOST_WAIT, SEVERE, STANDING, WAIT_RATIO
from uwsgi_headroom.analysis.objective import FAST_BURN, SLOW_BURN
from uwsgi_headroom.analysis.shortages import CPU_FULL, CPU_WAIT
from uwsgi_headroom.analysis.wait_states import MOSTLY
from uwsgi_headroom.config.defaults import STUCK_SECONDS
from uwsgi_headroom.kernel import processes, setup

PAGE = "docs/severity.md"


class Row(NamedTuple):
    """What a sentence about the row speaks of, as a pattern, and the numbers that stand in the row."""

    topic: str
    numbers: tuple[float, ...]


MOST_WORKERS = 0.5
"""`respawn_loop` has no constant for half of the workers."""

ROWS = {
    "clients_refused": Row("refused|queue (is )?(full|at its limit)", queue.FULL[:1]),
    "queue_wait": Row("listen queue|queue wait", (SEVERE[0], STANDING)),
    "harakiri": Row("lost", workers.MANY_LOST),
    "out_of_memory": Row("lack of memory|out of memory", (workers.KILLED, *workers.MANY_LOST)),
    "request_stuck": Row("stuck", (worker_states.MANY_STUCK, worker_states.SOME_STUCK)),
    "objective_missed": Row("burn|budget", (SLOW_BURN, FAST_BURN)),
    "unevenness_hurts": Row(
        "uneven|hot worker|saturated worker|balancing",
        (evenness.COSTLY, *evenness.SLOWER, *evenness.LOADED, 1 - CPU_FULL),
    ),
    "respawn_loop": Row(
        "respawn|restarting|replaced", (workers.LOOP[0], recycling.SERVED, worker_states.AWAY, MOST_WORKERS)
    ),
    "reloaded": Row("full reloads", (AGAIN_AND_AGAIN,)),
    "recycled_together": Row(
        "together", (recycling.TOGETHER_SECONDS, recycling.APART, recycling.MANY_ENDS, recycling.ENDING)
    ),
    "workers_ended": Row("workers? end", workers.MANY_LOST),
    "descriptors_used_up": Row("descriptors", (resources.NEAR_DESCRIPTORS, resources.LEFT)),
    "connection_shared": Row("share one connection", (waits.LEAST_SHARED, waits.AT_ONCE)),
    "output_blocked": Row("pipe", (wait_states.MOSTLY,)),
    "connections_tracked": Row("tracked", (*queue.TRACKED, *queue.MANY_DROPPED)),
    "loop_held": Row("event loop|loop is held", (wait_states.MOSTLY, loops.ALWAYS, loops.LONG)),
    "socket_replaced": Row("another socket", (way_in.REPLACED_SECONDS,)),
    "socket_shared": Row("another uWSGI", (way_in.REPLACED_SECONDS,)),
    "client_errors": Row("nearly all responses", (clients.ENOUGH, clients.NEARLY_ALL)),
    "workers_paused": Row("paused", (STANDING,)),
    "cheaper_starts_slowly": Row("cheaper", (causes.LOADING_SECONDS, causes.LOADING_PART, causes.FULL)),
    "signal_handlers": Row("handlers", (causes.HANDLING,)),
    "start_hangs": Row("hangs? at the start|accepts nothing", (causes.HANGS,)),
    "reload_waits": Row("reload waits|not replaced", (figures.RELOAD_WAITS, STANDING)),
    "workers_ending": Row("are to end", (figures.RELOAD_WAITS, STANDING)),
    "workers_missing": Row(
        "worker is away|workers? (is|are) missing", (1 - causes.UP, causes.START_SECONDS, causes.MOSTLY_UP)
    ),
    "exceptions": Row("exceptions", (*clients.EXCEPTIONS, wait_states.MOSTLY)),
    "server_errors": Row("server errors", (*clients.EXCEPTIONS, clients.MANY_ERRORS)),
    "clients_left": Row("clients (that )?left|disconnect", (*clients.LEFT, wait_states.MOSTLY)),
    "works_after_response": Row("after their clients", (wait_states.MOSTLY, clients.LEFT[0], threads.THREADS_BUSY)),
    "requests_rejected": Row("requests (that are |are )?(refused|rejected)|refuses", (*log.MANY_REFUSED, MOSTLY)),
    "web_server_fails": Row("loses responses", log.MANY_REFUSED),
    "unfinished_requests": Row("stats are empty", (causes.EMPTY,)),
    "connections_without_request": Row("counts no request", log.MANY_REFUSED[:1]),
    "requests_unanswered": Row("without (a byte of )?an answer|unanswered", log.MANY_REFUSED),
    "saturation": Row("threads (are |is )?(busy|in use)|busy threads", (threads.THREADS_BUSY, threads.THREADS_FULL)),
    "interpreter_bound": Row("async cores", (figures.OF_KERNEL,)),
    "interpreter_lock_held": Row(
        "lock of an interpreter", (round(lock_waits.LITTLE, 1), wait_states.MOSTLY, MOST_WAIT, shortages.LOCKED)
    ),
    "application_lock": Row("lock of the application", (wait_states.MOSTLY, shortages.LOCKED)),
    "waits_for_threads": Row(
        "deadlock|other threads of (their|its) worker", (*lock_waits.ENDLESS, 1 - lock_waits.LITTLE_OF_LOCK)
    ),
    "sleeps_again": Row("sleep", (waits.USED,)),
    "backend_saturated": Row("saturated backend|backend is saturated", (waits.USED,)),
    "waits_for_backend": Row("does not answer|lookups|other servers", (destinations.HANGING, wait_states.MOSTLY)),
    "static_files": Row("static files", (wait_states.MOSTLY_FILES,)),
    "slow_clients": Row("slow clients|wait for clients", waits.SLOW_CLIENTS[1:]),
    "cpu_bound": Row("CPUs? (are |is )?(in use|full)", (CPU_FULL, CPU_WAIT, cpus.STARVED, cpus.FELT)),
    "cpu_throttled": Row("quota stops|stops the workers", (*cpus.THROTTLED, CPU_WAIT)),
    "cpu_wait": Row("waits? for a CPU", (wait_states.MOSTLY, cpus.FELT, cpus.LEAST_REQUESTS)),
    "cpu_used_by_others": Row("other programs", (cpus.LOW_CPU, LEAST_OWN, CPU_WAIT / 2)),
    "queue_filling": Row("filling", (queue.FILLING,)),
    "memory_stalls": Row("wait for memory", (resources.STALLED, resources.STANDS_STILL)),
    "memory_headroom_low": Row("no other worker fits", (resources.SCARCE,)),
    "accept_blocked": Row("although threads are free", (IDLE_WHILE_WAITING,)),
    "cheaper_does_not_scale": Row("in reserve", (threads.RESERVE_UNUSED,)),
    "role_takes_memory": Row("mules|spoolers", (resources.LARGE_ROLE, resources.FEW_WORKERS)),
    "router_full": Row("router", (parts.ROUTER_BUSY,)),
    "cache_full": Row("cache", (parts.REFUSED,)),
    "spooler_behind": Row("spooler", (parts.MANY_TASKS, parts.LATE)),
    "threads_growing": Row("threads that (do not end|serve no request)", (*resources.THREADS, *resources.NEAR_TASKS)),
    "memory_growing": Row("memory of a worker", (*resources.GROWTH, processes.LOW_SECONDS, *resources.LASTS)),
    "few_slow_requests": Row("ten times as slow", (10.0, wait_states.MOSTLY, *threads.TIMED_OUT)),
    "spooler_dies": Row("spooler end", (workers.LOOP[0],)),
    "disk_full": Row("file system of this host", (*setup.FULL, wait_states.MOSTLY)),
    "metrics_files": Row("files of metrics", resources.MANY_FILES),
    "address_space_used_up": Row("limit-as", (resources.LITTLE,)),
    "waits_for_files": Row("file system", (wait_states.MOSTLY, waits.USED)),
    "noticed": Row("notice|listen queue|wait noticeably", (WAIT_RATIO, LEAST_WAIT, MOST_WAIT)),
    "saturated": Row("reached|nearly|saturated|interpreter|of a CPU|first limit", (REACHED, round(1 / REACHED, 1))),
    "compute": Row("interpreter|compute", (INTERPRETERS_BUSY,)),
    "stuck": Row("stuck", (STUCK_SECONDS,)),
    "surely": Row("surely|by chance", (clients.SURELY,)),
    "uneven": Row("share|uneven", (evenness.UNEVEN,)),
}
"""By code, and by word: the rows that have a number."""

BY_TEXT = {"workers_share_one_cpu": (parts.BUSY,), "vassals_throttled": ()}
"""Findings that warn and stand in the text below the tables."""

ON_CALL = {
    ("UwsgiConcurrencyNearCapacity.md", "saturation"),
    ("UwsgiInterpreterBound.md", "saturated"),
    ("UwsgiQueueWaitHigh.md", "noticed"),
}
"""Runbooks with numbers of a row."""

SPELT = {
    "half": 0.5,
    "a quarter": 0.25,
    "three quarters": 0.75,
    "a fifth": 0.2,
    "a tenth": 0.1,
    "for a minute": 60.0,
    "two": 2.0,
    "three": 3.0,
    "four": 4.0,
    "ten": 10.0,
}
UNITS = {"%": 0.01, "ms": 0.001, "MB": 1e6, "GB": 1e9, "": 1.0}
NUMBER = re.compile(
    rf"\b(?P<spelt>{'|'.join(sorted(SPELT, key=len, reverse=True))})\b"
    r"|(?<![\w.-])(?P<digits>\d+(?:\.\d+)?)(?:x| (?P<unit>%|ms|MB|GB)(?!\w))?(?![\w-]|\.\d)"
)
DISTINCT = re.compile(r"a (?:quarter|fifth|tenth)|\d+\.\d+.*|\d+ (?:%|ms|MB|GB)|\d\d+")
"""Numbers by which a threshold is known; three and half are everywhere."""


def numbers(text, wanted=re.compile(".*")):
    """The numbers in a text, in seconds, bytes, and parts of 1; without those of status codes and of options."""
    plain = re.sub(r"\]\([^)]*\)|`[^`]*`|status \d+", "", text)
    return {
        round(SPELT[match["spelt"]] if match["spelt"] else float(match["digits"]) * UNITS[match["unit"] or ""], 6)
        for match in NUMBER.finditer(plain)
        if wanted.fullmatch(match[0]) or plain[match.end() :].startswith(" times")
    }


def of_code(row):
    return {round(number, 6) for number in row.numbers}


def shown_rows():
    """By code or word: the numbers of all its rows."""
    found = defaultdict(set)
    for part in (ROOT / PAGE).read_text().split("\n| finding |")[1:]:
        for line in part.partition("\n\n")[0].splitlines()[2:]:
            for code in re.findall(r"`([a-z_]+)`", line.split(" | ")[0])[:1]:
                found[code] |= numbers(line)
    for cells in rows(PAGE, "word"):
        for word in re.findall(r"\*(\w+)\*", cells[0])[:1]:
            found[word] |= numbers(cells[1])
    return found


def test_the_numbers_are_those_of_the_code():
    """Each number in the row of a finding or of a word is a constant, and each of these constants is in the row."""
    shown = {name: found for name, found in shown_rows().items() if found}
    assert shown == {name: of_code(row) for name, row in ROWS.items()}
    text = (ROOT / PAGE).read_text()
    assert all(numbers(re.findall(rf"`{code}`[^)]*", text)[0]) >= set(found) for code, found in BY_TEXT.items())


def test_every_finding_that_warns_has_a_row():
    first_cells = [line.split(" | ")[0] for line in (ROOT / PAGE).read_text().splitlines() if line.startswith("| `")]
    listed = {code for cell in first_cells for code in re.findall(r"`([a-z_]+)`", cell)}
    warning = {row.code for row in list_rows() if row.severities != ("info",)}
    assert warning - BY_TEXT.keys() == listed & {row.code for row in list_rows()}


def sentences(page):
    """The sentences that people wrote: no generated tables, no output of programs."""
    text = re.sub(r"<!-- (\w+)\b.*? -->\n.*?<!-- /\1\b.*? -->", "", page.read_text(), flags=re.DOTALL)
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    for paragraph in re.split(r"\n\s*\n|\n(?=[|*>])", text):
        yield from re.split(r"(?<=[.!?]) (?=[A-Z*`])", " ".join(paragraph.split()))


def repeated(pages):
    """Page, row and sentence wherever a sentence about what a row is about has one of its numbers."""
    return [
        (page.name, name, sentence)
        for page in pages
        for sentence in sentences(page)
        for name, row in ROWS.items()
        if re.search(row.topic, sentence, re.IGNORECASE) and numbers(sentence, DISTINCT) & of_code(row)
    ]


def test_numbers_stand_once():
    pages = {*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "dev").glob("*.md"), ROOT / "README.md"} - {
        ROOT / PAGE,
        ROOT / "docs" / "upgrading.md",
    }
    assert repeated(sorted(pages)) == []
    found = repeated(sorted((ROOT / "alerts" / "runbooks").glob("*.md")))
    assert {(runbook, name) for runbook, name, _ in found} == ON_CALL
