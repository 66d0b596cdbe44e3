"""SECURITY.md: each test that it names as the proof of a claim exists."""

from __future__ import annotations

import re

from tools.environments import ROOT

TEXT = (ROOT / "SECURITY.md").read_text()


def test_every_claim_names_a_test_that_exists() -> None:
    """Each row of the tables of attackers has a test, or leads to the chapter that names them."""
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TEXT)
    assert len(named) > 30
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not (ROOT / path).is_file() or f"def {name}(" not in (ROOT / path).read_text()
    ]
    assert missing == []
    rows = [line for line in TEXT.splitlines() if line.startswith("| ") and not line.startswith("| can try")]
    assert len(rows) > 15
    for row in rows:
        assert "`tests/" in row or "docs/security.md#tls-and-login" in row, row
