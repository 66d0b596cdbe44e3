"""The place of a history file."""

import pytest


@pytest.fixture
def path(tmp_path):
    return tmp_path / "history.sqlite"
