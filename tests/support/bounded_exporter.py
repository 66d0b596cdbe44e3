"""The real exporter with other bounds on HTTP, for tests of the behaviour at a bound.

`python3 -m tests.support.bounded_exporter NAME=NUMBER... -- ARGUMENTS` sets constants of `uwsgi_headroom.web.bounds`
and, by the name DESCRIPTORS, how many descriptors it may open.
"""

from __future__ import annotations

import resource
import sys

from uwsgi_headroom import cli
from uwsgi_headroom.web import bounds


def _main() -> int:
    split = sys.argv.index("--")
    for setting in sys.argv[1:split]:
        name, _, number = setting.partition("=")
        if name == "DESCRIPTORS":
            resource.setrlimit(resource.RLIMIT_NOFILE, (int(number), int(number)))
        else:
            assert hasattr(bounds, name), name
            setattr(bounds, name, type(getattr(bounds, name))(number))
    sys.argv[1 : split + 1] = []
    return cli.main()


if __name__ == "__main__":
    sys.exit(_main())
