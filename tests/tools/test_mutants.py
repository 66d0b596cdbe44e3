"""Mutants: what is changed in a module, what is left alone, and which tests are run first."""

import ast
from pathlib import Path

import pytest

from tools import mutants
from tools.environments import ROOT

PACKAGE = ROOT / "exporter" / "uwsgi_headroom"

SOURCE = '''
"""A module."""
__slots__ = ("a",)
Words = Literal["a", "b"]

def mean(values: "list[int]" = NONE) -> int | None:
    """Returns a mean."""
    self.count += 1
    if not values or self.a <= -1 and b"x" is not self.b:
        _log.warning("no values", extra={"a": 1})
        raise ValueError("no values")
    return sum(values) / len(values)
'''


def _changes(tmp_path: Path, source: str) -> list[str]:
    (tmp_path / "module.py").write_text(source)
    return [str(mutant).split("  ")[1] for mutant in mutants.Module(tmp_path / "module.py", tmp_path).mutants]


def test_operators_comparisons_constants_and_statements(tmp_path):
    """Each place has one change. Declarations, annotations, documentation and messages have none."""
    assert sorted(_changes(tmp_path, SOURCE)) == sorted(
        [
            "deleted: self.count += 1",
            "1 -> 2",
            "or -> and",
            "not -> ",
            "and -> or",
            "<= -> <",
            "- -> ",
            "1 -> 2",
            "b\"x\" -> b'x~'",
            "is not -> is",
            'deleted: raise ValueError("no values")',
            "deleted: return sum(values) / len(values)",
            "/ -> *",
        ]
    )


@pytest.mark.slow
def test_every_mutant_is_python():
    """A mutant that cannot be compiled would be killed by any test, and show nothing."""
    for mutant in mutants.draw(PACKAGE, 1, 300):
        source = (PACKAGE / mutant.module).read_bytes()
        ast.parse(source[: mutant.start] + mutant.text.encode() + source[mutant.end :])


@pytest.mark.slow
def test_a_seed_draws_the_same_mutants():
    drawn = mutants.draw(PACKAGE, 31, 60)
    assert drawn == mutants.draw(PACKAGE, 31, 60)
    assert len(set(drawn)) == 60
    assert drawn != mutants.draw(PACKAGE, 32, 60)


def test_rounds_are_the_rooms_tests_then_those_of_other_rooms():
    """The test file of the module itself is among the first; no file is run twice."""
    first, rest, others = mutants.rounds_of_tests("analysis/balance.py")
    assert "tests/analysis/test_balance.py" in first
    assert "tests/analysis/test_littles_law.py" in rest
    assert "tests/documents/test_build.py" in others
    assert len({*first, *rest, *others}) == len([*first, *rest, *others])
