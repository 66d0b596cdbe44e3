"""Entry point of `python3 -m uwsgi_headroom` and of the command `uwsgi-headroom`."""

import sys

from uwsgi_headroom import interrupts


def main() -> int:
    """Run the command line and return its exit status. Ctrl-C while modules load ends it without a traceback."""
    with interrupts.ending_the_process():
        from uwsgi_headroom import cli
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
