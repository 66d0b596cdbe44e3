"""The options of `report`."""

from __future__ import annotations

from uwsgi_headroom.arguments.parser import Parser
from uwsgi_headroom.report.request import DEFAULT_OUT, DEFAULT_RANGE, FORMATS, parse_range

DESCRIPTION = (
    "Write a capacity review of uWSGI servers from weeks of their history: how much of each limit is used at peak, "
    "what users feel, how the load grows, and what to change. The history comes from a Prometheus that scrapes the "
    "exporter, or from the file that `serve --history` writes. Needs the extra `report`."
)


def add_report_flags(parser: Parser) -> None:
    """Add the options of `report`."""
    parser.add_argument(
        "--prometheus", metavar="URL", help="the URL of a Prometheus, or of another store with the same API"
    )
    parser.add_argument(
        "--history",
        metavar="FILE",
        action="append",
        default=[],
        help="a history file of an exporter. For several machines, give the history file of each: servers with the "
        "same name then count as one service",
    )
    _add_choice(parser)
    _add_access(parser)


def _add_choice(parser: Parser) -> None:
    parser.add_argument(
        "--server", metavar="NAME", action="append", default=[], help="review this server only. May be repeated"
    )
    parser.add_argument(
        "--service", metavar="NAME", action="append", default=[], help="review this service only. May be repeated"
    )
    parser.add_argument(
        "--range",
        metavar="TIME",
        type=parse_range,
        default=DEFAULT_RANGE,
        help="how much time to review, such as 36h, 30d or 12w; the range ends now, or at --until (default 30d)",
    )
    parser.add_argument(
        "--until",
        metavar="TIME",
        help="the end of the range, such as 2026-10-01 or 2026-10-01T12:00 (default: now; with --history, the end of "
        "the records)",
    )
    parser.add_argument(
        "--time-zone",
        metavar="ZONE",
        help="the time zone of days and hours in the report, such as Europe/Berlin (default: this machine's)",
    )
    parser.add_argument("--out", metavar="FILE", default=DEFAULT_OUT, help=f"the file to write (default {DEFAULT_OUT})")
    parser.add_argument(
        "--format", choices=FORMATS, help="the format of the report (default: by the file name extension of --out)"
    )


def _add_access(parser: Parser) -> None:
    parser.add_argument(
        "--prometheus-user", metavar="NAME", help="log in as this user; you can also put the user into the URL"
    )
    parser.add_argument(
        "--prometheus-password-file",
        metavar="FILE",
        help="a file with the user's password (a password on the command line would be visible in the process list)",
    )
    parser.add_argument("--prometheus-token-file", metavar="FILE", help="log in with the bearer token in this file")
    parser.add_argument(
        "--prometheus-header",
        metavar="NAME:VALUE",
        action="append",
        default=[],
        help="a header to send with each request, such as 'X-Scope-OrgID: shop'. May be repeated",
    )
    parser.add_argument(
        "--ca-file",
        metavar="FILE",
        help="a PEM file with certificates to trust, in addition to the system's certificates",
    )
