"""The page's modules as one script: what `join` makes of them, and the rule that they follow."""

from __future__ import annotations

import pytest

from uwsgi_headroom.web import live_page
from uwsgi_headroom.web.live_page import join

MODULES = {
    "main": 'import { two as twice } from "./two.js";\nimport * as one from "./one.js";\n\ntwice(one.NAME);\n',
    "one": "// A module.\n\n/**\n * The name: \"*\".\n */\nexport const NAME = 'https://one'; // its name\n",
    "two": 'import { NAME } from "./one.js";\n\nexport async function two() {\n  // says\n  return NAME;\n}\n',
    "alone": "",
}

JOINED = """\
const $one = (() => {

const NAME = 'https://one'; // its name
return { NAME };
})();
const $two = (() => {
const { NAME } = $one;

async function two() {
  return NAME;
}
return { two };
})();
const $main = (() => {
const { two: twice } = $two;
const one = $one;

twice(one.NAME);
})();
"""


def test_modules_run_once_after_those_that_they_import() -> None:
    """Each is a function of its own, so names may repeat; comments that fill lines are left out."""
    assert join(MODULES) == JOINED


@pytest.mark.parametrize(
    "line",
    [
        'import "./one.js";',
        'import one from "./one.js";',
        'import { NAME } from "../one.js";',
        "import { NAME }",
        "export default 1;",
        "export let count = 0;",
        'export { NAME } from "./one.js";',
        'const one = await import("./one.js");',
        "const here = import.meta.url;",
    ],
)
def test_other_forms_of_imports_and_exports_are_refused(line: str) -> None:
    """A line that would mean something else in a function is an error, not a page that does not work."""
    with pytest.raises(ValueError, match="main: the page's script cannot have this line"):
        join({**MODULES, "main": f"{line}\n"})


def test_imports_without_an_export_are_refused() -> None:
    """They would be undefined, and fail only when they are used."""
    with pytest.raises(ValueError, match="two imports NAME, which one does not export"):
        join({**MODULES, "one": "const NAME = 1;\n"})


def test_modules_that_import_each_other_are_refused() -> None:
    """There would be no order in which to run them."""
    with pytest.raises(ValueError, match="import each other: main, one"):
        join({"main": MODULES["main"], "two": "", "one": 'import * as main from "./main.js";\n'})
    with pytest.raises(ValueError, match="main imports two, which is missing"):
        join({"main": MODULES["main"], "one": ""})


def test_every_module_is_in_the_script() -> None:
    """A module that nobody imports is found here."""
    script = live_page.load_assets()[live_page.SCRIPT].plain.decode()
    assert [path.stem for path in live_page.FOLDER.glob("*.js") if f"const ${path.stem} = (" not in script] == []
