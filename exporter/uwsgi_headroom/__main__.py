"""`python3 -m uwsgi_headroom`, and the command `uwsgi-headroom`."""

import sys

from uwsgi_headroom import interrupts


def main() -> int:
    """Run the command line; the exit status. Ctrl-C while its modules load ends the process without a traceback."""
    with interrupts.ending_the_process():
        from uwsgi_headroom import cli
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
