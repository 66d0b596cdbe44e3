"""Runs `check ADDRESS SECONDS` as the user `nobody`. Imports everything first: that user may lack access to the
checkout."""

from __future__ import annotations

import os
import sys

from uwsgi_headroom.check import command
from uwsgi_headroom.check.request import Request

NOBODY = 65534


def main() -> int:
    "localhost".encode("idna")  # Python imports a codec at its first use
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    return command.run(Request((sys.argv[1],), float(sys.argv[2]), "json"))


if __name__ == "__main__":
    sys.exit(main())
