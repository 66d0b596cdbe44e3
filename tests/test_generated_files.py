"""Files that are made from Python and committed are what `make generate` makes."""

import pytest

from tools.environments import ROOT
from tools.generate import CAN_MAKE_DASHBOARDS, generated_files
from tools.tables import replace_section


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
