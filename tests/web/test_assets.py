"""The files of the page: how they are served, the script that its modules become, and its colours."""

import gzip
import re
from graphlib import CycleError

import pytest

from tests.support.web_server import get, serving
from tools.environments import ROOT
from uwsgi_headroom.record import STATES
from uwsgi_headroom.web import live_page
from uwsgi_headroom.web.live_page import join
from uwsgi_headroom.words.colours import contrast

LARGEST_PAGE = 150_000  # bytes, compressed
SOMEWHERE_ELSE = re.compile(rb"(?:https?:)?//[a-z0-9.-]+\.[a-z]+/", re.IGNORECASE)


def test_every_file_as_it_is_and_compressed():
    """Cached permanently under its version; together they are small, and ask nobody else."""
    with serving() as port:
        for name, asset in live_page.load_assets().items():
            status, headers, plain = get(port, live_page.url(name))
            _, packed_headers, packed = get(port, live_page.url(name), headers={"Accept-Encoding": "gzip"})
            assert (status, plain) == (200, asset.plain)
            assert headers["Content-Type"].partition(";")[0] in {"text/css", "text/javascript", "image/svg+xml"}
            assert "immutable" in headers["Cache-Control"]
            assert packed_headers["Content-Encoding"] == "gzip"
            assert gzip.decompress(packed) == plain
    files = live_page.load_assets()
    assert sum(len(asset.compressed) for asset in files.values()) < LARGEST_PAGE
    for name, asset in files.items():
        hosts = set(SOMEWHERE_ELSE.findall(asset.plain)) - {b"https://github.com/", b"http://www.w3.org/"}
        assert not hosts, name
    folder = live_page.FOLDER / "vendor" / "uplot"
    assert "MIT" in (folder / "LICENSE").read_text()
    assert "uPlot 1.6" in (ROOT / "docs" / "how-to-add.md").read_text()


def test_a_file_that_the_browser_has():
    """It is not sent again. A page of another exporter gets the current file, and must ask again next time."""
    with serving() as port:
        tag = get(port, live_page.url(live_page.SCRIPT))[1]["ETag"]
        status, _, body = get(port, live_page.url(live_page.SCRIPT), headers={"If-None-Match": tag})
    assert (status, body) == (304, b"")
    script = live_page.load_assets()[live_page.SCRIPT].plain
    with serving() as port:
        status, headers, body = get(port, f"/static/0000/{live_page.SCRIPT}")
    assert (status, headers["Cache-Control"], body) == (200, "no-cache", script)


@pytest.mark.parametrize(
    "name",
    [
        "nothing.js",
        "main.js",
        "../page.py",
        "..%2fpage.py",
        "%2e%2e/page.py",
        "/etc/passwd",
        "vendor/uplot/LICENSE",
        "",
    ],
)
def test_nothing_else_is_served(name):
    with serving() as port:
        assert get(port, f"/static/{live_page.version()}/{name}")[0] == 404


MODULES = {
    "main": 'import { two as twice } from "./two.js";\nimport * as one from "./one.js";\n\ntwice(one.NAME);\n',
    "one": "// A module.\n\n/**\n * The name: \"*\".\n */\nexport const NAME = 'https://one'; // its name\n",
    "two": 'import { NAME } from "./one.js";\n\nexport async function two() {\n  // says\n  return NAME;\n}\n',
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
return {  };
})();
"""


def test_modules_run_once_after_those_that_they_import():
    """Each is a function of its own; comments that fill lines are left out. None of the page's modules is missing."""
    assert join(MODULES) == JOINED
    script = live_page.load_assets()[live_page.SCRIPT].plain.decode()
    assert [path.stem for path in live_page.FOLDER.glob("*.js") if f"const ${path.stem} = (" not in script] == []
    with pytest.raises(CycleError):
        join({"one": 'import * as two from "./two.js";\n', "two": 'import * as one from "./one.js";\n'})


OTHER_FORM = re.compile(r"\s*(?:import|export)\b|.*\bimport\s*[(.]")
"""What means something else in a function than in a module."""


def test_modules_follow_the_rules_of_join():
    """A line of another form, or an import of what is not exported, would be a page that does not work."""
    modules = {path.stem: path.read_text() for path in live_page.FOLDER.glob("*.js")}
    exported = {
        name: set(re.findall(r"^export \w+ (?:function )?([\w$]+)", text, re.M)) for name, text in modules.items()
    }
    assert [line for line in join(modules).splitlines() if OTHER_FORM.match(line)] == []
    for name, text in modules.items():
        for names, module in re.findall(r'^import \{ (.*) \} from "./(\w+).js";$', text, re.M):
            assert {each.partition(" as ")[0] for each in names.split(", ")} <= exported[module], (name, module)


TEXT = [
    *(
        (ink, ground)
        for ink in ("ink", "dim", "accent", "warning", "critical", "ok", "unknown")
        for ground in ("panel", "bg")
    ),
    ("panel", "accent"),
    ("panel", "unknown"),
    ("panel", "warning"),
    ("panel", "critical"),
    ("panel", "ok"),
    ("on-alarm", "alarm"),
    ("alarm", "on-alarm"),
    ("bg", "ink"),
]
LINES = [
    (line, "panel")
    for line in ("blue", "orange", "green", "purple", "sky", "vermillion", "hot", "accent", "off", "cell-high")
]
AREAS = [(f"wait-{part.replace('_', '-')}", "panel") for part in (*STATES, *(f"named-{number}" for number in range(4)))]
LABELS = [(f"on-{part}", part) for part, _ in AREAS]
"""Text on the parts of the time bar."""


def palettes() -> dict[str, dict[str, str]]:
    light, dark = re.findall(r":root \{(.*?)\}", (live_page.FOLDER / "page.css").read_text(), re.DOTALL)[:2]
    colours = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in (light, dark)]
    return {"light": colours[0], "dark": colours[1]}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("pairs", "least"), [(TEXT, 4.5), (LABELS, 4.5), (LINES, 3.0), (AREAS, 3.0)])
def test_contrast(theme, pairs, least):
    """Text has a contrast of 4.5 to 1 (1.4.3), graphics 3 to 1 (1.4.11)."""
    colours = palettes()[theme]
    poor = {
        pair: round(contrast(*(colours[name] for name in pair)), 2)
        for pair in pairs
        if contrast(*(colours[name] for name in pair)) < least
    }
    assert poor == {}
