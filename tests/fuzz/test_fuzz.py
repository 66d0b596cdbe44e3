"""Whatever documents say, and in whatever order, no face of the exporter breaks or says what cannot be."""

import pytest

from tests.fuzz import decoders
from tests.fuzz.faces import DOCUMENTS, run_stories


def test_many_documents():
    """150 stories of five documents are read or refused, and everything that is made of them holds."""
    assert run_stories(range(150)) > 150 * DOCUMENTS / 4


@pytest.mark.slow
def test_five_thousand_documents():
    """1,000 other stories do as well."""
    assert run_stories(range(1000, 2000)) > 1000 * DOCUMENTS / 4


@pytest.mark.parametrize("name", decoders.DECODERS)
def test_each_decoder_refuses_what_it_cannot_read(name, tmp_path, monkeypatch):
    """For a tenth of a second here; `.ci/run` has ten for each, and keeps what reaches other lines."""
    monkeypatch.setattr(decoders, "KEPT", tmp_path)
    inputs, kept, failures = decoders.fuzz(name, 0.1, seed=1)
    assert inputs > 0 < kept
    assert not failures
