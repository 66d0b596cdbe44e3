"""The table of quantities agrees with the totals that it names and with the windows that are made by it."""

import pytest
from msgspec.structs import fields

from uwsgi_headroom.history.totals import (
    CPU,
    QUANTITIES,
    SERVER,
    SOCKET,
    WAITS,
    WORKER,
    CpuTotals,
    Totals,
    WaitTotals,
    WorkerTotals,
)
from uwsgi_headroom.history.window import CpuWindow, WaitWindow, Window, WorkerWindow
from uwsgi_headroom.stats.server import Worker

OWNERS = {
    "server": Totals(),
    "all workers": WorkerTotals(),
    "occupancy": Totals(),
    "socket": Totals(),
    "cpu": CpuTotals(),
    "waits": WaitTotals(),
    "state": WaitTotals(),
    "backend": WaitTotals(),
    "worker": WorkerTotals(),
}
EVERY = [quantity for part in QUANTITIES for quantity in part]


@pytest.mark.parametrize("quantity", EVERY, ids=lambda quantity: f"{quantity.of} {quantity.name}")
def test_totals_have_what_the_table_names(quantity):
    """Each total, and the time since when it is known, is an attribute of its owner; a counter is uWSGI's too."""
    owner = OWNERS[quantity.of]
    assert quantity.kind == "change" or hasattr(owner, quantity.name)
    assert quantity.known in ("", "reported", "waits") or hasattr(owner, quantity.known)
    assert not quantity.counter or quantity.name in Worker.__struct_fields__


@pytest.mark.parametrize(("part", "window"), [(CPU, CpuWindow), (WAITS, WaitWindow)])
def test_parts_of_a_window_are_in_the_order_of_the_table(part, window):
    """They are made of a list of figures."""
    assert [field.name for field in fields(window)] == [quantity.name for quantity in part]


def test_a_worker_is_in_the_order_of_the_table():
    """A worker's window is made of its number and a list of figures."""
    assert WorkerWindow.__struct_fields__ == ("worker_id", *(quantity.name for quantity in WORKER))


def test_a_window_has_all_of_the_table_and_its_own_times():
    """Besides the parts, a window has its time and nothing that the table does not have."""
    named = {quantity.name for quantity in (*SERVER, *SOCKET)}
    assert {field.name for field in fields(Window)} - named == {"asked", "seconds", "until", "workers", "cpu", "waits"}


@pytest.mark.parametrize("quantity", [*SERVER, *CPU, *WORKER], ids=lambda quantity: f"{quantity.of} {quantity.name}")
def test_what_may_be_unknown_in_a_window_may_be_none(quantity):
    """What is known only from some time on, a level and its change may be None; all others are numbers."""
    window = {"worker": WorkerWindow, "cpu": CpuWindow}.get(quantity.of, Window)
    assert quantity.may_be_unknown == window.__annotations__[quantity.name].endswith("| None")
