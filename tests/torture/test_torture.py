"""Whatever fails while the exporter reads and writes, it lives, says nothing false, and is complete again."""

import random

import pytest

from tests.torture.story import list_faults, stage
from tests.torture.world import Fault
from uwsgi_headroom.kernel import processes, procfs

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
    faults = [Fault(each, "ENOMEM") for each in read if each.step][:9]  # at a busy worker, it is asked again
    assert not any(map(of.find_broken, faults))
    monkeypatch.setattr(procfs, "PASSING", frozenset())
    monkeypatch.setattr(processes, "_value_if_permitted", lambda ask: ask())
    assert any("ended: False -> True" in line for fault in faults for line in of.find_broken(fault))
