"""How much more one server can take, which limit comes first, and how full it is."""

from __future__ import annotations

from dashboards.selector import ONE, RATE, WINDOW, in_words
from dashboards.signal import TIMES, Series, signal

_HEADROOM = ONE.of("uwsgi_headroom_ratio", WINDOW)
_SEEN = ONE.of("uwsgi_concurrency", WINDOW, 'method="observed"')
_AVAILABLE, _CEILING = ONE.of("uwsgi_threads_available"), ONE.of("uwsgi_threads_ceiling")
OBSERVED_SECONDS = f"sum({ONE.rate('uwsgi_exporter_observed_seconds_total')})"
"""What figures made of samples are divided by, so that a gap between samples does not look idle."""

HEADROOM = signal(
    "Headroom",
    TIMES,
    """The factor by which load can grow before the named limit is reached; at 1x it is. Empty while every limit is
    used to less than a hundredth (an idle server), and where the server cannot be read.""",
    Series(in_words(f"bottomk(1, {_HEADROOM})"), "{{limit}}", now=True),
)
LIMITS = signal(
    "How much of each limit is used",
    "percentunit",
    """The fullest is on top and comes first. Headroom is how many times that goes into 100 %. Hottest interpreter: the
    busiest worker's, at today's shares; latency grows from there. Interpreters: of all workers together. Threads:
    requests in service against the threads there are. CPU: against the CPUs the server may use. A limit that is used to
    less than a hundredth, or unknown, is missing.""",
    Series(in_words(f"sort_desc(1 / {_HEADROOM})"), "{{limit}}", now=True),
)
UTILIZATION = signal(
    "Threads busy",
    "percentunit",
    """Mean requests in service over threads, with those of workers that cheaper mode keeps in reserve. Near 100 %
    requests wait in the listen queue, although the CPUs may idle.""",
    Series(f"sum({_SEEN}) / sum({_CEILING})", "busy"),
)
HEADROOM_OVER_TIME = signal(
    "Headroom by limit",
    TIMES,
    """The lowest line is the headroom. Where it is the hottest interpreter's, balancing the workers helps; the
    others are a hard ceiling. On a logarithmic scale; a limit that is used to less than a hundredth is not drawn.""",
    Series(in_words(_HEADROOM), "{{limit}}"),
)
CONCURRENCY = signal(
    "Requests in service, against threads",
    "none",
    """Observed is the mean of samples; Little's law counts a request when it ends, so what is observed above it is in
    flight, or stuck. Available are the threads of workers that are up and accepting: below the configured ones where
    cheaper mode or a respawn has taken workers away.""",
    Series(f"sum({ONE.rate('uwsgi_worker_busy_thread_seconds_total')}) / {OBSERVED_SECONDS}", "observed"),
    Series(f"sum({ONE.rate('uwsgi_worker_running_time_seconds_total')})", "by Little's law"),
    Series(f"sum({_AVAILABLE})", "available"),
    Series(f"sum({ONE.of('uwsgi_threads_configured')})", "configured"),
)
_BELOW_ALL = 'le!~"1|1.0"'
_SAMPLES = f"sum by (le) (increase({ONE.of('uwsgi_threads_busy_ratio_bucket', _BELOW_ALL)}{RATE}))"
"""Nothing is above 1 but samples of a worker that was just leaving: its bucket is part of the one up to 1."""
OCCUPANCY = signal(
    "How often how full",
    "percentunit",
    """Samples by busy over available threads: how often it was how full, which a mean hides. In the top band every
    thread is busy. The scale below says how many samples a colour stands for. Empty with stats-no-cores, which hides
    the threads.""",
    Series(f'label_replace({_SAMPLES}, "le", "1", "le", "[+]Inf")', "{{le}}"),
)
ALERTS = signal(
    "Alerts on this server",
    "none",
    """Alerts of this project's rules that are pending or fire now. Empty is good, or means that the rules are not
    loaded.""",
    Series(
        f"sum by (alertname, severity, alertstate) ({ONE.of('ALERTS')})",
        "Alert",
        now=True,
    ),
)
