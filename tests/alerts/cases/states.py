"""Cases of the alerts about states that the exporter reports: paused workers, throttled vassals, waits of few "
"requests."""

from __future__ import annotations

from tests.alerts.cases.case import Case, acts
from tests.alerts.cases.silent_causes import State, series, six

RULES = ("recording.yaml", "queue.yaml", "workers.yaml", "availability.yaml")


def pauses(paused: int) -> State:
    """So many of four workers are paused; cheaper mode keeps two more in reserve."""
    return {
        'uwsgi_workers{state="pause"}': paused,
        'uwsgi_workers{state="idle"}': 4 - paused,
        'uwsgi_workers{state="cheap"}': 2,
        'uwsgi_socket_queue_length{socket="/run/api.sock"}': 0,
    }


def throttles(vassals: int) -> State:
    """An emperor with five vassals throttles so many more."""
    return {"uwsgi_emperor_blacklisted_vassals": vassals, "uwsgi_emperor_vassals": 5}


def waits(seconds: float) -> State:
    """One in twenty requests waits so long, though no mean is known that says so."""
    return {
        'uwsgi_queue_wait_percentile_seconds{window="5m",percentile="50"}': 0.004,
        'uwsgi_queue_wait_percentile_seconds{window="5m",percentile="95"}': seconds,
        'uwsgi_queue_wait_percentile_seconds{window="5m",percentile="99"}': 2 * seconds,
        "uwsgi_listen_queue_oldest_wait_seconds": 0,
    }


CASES = [
    *six(
        "UwsgiWorkersPaused",
        pauses(0),
        pauses(3),
        pauses(4),
        "uWSGI api on INSTANCE: all 4 workers are paused, and serve no requests",
        acts(
            "If the workers were not paused on purpose, resume them: send SIGTSTP to the master, or write `p` to its "
            "`master-fifo` (both toggle between pause and resume). Do this only once: a second signal, or a second "
            "`p`, pauses the workers again.",
            "Run `uwsgi-headroom check` on the host to see whether requests are served again.",
            "Find out what paused the workers: perhaps a backup or deploy script that stopped half-way, or Ctrl-Z in a "
            "terminal.",
        )
        + "A paused worker accepts no requests. 0 requests wait in the listen queue; once the queue is full, clients "
        "are turned away.",
        "00:00",
    ),
    Case(
        "UwsgiWorkersPaused: silent: a deploy that pauses them for a minute",
        series((20, pauses(0), False), (2, pauses(4), False), (20, pauses(0), False)),
        nothing_fires=[f"{minute}m" for minute in range(20, 30)],
    ),
    Case(
        "UwsgiWorkersPaused: silent: all workers are in cheaper mode's reserve",
        series((60, {'uwsgi_workers{state="pause"}': 0, 'uwsgi_workers{state="cheap"}': 4}, False)),
        nothing_fires=["59m"],
    ),
    *six(
        "UwsgiVassalThrottled",
        throttles(0),
        throttles(0),
        throttles(2),
        "The emperor api on INSTANCE throttles 2 vassals, which fail to start",
        acts(
            "Check the emperor's log for the reason why a vassal exits when it starts: `journalctl -u UNIT --since "
            "-15min`.",
            "Fix the vassal's application or configuration. The emperor then starts the vassal at its next attempt.",
            "If the vassal is no longer needed, remove its configuration.",
        )
        + "A throttled vassal's application is down. The emperor runs 5 vassals. `uwsgi-headroom check` on the host "
        "names the vassals that do not run.",
        "00:00",
    ),
    *six(
        "UwsgiQueueWaitOfFew",
        waits(0.03),
        waits(0.49),
        waits(0.8),
        "uWSGI api on INSTANCE: one in twenty requests waits 800 ms or longer in the listen queue",
        acts(
            "Run `uwsgi-headroom check` on the host: it says whether the threads are occupied by bursts, a reload or "
            "one kind of long request.",
            "Run `sudo uwsgi-headroom check --all` on the host to see what the threads wait for (the exporter lacks "
            "the permission to see this: docs/waits.md). Do not raise `threads` or `processes` before you know what "
            "the threads wait for: additional threads would probably also wait if the cause is a lock, slow clients, "
            "or a backend at its limit.",
            "If the bursts come from one client, such as a job that starts on the hour, spread this client's requests "
            "over time, or rate-limit the client.",
        )
        + "Half of the requests wait less than 4 ms in the listen queue, and one in a hundred waits 1.6 s or longer. "
        "The oldest request that is in the queue now has waited 0 ms so far. The mean wait of all requests hides the "
        "long waits of a few.",
        "00:00",
    ),
]
