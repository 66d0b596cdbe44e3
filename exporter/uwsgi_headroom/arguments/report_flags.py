"""The options of `report`."""

from __future__ import annotations

from uwsgi_headroom.arguments.parser import Flag
from uwsgi_headroom.report.request import DEFAULT_OUT, DEFAULT_RANGE, FORMATS, parse_format, parse_range

DESCRIPTION = (
    "Write a capacity review of uWSGI servers from weeks of their history: how much of each limit is used at peak, "
    "what users feel, how the load grows, and what to change. The history comes from a Prometheus that scrapes the "
    "exporter, or from the file that `serve --history` writes."
)

FLAGS = (
    Flag("--prometheus URL", "the URL of a Prometheus, or of another store with the same API"),
    Flag(
        "--history FILE",
        "a history file of an exporter. For several machines, give the history file of each: servers with the "
        "same name then count as one service",
        is_repeatable=True,
    ),
    Flag("--server NAME", "review this server only. May be repeated", is_repeatable=True),
    Flag("--service NAME", "review this service only. May be repeated", is_repeatable=True),
    Flag(
        "--range TIME",
        "how much time to review, such as 36h, 30d or 12w; the range ends now, or at --until (default 30d)",
        parse=parse_range,
        default=DEFAULT_RANGE,
    ),
    Flag(
        "--until TIME",
        "the end of the range, such as 2026-10-01 or 2026-10-01T12:00 (default: now; with --history, the end of "
        "the records)",
    ),
    Flag(
        "--time-zone ZONE",
        "the time zone of days and hours in the report, such as Europe/Berlin (default: this machine's)",
    ),
    Flag("--out FILE", f"the file to write (default {DEFAULT_OUT})", default=DEFAULT_OUT),
    Flag("--format", "the format of the report (default: by the ending of --out)", parse=parse_format, values=FORMATS),
    Flag("--prometheus-user NAME", "log in as this user; you can also put the user into the URL"),
    Flag(
        "--prometheus-password-file FILE",
        "a file with the user's password (a password on the command line would be visible in the process list)",
    ),
    Flag("--prometheus-token-file FILE", "log in with the bearer token in this file"),
    Flag(
        "--prometheus-header NAME:VALUE",
        "a header to send with each request, such as 'X-Scope-OrgID: shop'. May be repeated",
        is_repeatable=True,
    ),
    Flag("--ca-file FILE", "a PEM file with certificates to trust, in addition to the system's certificates"),
)
