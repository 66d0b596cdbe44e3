"""Applies a load and prints `Answers`: `python -m uwsgi_headroom.tune.loads FILE`; FILE has a load and a port, as JSON.

The clients run in a process of their own, so that their CPU time can be read apart. The file is removed once it is
read: paths of requests are kept nowhere, and are on no command line, which other users of the machine can see.
"""

from __future__ import annotations

import contextlib
import gc
import resource
import sys
from pathlib import Path

import msgspec

from uwsgi_headroom.tune.loads.clients import Clients
from uwsgi_headroom.tune.loads.load_tools import Load


def main(path: Path) -> None:
    """Apply a load and print the result."""
    load, port = msgspec.json.decode(path.read_bytes(), type=tuple[Load, int])
    path.unlink()
    with contextlib.suppress(ValueError, OSError):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    gc.disable()  # no pauses; connections end their cycle of references themselves
    print(msgspec.json.encode(Clients(load, port).run()).decode(), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
