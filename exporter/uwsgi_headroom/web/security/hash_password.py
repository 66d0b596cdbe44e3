"""Runs `hash-password`: reads a password and prints its bcrypt hash."""

from __future__ import annotations

import argparse
import getpass
import sys

from uwsgi_headroom import extras
from uwsgi_headroom.errors import ConfigError, HeadroomError
from uwsgi_headroom.terminal_text import print_lines

_MOST_BYTES = 72
"""As in `web.security.login`, which needs bcrypt."""

_LONGEST_LINE = 4096


def run(options: argparse.Namespace) -> int:
    """Run `hash-password` and return its exit status. Raises HeadroomError."""
    try:
        import bcrypt  # noqa: PLC0415 - an extra
    except ImportError:
        raise HeadroomError(f"hash-password needs {extras.describe_missing(['bcrypt'])}") from None
    if sys.stdin and sys.stdin.isatty():
        password = _ask()
    else:  # one line, in any encoding; none if standard input is closed
        line = sys.stdin.buffer.readline(_LONGEST_LINE) if sys.stdin else b""
        password = line.removesuffix(b"\n").removesuffix(b"\r")
    if not password:
        raise ConfigError("the password is empty")
    if b"\0" in password:
        raise ConfigError("a password cannot hold a NUL byte: bcrypt would ignore what follows")
    if len(password) > _MOST_BYTES:
        number = "more than 4,000" if len(password) >= _LONGEST_LINE else len(password)
        raise ConfigError(
            f"the password has {number} bytes, and bcrypt would ignore all after the first {_MOST_BYTES}: "
            "choose a shorter one"
        )
    print_lines([bcrypt.hashpw(password, bcrypt.gensalt(options.cost)).decode()])
    return 0


def _ask() -> bytes:
    try:
        password = getpass.getpass("Password: ")
        again = getpass.getpass("Again: ")
    except EOFError:
        raise ConfigError("no password: the input ended") from None
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"the terminal sent bytes that are not {error.encoding.upper()}: set the locale (LC_ALL) to the terminal's "
            "encoding, or give the password in a pipe"
        ) from None
    if again != password:
        raise ConfigError("the two passwords differ")
    return password.encode("utf-8", "surrogateescape")
