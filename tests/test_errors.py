"""What every error of the program promises."""

from __future__ import annotations

from uwsgi_headroom.errors import LONGEST_MESSAGE, HeadroomError


def test_a_message_is_bounded() -> None:
    """It keeps its first and its last words: the place, and what to do."""
    message = str(HeadroomError(f"config.yml: {'x' * 1_000_000}: give a name"))
    assert len(message) < LONGEST_MESSAGE + 100
    assert message.startswith("config.yml: ")
    assert message.endswith(": give a name")
    assert f"[{1_000_000 + 25 - LONGEST_MESSAGE:,} characters]" in message
