"""Whatever documents say, and in whatever order, no face of the exporter breaks or says what cannot be."""

import pytest

from tests.fuzz.faces import DOCUMENTS, run_stories


def test_many_documents():
    """150 stories of five documents are read or refused, and everything that is made of them holds."""
    assert run_stories(range(150)) > 150 * DOCUMENTS / 4


@pytest.mark.slow
def test_five_thousand_documents():
    """1,000 other stories do as well."""
    assert run_stories(range(1000, 2000)) > 1000 * DOCUMENTS / 4
