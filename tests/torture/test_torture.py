"""Whatever fails while the exporter reads and writes, it lives, says nothing false, and is complete again."""

import random

import pytest

from tests.torture.story import list_faults, stage
from tests.torture.world import Fault
from uwsgi_headroom.kernel import processes, procfs
from uwsgi_headroom.watch import reader

pytestmark = pytest.mark.integration

SEED, FAULTS = 59, 100


@pytest.fixture(scope="module")
def of():
    with stage() as of:
        yield of


def test_a_hundred_faults_break_nothing(of):
    """Of all faults, which `make torture` plays."""
    drawn = random.Random(SEED).sample(list(list_faults(of.places)), FAULTS)
    assert {fault: found for fault in drawn if (found := of.find_broken(fault))} == {}


def test_what_breaks_is_found(of, monkeypatch):
    """A worker that counts as dead because the exporter lacks memory."""
    read = [each for each in of.places if each.site.startswith("kernel/processes.py") and each.call == "read"]
    fault = Fault(next(each for each in read if each.step), "ENOMEM")
    assert not of.find_broken(fault)
    monkeypatch.setattr(procfs, "PASSING", frozenset())
    monkeypatch.setattr(processes, "_value_if_permitted", lambda ask: ask())
    monkeypatch.setattr(reader, "_have_ended", lambda *_, **__: False)  # else a busy worker is asked again
    assert any("ended: False -> True" in line for line in of.find_broken(fault))
