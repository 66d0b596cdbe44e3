"""Whatever documents say, and in whatever order, no face of the exporter breaks or says what cannot be."""

import pytest

from tests.fuzz.faces import DOCUMENTS, run_stories


def test_many_documents():
    """150 stories of five documents are read or refused, and everything that is made of them holds."""
    assert run_stories(range(150)) > 150 * DOCUMENTS / 4


@pytest.mark.slow
@pytest.mark.parametrize("thousand", range(2))
def test_ten_thousand_documents(thousand):
    """2,000 other stories do as well."""
    assert run_stories(range((thousand + 1) * 1000, (thousand + 2) * 1000)) > 1000 * DOCUMENTS / 4
