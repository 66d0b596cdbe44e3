"""The page in a browser for the tests of its modules, and an event loop for tests that are coroutines."""

import asyncio
import inspect

import pytest

from tests.support.browser import browser, tab
from tests.support.web_server import serving
from tests.web.test_app import replayed


@pytest.fixture(scope="module")
def chromium():
    """One browser for all tests of a module; every tab has a profile of its own."""
    with browser() as running:
        yield running


@pytest.fixture(scope="module")
def port():
    """The port of an exporter of a replayed busy server, with figures and a history."""
    with serving(replayed("threads_4x8_busy"), sampling=True) as listening:
        yield listening


@pytest.fixture(scope="module")
def page(chromium):
    """The page of a replayed server, whose modules can be imported."""
    with serving(replayed("threads_4x8_busy"), sampling=True) as port, tab(chromium, port, bypass_csp=True) as shown:
        shown.open("/")
        shown.until("JSON.parse(heard)?.window")  # figures, which need two readings
        yield shown


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test that is a coroutine in an event loop of its own."""
    test = pyfuncitem.function
    if not inspect.iscoroutinefunction(test):
        return None
    asyncio.run(test(**{name: pyfuncitem.funcargs[name] for name in inspect.signature(test).parameters}))
    return True
