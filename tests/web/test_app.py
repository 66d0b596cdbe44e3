"""The exporter's HTTP responses, for servers in any state."""

import gzip
import os
import re
import subprocess
from graphlib import CycleError
from pathlib import Path

import pytest
from msgspec.structs import replace
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from tests.support import bad_servers
from tests.support.captured_documents import NAMES, document, path
from tests.support.monitoring import find
from tests.support.web_server import get, serving
from tools.environments import ROOT
from uwsgi_headroom.config.servers import make_server
from uwsgi_headroom.record import STATES
from uwsgi_headroom.web import bounds, live_page
from uwsgi_headroom.web.live_page import join
from uwsgi_headroom.web.request_values import accepts_gzip, accepts_openmetrics
from uwsgi_headroom.words.colours import contrast

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def replayed(name: str) -> str:
    """A captured document as a server with the document's name."""
    return f"{name}=file://{path(name)}"


@pytest.fixture(scope="module")
def port():
    """The port of an exporter of one replayed server."""
    with serving(replayed("minified")) as listening:
        yield listening


# Headers of Prometheus 2.x and 3.x, and of others.
PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (None, TEXT),
        ("*/*", TEXT),
        ("text/html,*/*;q=0.8", TEXT),
        ("text/plain", TEXT),
        ("text/plain;version=0.0.4", TEXT),
        ("application/json", TEXT),
        ("application/openmetrics-text", OPENMETRICS),
        ("application/openmetrics-text; version=1.0.0", OPENMETRICS),
        ("application/openmetrics-text; version=0.0.1", TEXT),
        (PROMETHEUS, OPENMETRICS),
        (PROMETHEUS_3, OPENMETRICS),
        (";,;;=,", TEXT),
        ("application/openmetrics-text;version=x", TEXT),
        ("application/openmetrics-text;version=", TEXT),
        ("application/openmetrics-text;version=1.0.0;q=0", TEXT),
        ("Application/OpenMetrics-Text; Version=1.0.0", OPENMETRICS),
        ("text/plain;version=x", TEXT),
    ],
)
def test_the_format_is_negotiated(port, accept, kind):
    status, headers, body = get(port, headers={"Accept": accept} if accept else {})
    assert (status, headers["Content-Type"], headers["X-Content-Type-Options"]) == (200, kind, "nosniff")
    families = list((parse_openmetrics if kind == OPENMETRICS else parse_text)(body.decode()))
    assert "uwsgi_up" in {family.name for family in families}


@pytest.mark.parametrize(
    ("accepted", "compressed"),
    [
        ("gzip", True),
        ("GZIP", True),
        ("deflate, gzip;q=1.0, *;q=0.5", True),
        ("gzip;q=0.001", True),
        ("*", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000", False),
        ("*;q=0", False),
        ("*;q=0, gzip", True),
        ("gzip;q=0, *", False),
        ("identity", False),
        ("deflate, br", False),
        ("xgzip", False),
        ("", False),
    ],
)
def test_gzip_is_negotiated(port, accepted, compressed):
    _, headers, body = get(port, headers={"Accept-Encoding": accepted})
    assert headers["Content-Encoding"] == ("gzip" if compressed else None)
    assert "Accept-Encoding" in headers["Vary"]
    text = gzip.decompress(body) if compressed else body
    assert b'uwsgi_up{server="minified"} 1.0\n' in text


@pytest.mark.parametrize("filler", ["x,", ",", "x;q=0.5,", "x" + ";a=b" * 20 + ","])
def test_only_the_first_values_of_a_header_are_parsed(filler):
    """Otherwise a line of commas would take 20 ms in each request, and a scrape beside 200 such requests 9 s."""
    few, many = filler * (bounds.HEADER_VALUES - 1), filler * bounds.HEADER_VALUES
    assert accepts_gzip(few + "gzip")
    assert not accepts_gzip(many + "gzip")
    assert accepts_openmetrics(few + "application/openmetrics-text")
    assert not accepts_openmetrics(many + "application/openmetrics-text")


def test_only_the_first_parameters_of_a_value_are_parsed():
    """A line of semicolons costs no more than one of commas."""
    assert not accepts_gzip("gzip" + ";" * (bounds.HEADER_VALUES - 2) + ";q=0")
    assert accepts_gzip("gzip" + ";" * bounds.HEADER_VALUES + ";q=0")


def test_a_server_that_never_answers():
    """The server is down, with the reason on the page, and the others have all their figures."""
    with (
        bad_servers.accepts_and_never_writes("unix") as silent,
        bad_servers.answers("unix", document("minified")) as well,
        serving(replace(make_server(silent, name="silent"), timeout=0.8), f"well={well}") as port,
    ):
        status, _, body = get(port)
        page = get(port, "/")[2].decode()
    text = body.decode()
    assert status == 200
    assert 'uwsgi_up{server="silent"} 0.0\n' in text
    assert 'uwsgi_up{server="well"} 1.0\n' in text
    assert 'uwsgi_threads_configured{server="well"} 4.0\n' in text
    names = {line.partition("{")[0] for line in text.splitlines() if 'server="silent"' in line}
    own = {name for name in names if not name.startswith(("uwsgi_exporter_", "uwsgi_verdict_"))}
    assert own == {"uwsgi_up", "uwsgi_events_total"}
    assert "no complete answer within 0.8 s" in page


def test_any_number_of_servers():
    """Without one, the exporter's own metrics are there, and the page says so."""
    with serving() as port:
        assert b"uwsgi_exporter_build_info" in get(port)[2]
        assert b"No server yet" in get(port, "/")[2]
    with serving(replayed("threads_4x8_busy"), replayed("metrics"), "gone=/nowhere/stats") as port:
        body = get(port)[2]
    ran = subprocess.run([find("promtool"), "check", "metrics"], input=body, capture_output=True, check=False)
    assert (ran.returncode, ran.stdout.decode(), ran.stderr.decode()) == (0, "", "")
    with serving(*map(replayed, NAMES)) as port:
        body = get(port)[2].decode()
    up = next(family for family in parse_text(body) if family.name == "uwsgi_up").samples
    assert {sample.labels["server"]: sample.value for sample in up} == dict.fromkeys(NAMES, 1.0)


@pytest.mark.parametrize("path", ["/-/healthy", "/-/ready"])
def test_probes(path):
    """The probes report on the exporter, and read no server."""
    with bad_servers.accepts_and_never_writes("unix") as silent, serving(silent) as port:
        assert get(port, path)[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("GET", "/metrics/../../etc/passwd", 404),
        ("GET", "//", 404),
        ("POST", "/metrics", 405),
        ("DELETE", "/", 405),
        ("HEAD", "/metrics", 200),
        ("HEAD", "/", 200),
        ("GET", "/metrics?x=1", 200),
    ],
)
def test_other_requests(port, method, path, status):
    code, headers, body = get(port, path, method=method)
    assert code == status
    if method == "HEAD":
        assert body == b""
        assert int(headers["Content-Length"]) > 100


def test_the_page_names_servers_and_reasons():
    with serving(replayed("no_cores"), "gone=/nowhere/stats", replayed("emperor"), replayed("router_http")) as port:
        status, headers, body = get(port, "/")
    page = body.decode()
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert "4 servers, 1 down" in page
    assert "no such file" in page
    assert "stats-no-cores" in page
    assert "1 vassal of the emperor fails to start." in page
    assert 'href="/metrics"' in page


def test_the_page_escapes_what_is_not_its_own():
    script = "<script>alert(1)</script>"
    evil = document("minified").replace(b"/run/uwsgi/app", script.encode()).replace(b"2.0.31", b"<img src=x>")
    with bad_servers.answers("unix", evil) as address:
        servers = [make_server(address, name='x&"<b>=y'), make_server(f"/nowhere/{script}")]
        with serving(*servers) as port:
            _, headers, body = get(port, "/")
    page = body.decode()
    assert "<script>" not in page
    assert all(re.match(r' type="module" src="/static/[\w./-]+"></script>', tag) for tag in page.split("<script")[1:])
    assert "<img" not in page
    assert "<b>=" not in page
    assert "&lt;script&gt;" in page
    assert "default-src 'none'" in headers["Content-Security-Policy"]


def test_a_name_that_is_no_utf8(tmp_path):
    """A socket whose name is not UTF-8 has metrics and a row on the page."""
    path = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.json")
    Path(path).write_bytes(document("minified"))
    with serving(make_server(f"file://{path}"), make_server("/nowhere/\udcff")) as port:
        assert get(port, "/")[0] == 200
        assert rb'uwsgi_up{server="caf\\udce9"} 1.0' in get(port)[2]
        assert get(port, headers={"Accept": OPENMETRICS})[0] == 200


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
    assert "uPlot 1.6" in (ROOT / "docs" / "dev" / "how-to-add.md").read_text()


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


ASSET_TEXT = [
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
@pytest.mark.parametrize(("pairs", "least"), [(ASSET_TEXT, 4.5), (LABELS, 4.5), (LINES, 3.0), (AREAS, 3.0)])
def test_contrast(theme, pairs, least):
    """Text has a contrast of 4.5 to 1 (1.4.3), graphics 3 to 1 (1.4.11)."""
    colours = palettes()[theme]
    poor = {
        pair: round(contrast(*(colours[name] for name in pair)), 2)
        for pair in pairs
        if contrast(*(colours[name] for name in pair)) < least
    }
    assert poor == {}
