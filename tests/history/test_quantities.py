"""The rows of the table agree with the fields on which they stand, with the totals and with uWSGI's counters."""

from typing import get_type_hints

import pytest

from uwsgi_headroom.history.totals import CpuTotals, Totals, WaitTotals, WorkerTotals
from uwsgi_headroom.history.window import QUANTITIES, CpuWindow, WaitWindow, Window, WorkerWindow
from uwsgi_headroom.stats.server import Worker

OWNERS = {
    "server": (Totals, Window),
    "all workers": (WorkerTotals, Window),
    "occupancy": (Totals, Window),
    "socket": (Totals, Window),
    "cpu": (CpuTotals, CpuWindow),
    "waits": (WaitTotals, WaitWindow),
    "state": (WaitTotals, WaitWindow),
    "backend": (WaitTotals, WaitWindow),
    "worker": (WorkerTotals, WorkerWindow),
}


@pytest.mark.parametrize(
    "quantity", [each for part in QUANTITIES for each in part], ids=lambda quantity: f"{quantity.of} {quantity.name}"
)
def test_totals_and_windows_have_what_the_table_names(quantity):
    """Each total, and the time since when it is known, is an attribute of its owner; a counter is uWSGI's too; what may
    be unknown, and nothing else, may be None in a window."""
    totals, window = OWNERS[quantity.of]
    assert quantity.name in totals.__struct_fields__
    assert quantity.known in ("", "reported", "waits") or quantity.known in totals.__struct_fields__
    assert not quantity.counter or quantity.name in Worker.__struct_fields__
    may_be_none = type(None) in getattr(get_type_hints(window)[quantity.name], "__args__", ())
    assert may_be_none == (quantity.may_be_unknown and quantity.of != "socket")


def test_a_worker_of_a_window_is_its_number_and_the_rows_of_the_table():
    assert WorkerWindow.__struct_fields__ == ("worker_id", *(quantity.name for quantity in QUANTITIES[-1]))
