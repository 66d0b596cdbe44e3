"""The real exporter, extended so that it can be stopped in the middle of a read, for tests of the effect on uWSGI.

`python3 -m tests.support.stoppable_exporter ARGUMENTS` runs the exporter. After SIGRTMIN it stops itself (SIGSTOP) in
the middle of its next read, and after SIGUSR2 it kills itself there (SIGKILL): connected, with nothing received yet,
which is when it can hold up a master.
"""

from __future__ import annotations

import os
import signal
import socket
import sys

from uwsgi_headroom import cli
from uwsgi_headroom.source import stream
from uwsgi_headroom.source.room import Share
from uwsgi_headroom.source.stream import Received, receive


def _main() -> int:
    armed: list[int] = []
    signal.signal(signal.SIGRTMIN, lambda *_: armed.append(signal.SIGSTOP))
    signal.signal(signal.SIGUSR2, lambda *_: armed.append(signal.SIGKILL))

    async def stand_still(sock: socket.socket, share: Share, deadline: float | None = None) -> Received:
        if armed:
            os.kill(os.getpid(), armed.pop())
        return await receive(sock, share, deadline)

    vars(stream)["receive"] = stand_still
    return cli.main()


if __name__ == "__main__":
    sys.exit(_main())
