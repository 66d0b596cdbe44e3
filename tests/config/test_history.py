"""Settings of the history that lasts: the file, and its size."""

from __future__ import annotations

from pathlib import Path

import pytest

from uwsgi_headroom.config.defaults import HISTORY_MAX_SIZE
from uwsgi_headroom.config.parsers import parse_size
from uwsgi_headroom.config.yaml_file import load_file
from uwsgi_headroom.errors import LONGEST_MESSAGE, ConfigError


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("history: /var/lib/h.sqlite", ("/var/lib/h.sqlite", HISTORY_MAX_SIZE)),
        ("history:\n  file: /h.sqlite\n  max_size: 250MB", ("/h.sqlite", 250_000_000)),
        ("history: {max_size: 1tb}", ("", 10**12)),
        ("history:", ("", HISTORY_MAX_SIZE)),
        ("servers: []", ("", HISTORY_MAX_SIZE)),
    ],
)
def test_in_the_file(tmp_path: Path, text: str, settings: tuple[str, int]) -> None:
    """A path alone, or keys."""
    path = tmp_path / "headroom.yml"
    path.write_text(text)
    config = load_file(path)
    assert (config.history, config.history_max_size) == settings


@pytest.mark.parametrize(
    "text", ["", "MB", "5", "5 kB", "0MB", "0.5MB", "2000TB", "-1GB", "nanGB", "1e3GB", "\u0661GB", "1GiB"]
)
def test_sizes_that_are_none(text: str) -> None:
    """A size has a unit, and bounds."""
    with pytest.raises(ConfigError, match="is not a size from 1MB to 1TB, such as 500MB"):
        parse_size(text, "--history-max-size")


@pytest.mark.parametrize(
    "text",
    [
        "history: [a]",
        "history: {files: x}",
        "history: {file: }",
        "history: {file: [a]}",
        "history: {max_size: 5}",
        "history: yes",
        "history: .nan",
        "history: 5",
        "history: {file: 2026-11-23}",
    ],
)
def test_mistakes_name_their_line(tmp_path: Path, text: str) -> None:
    """Each mistake is an error with the line of the file."""
    path = tmp_path / "headroom.yml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"headroom\.yml:1: "):
        load_file(path)


def test_a_long_value_is_not_quoted_whole(tmp_path: Path) -> None:
    """The message still begins with the line and ends with what to do."""
    path = tmp_path / "headroom.yml"
    path.write_text(f"web: {{listen_address: {'x' * 100_000}}}")
    with pytest.raises(ConfigError) as caught:
        load_file(path)
    message = str(caught.value)
    assert len(message) < LONGEST_MESSAGE + 50
    assert message.startswith(f"{path}:1: 'xxx")
    assert "characters] xxx" in message
    assert message.endswith("write host:port, such as 127.0.0.1:9238")
