"""What to expect of each change that a review recommends, how to verify it, and how to roll it back: by finding.

The findings are those of `analysis.findings` about a level of load, and those that only a long range shows.
"""

from __future__ import annotations

from msgspec import Struct

from uwsgi_headroom.analysis.capacity import REACHED
from uwsgi_headroom.analysis.findings.evenness import LOADED
from uwsgi_headroom.analysis.findings.limits import THREADS_BUSY
from uwsgi_headroom.words.formats import percent

_SETTINGS_BACK = "Set `processes` and `threads` back and reload uWSGI. No data is changed."

_CONFIGURATION_BACK = "Set the option back and reload uWSGI. No data is changed."

_MACHINE_BACK = "Give the CPUs, the memory or the machine back; the configuration of uWSGI stays as it was."

_APPLICATION_BACK = "Deploy the previous release of the application."

_AT_PEAK = "At the busiest hour of the next busy day, run `uwsgi-headroom check --seconds 900`"


class Remedy(Struct, frozen=True):
    """effect: what to expect, as a sentence; verify, roll_back: what to do, as sentences."""

    effect: str
    verify: str
    roll_back: str


REMEDIES: dict[str, Remedy] = {
    "unevenness_hurts": Remedy(
        "",
        f"{_AT_PEAK}: the shares are closer to even, the hottest interpreter is below {LOADED[1]:g} of a CPU, and the "
        "finding is gone. Then run this report again over the following week.",
        _SETTINGS_BACK,
    ),
    "interpreter_bound": Remedy(
        "Each new process has an interpreter of its own, so throughput grows with the number of processes until the "
        "CPUs are full.",
        f"{_AT_PEAK}: no interpreter is above {REACHED:g} of a CPU.",
        _SETTINGS_BACK,
    ),
    "saturation": Remedy(
        "More requests are served at once, and none waits for a free thread, as long as what they wait for can serve "
        "more at once.",
        f"{_AT_PEAK}: fewer than {percent(THREADS_BUSY)} of the threads are in use, and the response time has not "
        "grown.",
        _SETTINGS_BACK,
    ),
    "cpu_bound": Remedy(
        "CPU headroom grows in proportion to the CPUs added.",
        f"{_AT_PEAK}: the workers use less than {percent(REACHED)} of the CPUs that they may use.",
        _MACHINE_BACK,
    ),
    "cpu_used_by_others": Remedy(
        "The CPUs that other programs use become headroom of this server.",
        f"{_AT_PEAK}: CPU headroom is above 1.5x.",
        "Move the other programs back.",
    ),
    "queue_wait": Remedy(
        "The wait in the listen queue falls to about nothing once a thread is free for each request.",
        f"{_AT_PEAK}: requests wait less than 10 ms in the listen queue.",
        _SETTINGS_BACK,
    ),
    "clients_refused": Remedy(
        "No client is refused at the loads of this range.",
        "Over the following week, the listen queues are never full in this report.",
        _SETTINGS_BACK,
    ),
    "slow_clients": Remedy(
        "Threads that wait for slow clients become free for other requests.",
        f"{_AT_PEAK}: the part `client` of the time of requests is nearly gone.",
        "Set the web server's buffering back, and reload it.",
    ),
    "application_lock": Remedy(
        "Requests stop waiting for each other: the time in the lock goes out of the response time.",
        f"{_AT_PEAK}: the part `lock` of the time of requests is below 25 %.",
        _APPLICATION_BACK,
    ),
    "interpreter_lock_held": Remedy(
        "Threads stop waiting for an interpreter that does not compute.",
        f"{_AT_PEAK}: the part `interpreter lock` of the time of requests is below 25 %.",
        _APPLICATION_BACK,
    ),
    "waits_for_backend": Remedy(
        "A request is faster by what its backend saves, and holds its thread for less time.",
        f"{_AT_PEAK}: the part `backend` of the time of requests is smaller.",
        _APPLICATION_BACK,
    ),
    "memory_headroom_low": Remedy(
        "More processes fit, and the kernel ends no process for want of memory.",
        "`uwsgi-headroom check` has no finding about memory.",
        _MACHINE_BACK,
    ),
    "harakiri": Remedy(
        "No request is killed with its worker, nor those that share the worker with it.",
        "Over the following week, this report counts no harakiri.",
        _CONFIGURATION_BACK,
    ),
    "requests_lost": Remedy(
        "No request is lost with its worker.",
        "Over the following week, this report counts no lost request.",
        _APPLICATION_BACK,
    ),
    "objective_missed": Remedy(
        "The share of slow requests falls to what the objective permits.",
        "Over the following week, the error budget of this report is not used up.",
        _SETTINGS_BACK,
    ),
    "headroom_low": Remedy(
        "The first limit is reached later.",
        f"{_AT_PEAK}: its headroom has grown as expected.",
        _SETTINGS_BACK,
    ),
    "server_lost": Remedy(
        "",
        "Take one server out of the load balancer in a quiet hour of a busy day, and see in `uwsgi-headroom top` that "
        "the others take its requests.",
        "Take the added server out of the load balancer.",
    ),
}

DEFAULT = Remedy("The finding goes away.", f"{_AT_PEAK}: the finding is gone.", "Undo the change and reload uWSGI.")


def remedy_of(code: str) -> Remedy:
    return REMEDIES.get(code, DEFAULT)
