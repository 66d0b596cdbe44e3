"""The page in a browser for the tests of its modules."""

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
