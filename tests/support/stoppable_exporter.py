"""The real exporter, changed for tests of its effect on uWSGI, and of its bounds on HTTP.

`python3 -m tests.support.stoppable_exporter ARGUMENTS` runs the exporter. After SIGRTMIN it stops itself (SIGSTOP) in
the middle of its next read, and after SIGUSR2 it kills itself there (SIGKILL): connected, with nothing received yet,
which is when it can hold up a master.

With `NAME=NUMBER... -- ARGUMENTS` it sets constants of `uwsgi_headroom.web.bounds` instead, and by DESCRIPTORS
how many descriptors it may open.
"""

import os
import resource
import signal
import sys
from typing import Any

from uwsgi_headroom import cli
from uwsgi_headroom.source import stream
from uwsgi_headroom.web import bounds


def _stop_at_signals() -> None:
    armed: list[int] = []
    signal.signal(signal.SIGRTMIN, lambda *_: armed.append(signal.SIGSTOP))
    signal.signal(signal.SIGUSR2, lambda *_: armed.append(signal.SIGKILL))

    class StandsStill(stream.Transfer):
        def __init__(self, *of: Any) -> None:
            if armed:
                os.kill(os.getpid(), armed.pop())
            super().__init__(*of)

    vars(stream)["Transfer"] = StandsStill


def _bound(name: str, number: str) -> None:
    if name == "DESCRIPTORS":
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(number), int(number)))
    else:
        assert hasattr(bounds, name), name
        setattr(bounds, name, type(getattr(bounds, name))(number))


def _main() -> int:
    if "--" not in sys.argv:
        _stop_at_signals()
    else:
        split = sys.argv.index("--")
        for setting in sys.argv[1:split]:
            _bound(*setting.split("="))
        sys.argv[1 : split + 1] = []
    return cli.main()


if __name__ == "__main__":
    sys.exit(_main())
