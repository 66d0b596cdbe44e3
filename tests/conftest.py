"""Configures all tests: spreads them over processes (`make test`), removes deadlines from Hypothesis, and runs
coroutines, each in an event loop of its own."""

import asyncio
import contextlib
import faulthandler
import gc
import importlib
import inspect
import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# The time of an example depends on how busy the machine is, not on the code under test.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")

# A shell ignores SIGINT for background jobs, and `nohup` SIGHUP; the programs that tests start would inherit that.
for _number, _usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Returns five processes for two CPUs, because half of the tests mostly wait for a server."""
    return 5 * len(os.sched_getaffinity(0)) // 2


def pytest_sessionstart(session: pytest.Session) -> None:
    """Imports all test files in an order that each of several processes begins elsewhere. Without bytecode, as in a new
    checkout, they would compile the same files at the same time; so each finds most files compiled by the others."""
    gc.disable()
    given: dict[str, str | int] = getattr(session.config, "workerinput", {})
    if not given or session.config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    files = sorted(Path(__file__).parent.rglob("test_*.py"))
    begin = len(files) * int(str(given["workerid"]).removeprefix("gw")) // int(given["workercount"])
    for path in files[begin:] + files[:begin]:
        with contextlib.suppress(Exception, pytest.skip.Exception):  # raised again, and reported, by the collection
            importlib.import_module(".".join(path.relative_to(session.config.rootpath).with_suffix("").parts))


def pytest_collection_finish() -> None:
    """Counts the 13,000 tests as no garbage: nothing looks for any while they are made, nor among them later."""
    gc.enable()
    gc.freeze()


BEGUN = {"promtool": 0.0, "browser": 0.5, "servers": 0.6, "": 1.0}
"""By the kind of a file: the part of all files after which the last one of its kind begins. Files that wait for servers
run beside those that need a CPU, and the last ones to begin are short."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mixes the kinds of files, so that CPUs are not idle while servers start, and no long file runs last."""
    kinds: dict[Path, str] = {}
    for item in items:
        kinds[item.path] = kinds.get(item.path) or _kind(item)
    places: dict[Path, float] = {}
    for kind, begun in BEGUN.items():
        files = [path for path, its_kind in kinds.items() if its_kind == kind]
        places |= {path: begun * place / len(files) for place, path in enumerate(files)}
    items.sort(key=lambda item: places[item.path])


def _kind(item: pytest.Item) -> str:
    """What the file of a test needs, as far as this test shows it."""
    if item.path.parent.name == "alerts":
        return "promtool"
    if item.path.stem.endswith("_in_browser"):
        return "browser"
    return "servers" if item.get_closest_marker("integration") else ""


LONGEST_SECONDS = 400
"""A test that takes longer hangs: its process prints where, and ends, so that the test fails and the others go on."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    """Ends a test that hangs."""
    faulthandler.dump_traceback_later(LONGEST_SECONDS, exit=True)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a coroutine for five minutes at most; with `LEAVES_NO_TASK` in its module, its tasks must have ended."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None

    async def run() -> None:
        names = set(inspect.signature(test).parameters) - {"self"}
        await asyncio.wait_for(test(**{name: pyfuncitem.funcargs[name] for name in names}), 300)
        if getattr(pyfuncitem.module, "LEAVES_NO_TASK", False):
            await asyncio.sleep(0.05)
            assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())
    return True


@pytest.fixture(autouse=True)
def process():
    """Restores what a command run within a test changes for the process: the log's handlers and level, SIGINT."""
    root = logging.getLogger()
    handlers, level, interrupted = root.handlers[:], root.level, signal.getsignal(signal.SIGINT)
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    signal.signal(signal.SIGINT, interrupted)
