"""The list of benchmarks names all that there are, and says what each is for."""

from __future__ import annotations

from tools.bench.__main__ import BENCHES, HERE, describe, find_module

NAMES = [name for names in BENCHES.values() for name in names]


def test_every_benchmark_is_listed() -> None:
    """A module or a folder of the bench that is run by hand is in the list, and nothing else."""
    run = {path for path in HERE.rglob("*.py") if "\ndef main(" in path.read_text()} - {HERE / "__main__.py"}
    assert {find_module(name) for name in NAMES} == run


def test_each_says_what_it_is_for_in_a_line() -> None:
    """The list shows one sentence of each, without its command, which stands above it."""
    for name in NAMES:
        text = describe(name)
        assert text.endswith("."), name
        assert "tools.bench" not in text, name
        assert len(text) <= 120, name
