"""Each room keeps its budget: `budgets.txt` has the most lines, words and files that there may be."""

import re

import pytest

from tests import budgets
from tests.budgets import Size
from tools.environments import ROOT
from tools.generate import CAN_MAKE_DASHBOARDS, generated_files
from tools.tables import replace_section


def test_no_room_is_above_its_budget():
    """A change that adds lines takes as many away, or raises a budget with a reason."""
    excess = "\n".join(budgets.find_excess(budgets.read_budgets(budgets.TABLE.read_text()), budgets.measure()))
    assert not excess, f"""
{excess}
A line has to pay: remove as many from the same room. If that is wrong, raise its budget by hand in tests/budgets.txt,
with `# what it buys and what it replaced` behind it. `python -m tests.budgets` prints all sizes, and lowers budgets."""


def test_tests_have_no_more_lines_than_what_they_test():
    """Lines of Python, beside those of the product in any language: they also try its pages and its rules."""
    sizes = budgets.measure()
    product = [
        size.count for room, size in sizes.items() if re.match(r"(exporter/\w+|app|alerts|dashboards)(:other)?$", room)
    ]
    assert sizes["tests"].count <= sum(product)


def test_budgets_are_only_lowered():
    """What exceeds is named. What grew keeps its budget and its reason; what is gone has none; a new room gets none."""
    most = {"a": Size(10, 40.0), "b": Size(10, 40.0), "c": Size(10)}
    sizes = {"a": Size(11, 40.0), "b": Size(9, 40.1), "c": Size(10), "d": Size(1), "e.py": Size(601)}
    assert [line.partition(":")[0] for line in budgets.find_excess(most, sizes)] == ["a", "b", "d", "e.py"]
    table = "# head\na 10 40.0  # why\nb 10 40.0\ngone 5\n"
    lowered = budgets.lower(table, {"a": Size(12, 39.0), "b": Size(8, 41.0), "new": Size(3)})
    assert budgets.read_budgets(lowered) == {"a": Size(10, 39.0), "b": Size(8, 40.0)}
    assert [line for line in lowered.splitlines() if "#" in line][1].endswith("39.0  # why")
    assert lowered.startswith("# head\n")


def test_what_is_measured():
    package = "exporter/uwsgi_headroom"
    names = [f"{package}/web/static/a.js", f"{package}/web/b.py", f"{package}/record.py", "tests/web/a.py", "Makefile"]
    assert [budgets.find_room(name) for name in names] == [
        *("exporter/web:other", "exporter/web", "exporter/modules", "tests", "top:other")
    ]
    source = (
        "def a(\n    b,\n) -> int:\n    def c():\n        pass\n\n    return 1\n\n\nclass D:\n    def e(self): ...\n"
    )
    assert sorted(budgets.function_lengths(source)) == [1, 2, 7]
    assert budgets.count_conditional_expressions("a = b if c else (d if e else f)\nif a: b = 1\n") == 2
    assert not budgets.says_several_things('"""Reads lines and words. Then, and only then; more."""\n')
    assert not budgets.says_several_things('"""Reads lines; does no I/O."""\n')
    assert budgets.says_several_things('"""Reads lines and words, and writes them."""\n')
    assert budgets.says_several_things('"""Reads lines; writes words."""\n')
    assert budgets.says_several_things("import os\n")


@pytest.fixture(scope="module")
def made():
    """The text of each file as it is made now."""
    return dict(generated_files())


def test_every_generated_file_is_as_it_is_made(made):
    """A change of a threshold, a signal, a document or a metric that was not written out is seen."""
    differing = [
        str(path.relative_to(ROOT)) for path, text in made.items() if not path.is_file() or path.read_text() != text
    ]
    assert not differing, f"{', '.join(differing)}: run make generate"


def test_each_kind_of_file_is_among_them(made):
    """Rules, dashboards where this Python can make them, tables of documents, the report's example, manual pages."""
    names = {str(path.relative_to(ROOT)) for path in made}
    documents = ("configuration", "metrics", "alerts", "installation", "examples/capacity-review")
    assert names >= {*(f"docs/{name}.md" for name in documents), "dashboards/out/kustomization.yaml"}
    assert ("dashboards/out/fleet.json" in names) == CAN_MAKE_DASHBOARDS


def test_a_section_is_replaced_between_its_marks():
    text = "a\n<!-- t -->\nold\n<!-- /t -->\nb\n"
    assert replace_section(text, "t", "new\n") == "a\n<!-- t -->\nnew\n<!-- /t -->\nb\n"


@pytest.mark.parametrize("text", ["", "<!-- t -->\n", "<!-- /t -->"])
def test_missing_marks_are_an_error(text):
    with pytest.raises(ValueError, match="'t'"):
        replace_section(text, "t", "new")
