"""Runs `check ADDRESS SECONDS` as the user nobody. Imports come first: nobody may not be able to read the checkout."""

from __future__ import annotations

import os
import sys

from uwsgi_headroom.check import command

NOBODY = 65534


def main() -> int:
    "localhost".encode("idna")  # a codec is imported when it is first used
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    return command.run(sys.argv[1], float(sys.argv[2]), as_json=True)


if __name__ == "__main__":
    sys.exit(main())
