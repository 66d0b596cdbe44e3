"""uWSGI that is ready to be signalled."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from tests.support.real_uwsgi import Uwsgi, uwsgi, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def accepting(*options: str, binary: str | None = None) -> Iterator[Uwsgi]:
    """Run uWSGI and wait for all its workers to accept.

    A worker that is signalled earlier misses it, and the master waits for it in vain: a reload then hangs,
    and the server has to be killed at the end.
    """
    with uwsgi(*options, binary=binary) as server:
        wait_until(lambda: b'"accepting":0' not in server.document(), what="the workers to accept")
        yield server
