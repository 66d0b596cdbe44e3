"""Pages of what rows say: a file for each module of rules, with what each of its rows says about one frozen window."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from tests.frozen.judgement import HERE, judge_all
from uwsgi_headroom.analysis import findings
from uwsgi_headroom.analysis.findings import Finding
from uwsgi_headroom.analysis.findings.kind import Kind

PAGES = HERE / "pages"


def list_rows() -> dict[str, dict[str, Kind]]:
    """The rows of each module of rules, by the names of both."""
    modules = {name: each for name, each in vars(findings).items() if isinstance(each, ModuleType)}
    named = {
        name: {row: kind for row, kind in vars(each).items() if isinstance(kind, Kind)}
        for name, each in sorted(modules.items())
    }
    return {name: rows for name, rows in named.items() if rows}


def find_examples() -> dict[Kind, tuple[str, Finding]]:
    """Each row that a window shows, with the name of the first such window and the finding there."""
    found: dict[Kind, tuple[str, Finding]] = {}
    for name, (_, judged) in judge_all().items():
        for finding in judged:
            for each in (finding, *finding.harms):
                if each.kind:
                    found.setdefault(each.kind, (name, finding))
    return found


def render() -> dict[str, str]:
    """The pages by the names of their files."""
    examples = find_examples()
    return {
        f"{module}.txt": "\n".join(
            text for row, kind in rows.items() for text in _describe(row, kind, examples.get(kind))
        )
        for module, rows in list_rows().items()
    }


def _describe(row: str, kind: Kind, example: tuple[str, Finding] | None) -> Iterator[str]:
    yield f"## {row}: {kind.code}, {kind.role}, {kind.severity}"
    if example is None:
        yield "(in no window)"
        yield ""
        return
    name, finding = example
    yield f"({name})"
    yield f"{finding.severity.upper()} {finding.title}"
    yield from (f"  {harm.title} {harm.evidence}" for harm in finding.harms)
    yield f"  {finding.evidence}"
    yield from (text for text in (f"  {finding.meaning}", f"  DO {finding.change}") if len(text) > 5)
    if kind.severities != ("info",):
        yield f"  /metrics: {finding.public.title} {finding.public.act} {finding.public.evidence}"
    yield ""


def write() -> None:
    """Writes all pages."""
    PAGES.mkdir(exist_ok=True)
    for name, text in render().items():
        (PAGES / name).write_text(text)
