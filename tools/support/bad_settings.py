"""Options of uWSGI that break every rule of `review`, for its tests and for the table in docs/review.md."""

from __future__ import annotations

from uwsgi_headroom.analysis.settings import Evidence
from uwsgi_headroom.record import Options

WORST = (
    (Options(complete=True), Evidence()),
    (
        Options(
            complete=True,
            processes=4,
            threads=8,
            stats=":1717",
            listen=5000,
            harakiri=120,
            worker_reload_mercy=30,
            max_requests=1000,
            max_worker_lifetime=3600,
            reload_on_as=512,
            evil_reload_on_rss=256,
            thunder_lock=True,
            cpu_affinity=1,
            chmod_socket=("666", "660"),
            cheaper=4,
            http=(":8080",),
            http_socket=(":8081",),
        ),
        Evidence((2, 0, 31), 4, 8, 2, ("numpy",), 4096, 1 << 30, is_first=True, logs_to_pipe=True),
    ),
    (Options(complete=True, processes=8, cheaper=2, cheaper_initial=9, cheaper_step=7), Evidence()),
    (
        Options(complete=True, processes=8, cheaper_step=2, worker_reload_mercy=900),
        Evidence(version=(2, 0, 21), threads=1),
    ),
)
"""What to review, example by example."""
