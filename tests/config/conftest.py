"""Configuration files."""

import pytest


@pytest.fixture
def write(tmp_path):
    """Writes a configuration file, whose path it returns."""

    def write_text(text):
        path = tmp_path / "headroom.yml"
        path.write_text(text)
        return path

    return write_text
