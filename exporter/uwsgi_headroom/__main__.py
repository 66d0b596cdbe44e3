"""Entry point of `python3 -m uwsgi_headroom` and of the command `uwsgi-headroom`."""

import os
import sys

from uwsgi_headroom import interrupts
from uwsgi_headroom.kernel import answering


def main() -> int:
    """Run the command line and return its exit status. Ctrl-C while modules load ends it without a traceback."""
    if sys.argv[1:2] == [answering.FLAG]:
        answering.serve(int(sys.argv[2]))
    open_closed_streams()
    with interrupts.ending_the_process():
        from uwsgi_headroom import cli
    return cli.main()


def open_closed_streams() -> None:
    """Open /dev/null in the place of each standard stream that is closed, as under some supervisors. Otherwise the next
    socket or file gets its descriptor, and the log is written to that."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:  # the lowest free descriptor is the one that `open` uses
            setattr(sys, name, open(os.devnull, "w" if descriptor else "r"))  # noqa: SIM115


if __name__ == "__main__":
    sys.exit(main())
