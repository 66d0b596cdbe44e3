"""Makes the picture of `top` in the README: `.venv/bin/python3 -m tools.top_picture URL`, with `make demo` running,
prints the screen of a terminal of 80 columns and 15 lines.

Copy its output into the README unchanged.
"""

from __future__ import annotations

import argparse
import re
import sys

from tools.support.driven_top import driven

_WHOLE = re.compile(r" over \d+ \w+, every ")
"""In the last line, once figures are over their whole window (`over 3 of 60 s` before)."""


def main() -> int:
    """Prints the screen once its figures cover a whole window."""
    parser = argparse.ArgumentParser(prog=".venv/bin/python3 -m tools.top_picture", description=__doc__)
    parser.add_argument("address", help="address, as for uwsgi-headroom top")
    parser.add_argument("--keys", default="", help="keys to press before the picture is taken")
    parser.add_argument("--lines", type=int, default=15, help="lines of the terminal (default: %(default)s)")
    options = parser.parse_args()
    with driven(options.address, lines=options.lines) as top:
        top.wait(lambda text: "headroom " in text and _WHOLE.search(text), seconds=120)
        top.press(options.keys)
        before = len(top.written)
        screen = top.wait(lambda _: len(top.written) > before + 200)
    print(screen.rstrip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
