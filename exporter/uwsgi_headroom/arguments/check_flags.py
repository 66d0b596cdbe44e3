"""The options of `check`."""

from __future__ import annotations

from functools import partial

from uwsgi_headroom.arguments.parser import Flag, number_between, parse_span, seconds_between
from uwsgi_headroom.check.request import FORMATS, UNSET, WATCH_SECONDS, parse_maximum, parse_minimum
from uwsgi_headroom.config.defaults import HISTORY_SECONDS, STUCK_SECONDS

DESCRIPTION = (
    "Watch uWSGI servers, then print a verdict and what to change. With several servers, print one line for each "
    "server, the worst first, then the details of each server that is not OK. The exit status is the verdict, as for a "
    "Nagios plugin. With several servers, the worst server decides the exit status: critical is worse than warning, "
    "warning is worse than unknown, and unknown is worse than OK."
)

HTTP_CONFIG = Flag(
    "--http.config.file FILE",
    "a file with the login, the trusted certificates or the client certificate to use with an exporter, in "
    "the format of promtool's --http.config.file",
)
"""The access to exporters, for every command that reads one."""

_maximum = partial(Flag, parse=parse_maximum, default=UNSET)

FLAGS = (
    Flag(
        "addresses ADDRESS",
        "the address of a stats server, or a glob, as for `serve --stats`; or the URL of a running exporter, or "
        "of one server's page on it: the exporter then answers at once, from its history",
        is_repeatable=True,
    ),
    HTTP_CONFIG,
    Flag("--all", "check every server of this machine; with addresses, print everything"),
    Flag(
        "--seconds SECONDS",
        f"how many seconds to watch (default {WATCH_SECONDS:g}). If you give the URL of a running exporter, "
        "`check` does not watch: it prints at once what the exporter measured over a window of this length, or over "
        "the next longer window that it has (`serve --window`)",
        parse=seconds_between(2, HISTORY_SECONDS),
    ),
    Flag(
        "--format",
        "how to print the verdict: as text, as one JSON document (even after a failure), or as one line with "
        "performance data for Nagios (default text)",
        default="text",
        values=FORMATS,
    ),
    Flag(
        "--stuck AGE",
        f"count a request as stuck once it has been in service for this long, from 1s to 24h (default "
        f"{STUCK_SECONDS:g}s)",
    ),
    Flag(
        "--read-locks",
        "read from the workers' memory whether each lock of the application is held (eight bytes for each lock), "
        "so that check knows exactly how busy the lock is",
    ),
    Flag(
        "--read-pollfds",
        "read from the workers' memory which file descriptors a thread polls (eight bytes for each descriptor), "
        "so that check knows which backend the thread waits for (default true)",
        values=("true", "false"),
    ),
    Flag(
        "--code",
        "ten times a second, also find out, from the workers' memory, which Python function and line each busy "
        "thread runs, and print the functions that take the most time. Only names of functions and files, and line "
        "numbers, are read, no values of variables",
    ),
    Flag(
        "--code-prefix PATH",
        "with --code: treat files whose paths begin with PATH, such as /srv/shop/, as the application's own code "
        "(default: all files except Python's own and those in site-packages); repeatable",
        is_repeatable=True,
    ),
    Flag(
        "--log [NAME=]PATH",
        "also read uWSGI's log, from a file or from journal:UNIT, and name causes of problems that only the log "
        "shows. NAME is the server's name; you may omit NAME if there is only one server. Repeatable",
        is_repeatable=True,
    ),
    Flag(
        "--what-if PROCESSESxTHREADS",
        "also predict the throughput, response time and memory of a setting, such as 8x4 (8 processes with 4 "
        "threads each). For several settings, repeat the flag, or put commas between the settings",
        is_repeatable=True,
    ),
    Flag(
        "--since-reload",
        "for a deploy pipeline: also compare the requests since the last reload or restart of uWSGI with "
        "earlier requests. The verdict is critical if requests are slower, use more CPU or fail more often, or if "
        "memory grows. The verdict is unknown until there are enough requests to judge. Needs an exporter",
    ),
    Flag(
        "--wait TIME",
        "with --since-reload: wait at most this long for a verdict, such as 10m (default 0)",
        parse=parse_span(0, 3600),
        default=0.0,
    ),
    Flag(
        "--not-before SECONDS",
        "with --since-reload: ignore reloads before this time, in seconds since 1970 (as `date +%%s` prints them)",
        parse=number_between(0, 1e12),
    ),
    Flag(
        "--min-headroom WARNING[:CRITICAL]",
        "the lowest acceptable headroom. For example, 2:1.2 gives a warning below 2, and is critical below 1.2. "
        "A headroom of 2 means that the load can double",
        parse=parse_minimum,
        default=UNSET,
    ),
    _maximum(
        "--max-queue-wait WARNING[:CRITICAL]",
        "the longest average wait in the listen queue that is OK: 100ms:2s is a warning above 100ms, and critical "
        "above 2s",
    ),
    _maximum(
        "--max-response-time WARNING[:CRITICAL]",
        "the longest average response time that is OK: 500ms:2s is a warning above 500ms, and critical above 2s",
    ),
    _maximum(
        "--max-p95 WARNING[:CRITICAL]",
        "the highest acceptable 95th percentile of response times inside uWSGI, such as 800ms:2s. The percentile "
        "is estimated from samples, so a threshold has to be at least twice the time between samples, which means at "
        "least 50ms if `check` itself reads the stats server",
    ),
    _maximum(
        "--max-p99 WARNING[:CRITICAL]",
        "the highest acceptable 99th percentile of response times, such as 1s:3s. At least 100 requests are "
        "needed to judge it. All thresholds that you set with flags apply in addition to the built-in checks: they can "
        "only make a verdict worse",
    ),
)
