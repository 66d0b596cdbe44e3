"""How much more one server can take, which limit comes first, and how full it is."""

from __future__ import annotations

from dashboards.signal import ONE, RATE, TIMES, WINDOW, Series, in_words, signal

_HEADROOM = ONE.of("uwsgi_headroom_ratio", WINDOW)
_SEEN = ONE.of("uwsgi_concurrency", WINDOW, 'method="observed"')
_AVAILABLE, _CEILING = ONE.of("uwsgi_threads_available"), ONE.of("uwsgi_threads_ceiling")
OBSERVED_SECONDS = f"sum({ONE.rate('uwsgi_exporter_observed_seconds_total')})"
"""The divisor of figures from samples, so that a gap between samples does not count as idle time."""

UNTIL_WAIT = "until requests wait"
"""The name of the usable headroom, as in the verdict of a server."""
_USABLE = f"min({ONE.of('uwsgi_usable_headroom_ratio', WINDOW)})"
HEADROOM = signal(
    "Headroom",
    TIMES,
    """The factor by which load can grow before the named limit is reached, at 1x it is reached; and until requests
    wait, at 1x or less they begin to. Empty if less than 1 % of every limit is used (an idle server), and if the server
    cannot be read.""",
    Series(in_words(f"bottomk(1, {_HEADROOM})"), "{{limit}}", now=True),
    Series(_USABLE, UNTIL_WAIT, now=True),
)
LIMITS = signal(
    "How much of each limit is used",
    "percentunit",
    """The limit on top is reached first. Headroom is 100 % divided by the used part. Hottest interpreter: that of the
    busiest worker, at the current shares; above it, latency grows. Interpreters: those of all workers together.
    Threads: requests in service, as a part of the threads. CPU: a part of the CPUs that the server may use. Unknown
    limits, and those of which less than 1 % is used, are missing.""",
    Series(in_words(f"sort_desc(1 / {_HEADROOM})"), "{{limit}}", now=True),
)
UTILIZATION = signal(
    "Threads busy",
    "percentunit",
    """Mean requests in service as a part of the threads, including those of workers that cheaper mode keeps in reserve.
    Near 100 %, requests wait in the listen queue, even if the CPUs are idle.""",
    Series(f"sum({_SEEN}) / sum({_CEILING})", "busy", now=True),
)
HEADROOM_OVER_TIME = signal(
    "Headroom by limit",
    TIMES,
    """The lowest solid line is the headroom. If it is the line of the hottest interpreter, balancing the workers helps;
    the other limits are hard. The dashed line is the headroom until requests wait. On a logarithmic scale, without
    limits of which less than 1 % is used.""",
    Series(in_words(_HEADROOM), "{{limit}}"),
    Series(_USABLE, UNTIL_WAIT),
)
CONCURRENCY = signal(
    "Requests in service, against threads",
    "none",
    """Observed is the mean of samples. Little's law counts a request when it ends, so the difference between the two is
    in flight, or stuck. Available are the threads of workers that are up and accept requests: fewer than configured if
    cheaper mode or a respawn has removed workers.""",
    Series(f"sum({ONE.rate('uwsgi_worker_busy_thread_seconds_total')}) / {OBSERVED_SECONDS}", "observed"),
    Series(f"sum({ONE.rate('uwsgi_worker_running_time_seconds_total')})", "by Little's law"),
    Series(f"sum({_AVAILABLE})", "available"),
    Series(f"sum({ONE.of('uwsgi_threads_configured')})", "configured"),
)
_BELOW_ALL = 'le!~"1|1.0"'
_SAMPLES = f"sum by (le) (increase({ONE.of('uwsgi_threads_busy_ratio_bucket', _BELOW_ALL)}{RATE}))"
"""Only samples of a worker that is just ending are above 1: their bucket is merged into the one up to 1."""
OCCUPANCY = signal(
    "How often how full",
    "percentunit",
    """Samples by the part of available threads that is busy: how often the server was how full, which a mean hides. In
    the top band every thread is busy. The scale below shows the number of samples for each colour. Empty with
    stats-no-cores, which hides the threads.""",
    Series(f'label_replace({_SAMPLES}, "le", "1", "le", "[+]Inf")', "{{le}}"),
)
_URGENT = "\nor ".join(
    f"{rank} * {ONE.of('ALERTS', *matchers)}"
    for rank, matchers in (
        (4, ('alertstate="firing"', 'severity="critical"')),
        (3, ('alertstate="firing"',)),
        (2, ('severity="critical"',)),
        (1, ()),
    )
)
ALERTS = signal(
    "Alerts on this server",
    "none",
    """Alerts of this project's rules that are firing, and then those that are pending. Empty means no alert, or that
    the rules are not loaded.""",
    Series(f"sort_desc(max by (alertname, code, severity, alertstate) ({_URGENT}))", "Alert", now=True),
)
