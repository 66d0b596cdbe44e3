"""All figures of a window, and invariants that hold for any document."""

import pytest

from tests.analysis.judging import figures_of
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.history.counts import sum_if_all_known


@pytest.mark.parametrize(("cores", "threads"), [(True, (32, 16)), (False, (None, None))])
def test_capacity_is_of_the_reading(cores, threads):
    """Configured threads are those of all slots, available ones those of accepting workers. Without cores, threads are
    None and have no headroom."""
    server = Server(processes=4, threads=8, spawned=3, cores=cores)
    server.cheap(1)
    result = figures_of(window(60, worker(1, 10, each=1.0)), server)
    assert (result.configured, result.available) == threads
    assert cores or result.headroom.far == ()
    assert result.headroom.by_limit == {}


def test_usable_cpus_come_from_the_kernel():
    """With kernel facts there is a CPU limit, without them there is none."""
    server = Server(cpus=1.5)
    busy = window(60, worker(1, 10, cpu=30.0))
    assert figures_of(busy, server).headroom.by_limit["cpu"] == 3.0
    server.host = False
    assert "cpu" not in figures_of(busy, server).headroom.by_limit


@pytest.mark.parametrize(("values", "sum_"), [([], None), ([1, 2], 3), ([0, 0], 0), ([1, None], None), ([None], None)])
def test_sum_if_all_known(values, sum_):
    """A sum with an unknown part is unknown, and so is one of no parts."""
    assert sum_if_all_known(values) == sum_
