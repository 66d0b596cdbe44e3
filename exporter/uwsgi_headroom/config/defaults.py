"""Defaults and bounds of settings: plain constants, without imports."""

LISTEN_HOST, LISTEN_PORT = "127.0.0.1", 9238
LISTEN_ADDRESS = f"{LISTEN_HOST}:{LISTEN_PORT}"

LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("logfmt", "json")

READER = "prometheus"
"""The user of Prometheus in the packages of the distributions."""

SAMPLES_PER_SECOND_RANGE = (0.25, 20.0)
"""Lowest and highest. Below, windows have too few samples; above, reads load uWSGI's master and add no accuracy."""

DEFAULT_SAMPLES_PER_SECOND = 5.0

MOST_BACKENDS = 20
"""The most backends that can have a name: each has a time series, and a name of its own in all figures."""

MOST_PREFIXES = 32
"""The most prefixes of an application's files: each frame of each stack is compared with all of them."""

LIBRARY_FILES = r"<|(?:.*/)?(?:(?:site|dist)-packages|lib(?:64)?/python\d(?:\.\d+)?)/"
"""How the names of Python files begin that are no application's."""

STUCK_SECONDS = 30.0
"""A request in service for at least this long counts as stuck. Web servers in front give up after 60 s (nginx, Apache),
so at 30 s there is time to look; few requests take that long unless they are meant to."""

STUCK_SECONDS_RANGE = (1.0, 86400.0)
"""Lowest and highest. uWSGI reports the start of a request in whole seconds."""

HISTORY_SECONDS = 3600
"""Length of a server's history, and so of the longest window."""

DEFAULT_WINDOWS = (60.0, 300.0)
"""Lengths in seconds."""

TIMEOUT_SECONDS = 5.0
"""Timeout of one read. uWSGI's master does not answer for one second after it ends a worker, nor for two seconds in its
fork bomb guard; with a shorter timeout, the server would then count as down."""

TIMEOUT_RANGE = (0.1, 60.0)

SIZE_CAP = 6 * 1024 * 1024
"""Largest document accepted, in bytes. 64 workers of 64 threads write 1 MB, 1,024 busy threads with 4 kB of request
variables each (uWSGI's `buffer-size`) 5 MB, and 64 workers of 256 coroutines 6.3 MB. A hostile document of this size
takes up to 70 ms to decode (docs/dev/evidence.md); meanwhile nothing else in the exporter runs."""

SIZE_CAP_RANGE = (4096, 2**30)

HISTORY_MAX_SIZE = 10**9
"""Bytes of the history file: above, the oldest minutes are deleted first. A server of 8 workers needs some 33 MB in
all, one of 64 workers 115 MB."""

HISTORY_MAX_SIZE_RANGE = (10**6, 10**12)

PASSWORD_COST_RANGE = (4, 20)
"""Lowest and highest cost of a bcrypt hash. Each step doubles the time of a check: a minute at 20, more than a day at
31, the highest that bcrypt has."""

DEFAULT_PASSWORD_COST = 12
"""A check takes a quarter of a second, once for each pair of user name and password."""

MOST_SERVERS = 400
"""Servers that patterns find, at most. One of 8x8 takes 0.67 MB after an hour (docs/dev/evidence.md), and by its arrays
0.15 MB more after a reload, so that 400 fit into the 512 MB of the shipped systemd unit."""

MOST_SERVERS_RANGE = (1, 10_000)

SHIPPED_HISTORY = "/var/lib/uwsgi-headroom/history.sqlite"
"""The history file of the shipped systemd unit and of the Debian package."""

TUNE_SECONDS, LEAST_CLIENTS = 10.0, 16
"""Of a run of `tune`: how long it measures, and the fewest clients."""

JOURNAL = "journal:"
"""Before the name of a unit, where the path of a log may be: the lines that the unit writes to systemd's journal."""
