"""Makes the tables of documents that are read from the exporter's source: findings, rules, imports and bounds.

Each of the functions `findings`, `rules`, `imports` and `bounds` yields the lines of one section as Markdown.
`tools.generate` says which document has it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from tools.environments import ROOT
from tools.tables import table
from uwsgi_headroom.analysis.findings.finding import RUNBOOKS, SEVERITIES
from uwsgi_headroom.analysis.settings_table import list_rules

PACKAGE = ROOT / "exporter" / "uwsgi_headroom"
FINDINGS = PACKAGE / "analysis" / "findings"

MODULES = {
    "A stats document": "uwsgi_headroom.stats.bounds",
    "Routes": "uwsgi_headroom.routes.shape",
    "Reading": "uwsgi_headroom.watch.pace",
    "Documents in transfer": "uwsgi_headroom.source.room",
    "Lists of connections in listen queues": "uwsgi_headroom.kernel.accept_queues",
    "Requests in listen queues that are followed": "uwsgi_headroom.response_times.queue_waits",
    "When a server counts as up": "uwsgi_headroom.watch.watch",
    "Servers that patterns find": "uwsgi_headroom.watch.globbed",
    "Workers of servers that patterns find": "uwsgi_headroom.watch.worker_places",
    "Probes": "uwsgi_headroom.watch.probed",
    "The history file": "uwsgi_headroom.store.writer",
    "Names in the history file": "uwsgi_headroom.store.database",
    "The HTTP face": "uwsgi_headroom.web.bounds",
    "Passwords that wait for their check": "uwsgi_headroom.web.security.passwords",
    "Logins that are remembered, and clients with wrong passwords": "uwsgi_headroom.web.security.login",
}
"""By title: the module that keeps these bounds."""

_VALUE = "…"


def findings() -> Iterator[str]:
    """What each finding says, how severe it is, and its runbook; in the order of their codes.

    Findings are made by functions, so their texts are read from the code: `…` stands for a value. Of several texts that
    may stand in the middle of a sentence the first is shown, and at its beginning all.
    """
    rows = []
    for code, texts in sorted(read_findings().items()):
        severities = " or ".join(severity for severity in SEVERITIES if severity in texts.severities)
        runbook = RUNBOOKS.get(code)
        to_do = f"[{runbook}](../alerts/runbooks/{runbook}.md)" if runbook else "what the finding says"
        rows.append((f"`{code}`", severities, "<br>".join(texts.titles), to_do))
    yield from table(("finding", "severity", "what it says", "what to do"), rows)


def rules() -> Iterator[str]:
    rows = [
        (
            f"`{advice.rule}`",
            advice.title,
            "<br>".join(f"`{line}`" for line in advice.lines) or advice.change,
            advice.needs or "any",
            advice.unless,
        )
        for advice in list_rules()
    ]
    yield from table(("rule", "what hurts", "line, for example", "uWSGI", "does not matter if"), rows)


@dataclass
class FindingTexts:
    """What may stand in the findings of one code."""

    titles: list[str]
    severities: set[str]


def read_findings(folder: Path = FINDINGS) -> dict[str, FindingTexts]:
    found: dict[str, FindingTexts] = {}
    for path in sorted(folder.glob("*.py")):
        tree = ast.parse(path.read_text())
        functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        for function in functions.values():
            for call in _calls_of_finding(function):
                texts = _Texts(function, functions)
                parts = {keyword.arg: texts.of(keyword.value) for keyword in call.keywords}
                (code,) = parts["code"]
                entry = found.setdefault(code, FindingTexts([], set()))
                entry.titles += [title for title in parts["title"] if title not in entry.titles]
                entry.severities.update(parts["severity"])
    return found


def _calls_of_finding(function: ast.FunctionDef) -> Iterator[ast.Call]:
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Finding":
            yield node


@dataclass
class _Texts:
    """Finds the texts that an expression in a function may be."""

    function: ast.FunctionDef
    functions: dict[str, ast.FunctionDef]

    def of(self, node: ast.expr) -> list[str]:
        """All of them; none for what is no text."""
        match node:
            case ast.Constant(value=str(text)):
                return [text]
            case ast.JoinedStr(values=[first, *others]):
                rest = "".join(self._parts(value)[0] for value in others)
                return [part + rest for part in self._parts(first)]
            case ast.IfExp(body=body, orelse=other):
                return self.of(body) + self.of(other)
            case ast.Name(id=name):
                return [text for value in self._assigned(name) for text in self.of(value)]
            case ast.Call(func=ast.Name(id=name)) if name in self.functions:
                called = self.functions[name]
                inner = _Texts(called, self.functions)
                returned = [each for each in ast.walk(called) if isinstance(each, ast.Return)]
                values = [each.value for each in sorted(returned, key=lambda each: each.lineno) if each.value]
                return [text for value in values for text in inner.of(value)]
        return []

    def _parts(self, node: ast.expr) -> list[str]:
        """What a part of a text, in braces or between them, may be."""
        return self.of(node.value if isinstance(node, ast.FormattedValue) else node) or [_VALUE]

    def _assigned(self, name: str) -> Iterator[ast.expr]:
        for node in ast.walk(self.function):
            if isinstance(node, ast.Assign):
                target, value = node.targets[0], node.value
                if isinstance(target, ast.Name) and target.id == name:
                    yield value
                elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                    names = [each.id if isinstance(each, ast.Name) else "" for each in target.elts]
                    yield from (value.elts[names.index(name)],) if name in names else ()


def imports() -> Iterator[str]:
    """What each folder of the package is for, and what else of the package it imports; what needs least comes first."""
    found = read_imports()
    rows = []
    for part in sorted(found, key=lambda part: (len(_reach(part, found)), part)):
        is_folder = (PACKAGE / part).is_dir()
        listed = ", ".join(f"`{name}`" for name in sorted(found[part]))
        rows.append((f"`{part}{'/' if is_folder else '.py'}`", _describe(part), listed))
    yield from table(("folder or module", "what it is", "imports"), rows)


def read_imports(package: Path = PACKAGE) -> dict[str, frozenset[str]]:
    """By folder, and by module beside the folders: the other ones that it imports, also for types alone."""
    imports: dict[str, set[str]] = {}
    for path in sorted(package.rglob("*.py")):
        part = path.relative_to(package).parts[0].removesuffix(".py")
        if not part.startswith("__"):
            imports.setdefault(part, set()).update(_imported_parts(ast.parse(path.read_text())))
    return {part: frozenset(imported & imports.keys() - {part}) for part, imported in imports.items()}


def _imported_parts(tree: ast.Module) -> Iterator[str]:
    """What stands behind the package's name in each import."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        yield from (name.split(".")[1] for name in names if name.startswith(f"{PACKAGE.name}."))


def _reach(part: str, imports: Mapping[str, frozenset[str]]) -> set[str]:
    """All that it needs, directly or not."""
    reached: set[str] = set()
    waiting = [part]
    while waiting:
        new = imports[waiting.pop()] - reached
        reached |= new
        waiting += new
    return reached


def _describe(part: str) -> str:
    """The first sentence of its docstring."""
    file = PACKAGE / part / "__init__.py" if (PACKAGE / part).is_dir() else PACKAGE / f"{part}.py"
    words = " ".join((ast.get_docstring(ast.parse(file.read_text())) or "").split())
    return re.split(r"(?<=\.) ", words)[0].replace("|", r"\|")


def bounds() -> Iterator[str]:
    """Every bound of the exporter with its reason, in a section for each part."""
    for title, module in MODULES.items():
        yield f"### {title}"
        yield ""
        yield f"`{module}`"
        yield ""
        yield from table(("bound", "value", "why"), _bounds(module))
        yield ""


def _bounds(module: str) -> Iterator[tuple[str, str, str]]:
    """Yields the name, value and reason of each constant of a module, and of each entry of its dictionaries."""
    imported = import_module(module)
    text = Path(str(imported.__file__)).read_text()
    body = ast.parse(text).body
    for place, node in enumerate(body):
        if isinstance(node, ast.Assign):
            target = node.targets[0]
        elif isinstance(node, ast.AnnAssign):
            target = node.target
        else:
            continue
        if not isinstance(target, ast.Name) or not target.id.isupper() or target.id.startswith("_"):
            continue
        value = getattr(imported, target.id)
        if isinstance(value, dict):
            comments = dict(re.findall(r'^ +"(.+)": .*?,(?:  # (.*))?$', text, re.MULTILINE))
            yield from ((name, f"{most:,}", comments[name]) for name, most in value.items())
        elif isinstance(value, (int, float, tuple)):
            reason = _reason(body[place + 1 : place + 2])
            if reason:  # a constant without a reason is not a bound
                yield f"`{target.id}`", _shown(value), reason


def _shown(value: float | tuple[float, ...]) -> str:
    if not isinstance(value, tuple):
        return f"{value:,}"
    is_range = list(value) == sorted(value)  # else these are two different things
    return (" to " if is_range else " and ").join(map(_shown, value))


def _reason(after: list[ast.stmt]) -> str:
    if after and isinstance(after[0], ast.Expr) and isinstance(after[0].value, ast.Constant):
        return " ".join(str(after[0].value.value).split())
    return ""
