"""Imports of the package point one way: no core module imports an interface, kernel facts import no reading, and the
analysis imports nothing that reads a server. Each room has a door: what others import of it."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tools.environments import ROOT
from uwsgi_headroom import analysis

PACKAGE = ROOT / "exporter" / "uwsgi_headroom"

FACES = ("prometheus_client", "starlette", "httptools", "uwsgi_headroom.metrics", "uwsgi_headroom.web")

COLLECTORS = tuple(f"uwsgi_headroom.{name}" for name in ("kernel", "reading", "stats"))

ANALYSIS = Path(analysis.__file__).parent

SETTABLE = tuple(f"uwsgi_headroom.{name}" for name in ("analysis", "documents", "history", "kernel", "stats", "watch"))

DOORS = {
    "analysis": """advice backends balance capacity demand destinations figures findings littles_law
        locks objective
        percentiles repairman routes setting_facts settings shortages verdict wait_states
        worker_states what_if.measured what_if.predict
        deploys.explanation deploys.judgement findings.evenness findings.threads
        findings.queue findings.workers""",
    "arguments": "commands completion",
    "check": "command compare_command exporter_client failure look pids reports request tables",
    "config": "defaults http_client_file precedence servers settings slo yaml_file",
    "discover": "find follow report review",
    "documents": """build deploys history lines openapi predict schema
        sentences subjects""",
    "history": """code_time counts events hour integrals named_hours response_times.bins response_times.queue_waits
        response_times.totals rows totals window""",
    "kernel": """answering as_user aside backlogs cpus facts host memory namespaces options processes procfs
        proof request_sets setup sock_diag stacks waits way_in""",
    "metrics": "exposition family",
    "report": "command request",
    "service": "config_check serve",
    "source": "",
    "stats": "raw server",
    "store": "file record retired writer",
    "top": "feeds look",
    "tune": "command",
    "uwsgi_log": "log messages scan",
    "watch": """code_watch deploy_watch fleet globbed observation probed retire_command suspend tasks turns
        watch""",
    "web": """app connection_slots host_check http_server listeners security.gate security.hash_password
        security.live_config shared_builds""",
    "words": "colours formats states template",
}
"""By room (a folder of the package): the modules of it that others may import, beside what its `__init__` hands out.
Every other module is private to its room. The demo, the tools and the tests may go past a door."""

NEIGHBOURS = ("alerts", "dashboards")
"""Folders beside the package that come in by the doors, as its rooms do."""


def _imported(*modules):
    """The modules that are loaded after a new Python has imported these of the package, which are among them."""
    names = [f"uwsgi_headroom.{module}" for module in modules]
    program = f"import sys, {', '.join(names)}; print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = done.stdout.splitlines()
    assert set(names) <= set(loaded)
    return loaded


def _load(unwanted, modules):
    """By module: what it loads of the unwanted. What one of them loads, all of them load, so they are imported
    together first; a Python for each names the culprits."""
    if not any(name.startswith(unwanted) for name in _imported(*modules)):
        return {}
    return {module: [name for name in _imported(module) if name.startswith(unwanted)] for module in modules}


@cache
def _named(path):
    """What a file imports, also inside its functions and for its types."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    return [f"{getattr(node, 'module', '')}.{alias.name}".lstrip(".") for node in imports for alias in node.names]


def test_what_a_module_does_not_load():
    """Faces and collectors stay outside; a record needs nothing; each folder has a door."""
    modules = "watch.fleet analysis.findings documents.build top.feeds check.command"
    assert _load(FACES, modules.split()) == {}
    modules = "defaults parsers precedence servers settings slo yaml_file"
    assert _load(SETTABLE, [f"config.{module}" for module in modules.split()]) == {}
    imported = _imported("service.serve")
    assert "uwsgi_headroom.watch.fleet" in imported
    assert "sqlite3" not in imported
    imported = _imported("kernel.host")
    assert "uwsgi_headroom.kernel.facts" in imported
    assert "uwsgi_headroom.reading" not in imported
    own = [name for name in _imported("record") if name.startswith("uwsgi_headroom.")]
    assert own == ["uwsgi_headroom.surroundings", "uwsgi_headroom.record"]
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    assert rooms == DOORS.keys(), "DOORS in this file has a row for each folder of the package"


@pytest.mark.parametrize("module", ["findings", "verdict", "what_if.measured"])
def test_the_analysis_loads_no_collector(module):
    """The analysis knows a server from a record and a window only, whichever module made them."""
    imported = _imported(f"analysis.{module}")
    assert "uwsgi_headroom.record" in imported
    assert [name for name in imported if name.startswith(COLLECTORS)] == []


@pytest.mark.parametrize("path", sorted(ANALYSIS.rglob("*.py")), ids=lambda path: str(path.relative_to(ANALYSIS)))
def test_no_module_of_the_analysis_names_a_collector(path):
    """Nor does it name one for its types, or import one inside a function."""
    assert [name for name in _named(path) if name.startswith(COLLECTORS)] == []


@pytest.mark.parametrize("folder", ["alerts", "app", "dashboards", "deploy", "exporter"])
def test_nothing_but_tests_and_tools_imports_tests(folder):
    """What tests share with the demo is outside `tests/`."""
    modules = list((ROOT / folder).rglob("*.py"))
    assert {path: name for path in modules for name in _named(path) if name.split(".")[0] == "tests"} == {}
    assert [path for path in modules if re.search(r"\btests\.support\b", path.read_text())] == []


def _module_path(name):
    """The file of a module or of a folder of the package, by its name from the package on; None if it names neither."""
    path = PACKAGE.joinpath(*name.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


@cache
def _imports_of(path):
    """Modules and folders of the package that a file imports, also inside its functions and for its types."""
    own = {name.removeprefix("uwsgi_headroom.") for name in _named(path) if name.startswith("uwsgi_headroom.")}
    return {name if _module_path(name) else name.rpartition(".")[0] for name in own} - {""}


@cache
def _imports_from_outside(room):
    """By module of a room: the files of other rooms, and beside the rooms, that import it."""
    found = {}
    files = [
        path for folder in (PACKAGE, *(ROOT / name for name in NEIGHBOURS)) for path in sorted(folder.rglob("*.py"))
    ]
    for path in files:
        if PACKAGE / room not in path.parents:
            for name in _imports_of(path):
                first, _, module = name.partition(".")
                if first == room and module:
                    found.setdefault(module, []).append(str(path.relative_to(ROOT)))
    return found


@pytest.mark.parametrize("room", DOORS)
def test_doors_are_modules_that_others_use(room):
    """A door that names no module was renamed or removed; one that nobody uses is closed."""
    missing = [name for name in DOORS[room].split() if not _module_path(f"{room}.{name}")]
    assert not missing, f"DOORS names modules of {room}/ that do not exist: write their new names, or remove them"
    unused = set(DOORS[room].split()) - _imports_from_outside(room).keys()
    assert not unused, f"nothing outside of {room}/ imports {sorted(unused)}: remove them from DOORS"


@pytest.mark.parametrize("room", DOORS)
def test_nobody_goes_past_a_door(room):
    """Others import of a room what its `__init__` hands out, or a module that DOORS lists."""
    past = {name: files for name, files in _imports_from_outside(room).items() if name not in DOORS[room].split()}
    assert not past, (
        f"private modules of {room}/ are imported from outside. Import the name from one of {room}/'s doors "
        f"({DOORS[room] or '__init__'}), hand it out in an `__init__` there, or add the module to DOORS: {past}"
    )


def read_imports(package=PACKAGE):
    """By folder, and by module beside the folders: the other ones that it imports, also for types alone."""
    imports: dict[str, set[str]] = {}
    for path in sorted(package.rglob("*.py")):
        part = path.relative_to(package).parts[0].removesuffix(".py")
        if not part.startswith("__"):
            imports.setdefault(part, set()).update(_imported_parts(ast.parse(path.read_text())))
    return {part: frozenset(imported & imports.keys() - {part}) for part, imported in imports.items()}


def _imported_parts(tree):
    """What stands behind the package's name in each import."""
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        yield from (name.split(".")[1] for name in names if name.startswith(f"{PACKAGE.name}."))


def test_imports_are_read_by_folder(tmp_path):
    """Of every module, those within functions and for types alone too; neither itself nor other packages."""
    package = tmp_path / "uwsgi_headroom"
    for name, text in {
        "__init__.py": "",
        "__main__.py": "from uwsgi_headroom import low",
        "low.py": "import json",
        "wide/__init__.py": "",
        "wide/one.py": "from uwsgi_headroom import low, __version__\nfrom uwsgi_headroom.wide import two",
        "wide/two.py": "def late():\n    import uwsgi_headroom.high.deep\n",
        "high/__init__.py": "",
        "high/deep.py": "if TYPE_CHECKING:\n    from uwsgi_headroom.wide.one import thing",
    }.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    assert read_imports(package) == {"low": set(), "wide": {"low", "high"}, "high": {"wide"}}


def test_no_circle_of_rooms():
    """Of the folders, and of the modules beside them, none needs itself by way of others."""
    imports = read_imports()
    reached = {part: set(imports[part]) for part in imports}
    for _ in imports:
        for needed in reached.values():
            needed |= {far for near in needed for far in imports[near]}
    assert [part for part, needed in reached.items() if part in needed] == []


def test_a_public_class_has_a_name_of_its_own():
    """What a name means does not depend on the module."""
    places: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, set()).add(path.relative_to(PACKAGE).as_posix())
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}
