"""The options for logins: of clients of an exporter, and of `hash-password`."""

from __future__ import annotations

from uwsgi_headroom.arguments.numbers import parse_cost
from uwsgi_headroom.arguments.parser import Parser
from uwsgi_headroom.config.defaults import DEFAULT_PASSWORD_COST, PASSWORD_COST_RANGE

HASHING = (
    "Read a password, twice from the terminal without showing it, or one line of standard input, and print its bcrypt "
    "hash for basic_auth_users in the file of --web.config.file. Needs the extra `login`."
)


def add_http_config_flag(parser: Parser) -> None:
    """Add the option with the access to exporters."""
    parser.add_argument(
        "--http.config.file",
        dest="http_config_file",
        metavar="FILE",
        help="a login, certificates to trust or a client certificate for exporters, in the format of Prometheus' HTTP "
        "client configuration, as promtool reads it",
    )


def add_cost_flag(parser: Parser) -> None:
    """Add the cost of a hash."""
    parser.add_argument(
        "--cost",
        metavar="NUMBER",
        type=parse_cost,
        default=DEFAULT_PASSWORD_COST,
        help="each step doubles the time of a check, {} to {} (default {}: a quarter of a second, once for each "
        "client)".format(*PASSWORD_COST_RANGE, DEFAULT_PASSWORD_COST),
    )
