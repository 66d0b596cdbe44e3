"""The files for promtool that are made from cases are what the cases say."""

from __future__ import annotations

from tests.alerts.cases.files import made


def test_no_test_file_has_drifted() -> None:
    """A case that was changed and not written out is seen; `python3 -m tests.alerts.cases` writes them."""
    assert [path.name for path, text in made().items() if path.read_text() != text] == []
