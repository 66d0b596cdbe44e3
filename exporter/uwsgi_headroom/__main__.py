"""`python3 -m uwsgi_headroom`, and the command `uwsgi-headroom`."""

import signal
import sys


def main() -> int:
    """Run the command line; the exit status. Ctrl-C while its modules load ends the process without a traceback."""
    interrupted = signal.getsignal(signal.SIGINT)
    if interrupted is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from uwsgi_headroom import cli  # noqa: PLC0415 - this is what takes its time

    signal.signal(signal.SIGINT, interrupted)
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
