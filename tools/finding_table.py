"""The table of findings in docs/troubleshooting.md: what each says, how severe it is, and its runbook.

Findings are made by functions, so their texts are read from the code: `…` stands for a value. Of several texts that may
stand in the middle of a sentence the first is shown, and at its beginning all.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.environments import ROOT
from tools.generated_files import replace_section
from uwsgi_headroom.analysis.findings.finding import RUNBOOKS, SEVERITIES

FILE = ROOT / "docs" / "troubleshooting.md"
FINDINGS = ROOT / "exporter" / "uwsgi_headroom" / "analysis" / "findings"

_VALUE = "…"


@dataclass
class FindingTexts:
    """What may stand in the findings of one code."""

    titles: list[str]
    severities: set[str]


def page() -> str:
    """docs/troubleshooting.md with the table as the findings are."""
    return replace_section(FILE.read_text(), "findings", "\n".join(_rows(read_findings())) + "\n")


def read_findings(folder: Path = FINDINGS) -> dict[str, FindingTexts]:
    """By code, in the order of the modules' names."""
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


def _rows(findings: dict[str, FindingTexts]) -> Iterator[str]:
    """Markdown, in the order of the codes."""
    yield "| finding | severity | what it says | what to do |"
    yield "|---|---|---|---|"
    for code, texts in sorted(findings.items()):
        severities = " or ".join(severity for severity in SEVERITIES if severity in texts.severities)
        runbook = RUNBOOKS.get(code)
        to_do = f"[{runbook}](../alerts/runbooks/{runbook}.md)" if runbook else "what the finding says"
        yield f"| `{code}` | {severities} | {'<br>'.join(texts.titles)} | {to_do} |"
