"""`python3 -m alerts` with other thresholds."""

from __future__ import annotations

from pathlib import Path

import pytest

from alerts.__main__ import main


def test_another_window_is_in_every_name_and_range(tmp_path: Path) -> None:
    """`--set window=30s` makes the same rules over thirty seconds."""
    assert main(["--out", str(tmp_path), "--set", "window=30s"]) == 0
    text = (tmp_path / "recording.yaml").read_text()
    assert "rate30s" in text
    assert "[30s]" in text
    assert "5m" not in text


@pytest.mark.parametrize("assignment", ["uneven_ratio", "uneven_ratio=much", "no_such=1"])
def test_a_wrong_assignment_is_refused(assignment: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The message repeats the given assignment."""
    with pytest.raises(SystemExit) as ended:
        main(["--set", assignment])
    assert ended.value.code == 2
    assert repr(assignment) in capsys.readouterr().err
