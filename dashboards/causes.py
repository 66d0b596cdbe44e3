"""What a verdict is about, and what to do first, by the code of the finding: for faces that know only the code.

A dashboard reads the code from `uwsgi_verdict_info`. `check`, the page and `top` have the finding itself, which says
more: which worker, which backend, which number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from uwsgi_headroom.words.states import NO_CAUSE


@dataclass(frozen=True, slots=True)
class Cause:
    """name: what is wrong, as the begin of a sentence without its full stop; act: what to do first, in the imperative,
    or empty."""

    name: str
    act: str = ""


CHECK = "Run `uwsgi-headroom check` on the host"

CAUSES: Mapping[str, Cause] = {
    NO_CAUSE: Cause("Nothing is wrong"),
    "down": Cause("The server does not answer", "Open a page through the web server; if it fails, start uWSGI"),
    "accept_blocked": Cause("Workers idle while requests wait", f"{CHECK}: it names who holds the lock"),
    "application_lock": Cause(
        "Threads wait for a lock of the application", "Run `uwsgi-headroom check --code`: it names the line"
    ),
    "backend_saturated": Cause("A backend is saturated", f"{CHECK}: it names the backend"),
    "cache_full": Cause("A cache of uWSGI is full", "Give the cache more items or blocks, or let items expire sooner"),
    "cheaper_does_not_scale": Cause("Cheaper mode keeps workers in reserve while requests wait", "Raise `cheaper`"),
    "server_errors": Cause("Responses are server errors (500 to 599)", "Check the application's own log"),
    "signal_handlers": Cause("Timers or cron jobs occupy workers", "Let a mule run them: `target='mule'`"),
    "cheaper_starts_slowly": Cause("Cheaper mode starts workers too late", "Raise `cheaper` and `cheaper-initial`"),
    "clients_left": Cause("Clients leave before their answer", "Compare the proxy's timeout with the response time"),
    "clients_refused": Cause("Clients are turned away: the listen queue is full", f"{CHECK}: it says what to raise"),
    "connection_shared": Cause("Workers share one connection", "Set `lazy-apps` and reload"),
    "connections_tracked": Cause("The kernel may drop new connections", "Raise net.netfilter.nf_conntrack_max"),
    "cpu_bound": Cause("The workers use all the CPU that they can get", "Give the server more CPUs, or move load away"),
    "cpu_throttled": Cause("A CPU quota stops the workers", "Raise the quota (CPUQuota, --cpus, limits.cpu)"),
    "cpu_used_by_others": Cause("Other programs use the CPU", "Move them or the server to another host"),
    "cpu_wait": Cause("Requests wait for a CPU", "Move other programs away, or give the host more CPUs"),
    "descriptors_used_up": Cause("A worker has no file descriptors left", "Reload the workers, then raise `max-fd`"),
    "exceptions": Cause("Requests raise exceptions", "Read the tracebacks in uWSGI's log"),
    "harakiri": Cause("uWSGI kills workers whose requests exceed `harakiri`", "Find `HARAKIRI` in uWSGI's log"),
    "interpreter_bound": Cause("Interpreters are saturated", "Add `processes` while CPUs are free"),
    "interpreter_lock_held": Cause("A call holds the interpreter lock", f"{CHECK}: it names the worker"),
    "log_failure": Cause("uWSGI's log reports a failure", f"{CHECK}: it has the line"),
    "loop_held": Cause("A call holds up an event loop", f"{CHECK}: it says what the call waits for"),
    "threads_growing": Cause("A worker starts threads that do not end", "Make one pool of threads in each worker"),
    "memory_growing": Cause("The memory of a worker grows", "Set `reload-on-rss` until the leak is found"),
    "memory_headroom_low": Cause("There is no memory for another worker", "Do not add workers; give the host memory"),
    "no_application": Cause("Workers have no application", "Roll back, if it began with a deploy; see uWSGI's log"),
    "objective_missed": Cause("The objective is missed", f"{CHECK}: it says what requests wait for"),
    "out_of_memory": Cause("A worker was killed because memory ran out", "Lower the number of workers, or add memory"),
    "output_blocked": Cause("Workers are blocked writing to a pipe", "Make the program at its other end read"),
    "sleeps_again": Cause(
        "Requests sleep again and again", "Find the line that sleeps: more threads may only try more often"
    ),
    "pool_exhausted": Cause("Threads wait for a pool of connections", "Make the pool as large as `threads`"),
    "queue_filling": Cause("The listen queue is filling", f"{CHECK}: it says what to raise"),
    "queue_wait": Cause("Requests wait in the listen queue", f"{CHECK}: it says what to raise"),
    "workers_ending": Cause("Workers that are to end take no new request", f"{CHECK}: it says why they are to end"),
    "recycled_together": Cause(
        "Workers that reach `max-requests` keep requests waiting", "Set `max-requests-delta`, or raise `max-requests`"
    ),
    "reload_waits": Cause("A reload waits for a request, and no new request is served", "Set `worker-reload-mercy`"),
    "reloaded": Cause("uWSGI is reloaded again and again", "Find out what reloads uWSGI: SIGHUP, or a touched file"),
    "request_stuck": Cause(
        "Requests are stuck", "Restart workers with stuck requests: `uwsgi-headroom pids NAME --stuck`"
    ),
    "requests_lost": Cause("Requests were lost", f"{CHECK}: it says why the workers exited"),
    "requests_rejected": Cause("uWSGI refuses requests", f"{CHECK}: it names the option to change"),
    "requests_unanswered": Cause("Requests reach no application", "Load the plugin, or correct the modifier"),
    "respawn_loop": Cause("Workers keep restarting", "Roll back, if it began with a deploy; see uWSGI's log"),
    "role_takes_memory": Cause("A process of uWSGI takes more memory than the workers", f"{CHECK}: it names which"),
    "saturation": Cause("All threads are busy, and requests wait", f"{CHECK}: it says what to raise"),
    "slow_clients": Cause("Threads wait for slow clients", "Let the web server in front buffer requests and responses"),
    "spooler_behind": Cause("The spooler falls behind", "Raise `spooler-processes`"),
    "start_hangs": Cause("Workers hang while they start", f"{CHECK}: it says what they wait for"),
    "static_files": Cause("Workers serve static files", "Let the web server serve them, or set `offload-threads`"),
    "unevenness_hurts": Cause("One worker takes too much of the load", "Use more `processes` and fewer `threads`"),
    "vassals_throttled": Cause("Vassals fail to start", "Read the emperor's log for why a vassal ends"),
    "waits_for_backend": Cause("Requests wait for a backend", f"{CHECK}: it names the backend"),
    "waits_for_threads": Cause(
        "Requests wait for threads that serve no request", "Run `uwsgi-headroom check --code`: it names the line"
    ),
    "was_down": Cause("The server was down", "See in uWSGI's log why the server ended"),
    "workers_ended": Cause("Workers ended unexpectedly", "See in uWSGI's log which signal killed them"),
    "workers_missing": Cause("Workers are down or starting", "See in uWSGI's log why workers do not come up"),
    "workers_paused": Cause("Workers are paused", "Resume them: send SIGTSTP to the master, or `p` to the master FIFO"),
    "workers_share_one_cpu": Cause("Workers are pinned to one CPU", "Remove `cpu-affinity`"),
    "workers_stopped": Cause("Workers are stopped", f"{CHECK}: it has the command to resume"),
}
"""By the codes of findings that can be a warning or critical, and of verdicts without a finding."""

HARMS: Mapping[str, str] = {
    "down": "not served",
    "clients_refused": "refused",
    "queue_wait": "wait",
    "queue_filling": "wait",
    "saturation": "wait",
    "cheaper_does_not_scale": "wait",
    "objective_missed": "wait",
    NO_CAUSE: "-",
}
"""What users feel, by the code of a harm, the worst first; they wait where an objective is missed, too."""
