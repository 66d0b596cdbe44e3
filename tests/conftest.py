"""What holds for all tests: how they are spread over processes (`make test`), and that none is judged by the clock."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

# An example that takes long says how busy the machine is, and nothing of what is tested.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")

# A shell ignores Ctrl-C for what it runs in the background, and programs that tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Twice as many processes as CPUs: half of the tests wait for a server, and do nothing meanwhile."""
    return 2 * len(os.sched_getaffinity(0))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take long, so that none of them is the last: those of the rules, which promtool
    simulates, then those that wait for real servers."""
    items.sort(key=lambda item: (item.path.parent.name != "alerts", item.get_closest_marker("integration") is None))


@pytest.fixture(autouse=True)
def process() -> Iterator[None]:
    """Restore what a command line, run within a test, sets for its process: the log's handlers and level, SIGINT."""
    root = logging.getLogger()
    handlers, level, interrupted = root.handlers[:], root.level, signal.getsignal(signal.SIGINT)
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    signal.signal(signal.SIGINT, interrupted)
