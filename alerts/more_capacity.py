"""The advice on more capacity: `add_capacity` of `uwsgi_headroom.analysis.advice` in alert texts.

More threads or processes are advised only where evidence shows that they help: interpreters that compute much of the
time, or threads of which it is known what they wait for. Every alert about full threads or queues uses this text.
"""

from __future__ import annotations

from alerts.thresholds import Thresholds
from alerts.words import HUNDREDTH, asked

_IF_SEEN = (
    "See first what the threads wait for, as the runbook says: for a lock, a full backend or slow clients, more of "
    "them only wait as well. Otherwise raise"
)

_UNSEEN = (
    "This exporter may not see what the threads wait for. Run `sudo uwsgi-headroom check --all` on the host, which "
    "shows it once; docs/waits.md says how to grant the exporter that right. If they wait for a lock of the "
    "application, hold it for less time. If for a backend, make it faster, or let it take more at once. If for slow "
    "clients, let the web server in front buffer. Leave `threads` and `processes` as they are until then: more of them "
    "may only wait as well."
)


def more_capacity(t: Thresholds) -> str:
    """The advice for the alert's server, from the present load of its interpreters and from whether its waits are
    known."""
    busy = f'1 / server:uwsgi_headroom:ratio_rate{t.window}{{limit="interpreters",$self}}'
    seen = f"rate(uwsgi_wait_observed_seconds_total{{$self}}[{t.window}]) > 0"
    return (
        f"{{{{ with {asked(f'{busy} > {t.interpreter_full / 2}')} }}}}Add `processes` while CPUs are free: each "
        "interpreter uses "
        + "{{ . | first | value | "
        + HUNDREDTH
        + " }} of a CPU, and more threads would only wait for it.{{ else }}"
        + f"{{{{ with {asked(seen)} }}}}"
        + f"{{{{ with {asked('max(uwsgi_worker_threads{$self}) == 1')} }}}}"
        + f"{_IF_SEEN} `processes`, and `threads` only if the application is thread-safe.{{{{ else }}}}"
        + f"{_IF_SEEN} `threads` or `processes`, one at a time.{{{{ end }}}}"
        + f"{{{{ else }}}}{_UNSEEN}{{{{ end }}}}{{{{ end }}}}"
    )
