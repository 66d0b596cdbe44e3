"""Runs tests that are coroutines."""

from tests.watch.conftest import pytest_pyfunc_call  # noqa: F401 - the hook
