"""What applies where no setting says otherwise, and the bounds of settings: plain constants, which import nothing."""

LISTEN_HOST, LISTEN_PORT = "127.0.0.1", 9238
LISTEN_ADDRESS = f"{LISTEN_HOST}:{LISTEN_PORT}"

LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("logfmt", "json")

SAMPLES_PER_SECOND_RANGE = (0.25, 20.0)
"""The fewest and the most. Below, windows say little; above, uWSGI's master would notice, and figures gain nothing."""

DEFAULT_SAMPLES_PER_SECOND = 5.0

HISTORY_SECONDS = 3600
"""How far back a server's history reaches, and so the longest window."""

DEFAULT_WINDOWS = (60.0, 300.0)
"""Lengths in seconds."""

TIMEOUT_SECONDS = 5.0
"""For one read. uWSGI's master does not answer for a second after it ends a worker, and for two in its fork bomb guard;
a shorter wait would call that down."""

SIZE_CAP = 6 * 1024 * 1024
"""The most bytes of one document that are read. 64 workers of 64 threads write 1 MB, 1,024 busy threads with 4 kB of
request variables each (uWSGI's `buffer-size`) 5 MB, and 64 workers of 256 coroutines 6.3 MB. A document of this size
that is made to cost time takes up to 70 ms to decode (docs/benchmarks.md); meanwhile nothing else of the exporter
runs."""
