"""Pages of what rows say: a file for each module of rules, with what each of its rows says about frozen windows: one
for each first word of an act. `tests.txt` has all that is said of windows that stand in place of tests of words."""

from collections.abc import Iterator
from types import ModuleType

from tests.frozen.judgement import HERE, WINDOWS, judge_all, read_lines
from uwsgi_headroom.analysis import findings
from uwsgi_headroom.analysis.findings import Finding
from uwsgi_headroom.analysis.findings.kind import Kind

PAGES = HERE / "pages"

Example = tuple[str, Finding]


def list_rows() -> dict[str, dict[str, Kind]]:
    """The rows of each module of rules, by the names of both."""
    modules = {name: each for name, each in vars(findings).items() if isinstance(each, ModuleType)}
    named = {
        name: {row: kind for row, kind in vars(each).items() if isinstance(kind, Kind)}
        for name, each in sorted(modules.items())
    }
    return {name: rows for name, rows in named.items() if rows}


def find_examples() -> dict[Kind, list[Example]]:
    """Each row that windows show, with the names of the first such windows and the findings there."""
    found: dict[Kind, dict[str, Example]] = {}
    for name, (_, judged) in judge_all().items():
        for finding in judged:
            for each in (finding, *finding.harms):
                if each.kind:
                    found.setdefault(each.kind, {}).setdefault(each.change.partition(" ")[0], (name, finding))
    return {kind: list(variants.values()) for kind, variants in found.items()}


def render() -> dict[str, str]:
    """The pages by the names of their files."""
    examples = find_examples()
    shown = [text for line in read_lines(WINDOWS) if line.get("shown") for text in _show_all(line["name"], line["why"])]
    return {"tests.txt": "\n".join(shown)} | {
        f"{module}.txt": "\n".join(
            text for row, kind in rows.items() for text in _describe(row, kind, examples.get(kind, []))
        )
        for module, rows in list_rows().items()
    }


def _describe(row: str, kind: Kind, examples: list[Example]) -> Iterator[str]:
    yield f"## {row}: {kind.code}, {kind.role}, {kind.severity}"
    yield from () if examples else ("(in no window)", "")
    for name, finding in examples:
        yield from _show(kind, name, finding)


def _show_all(name: str, why: str) -> Iterator[str]:
    yield f"## {why}"
    found = judge_all()[name][1]
    yield from () if found else (f"({name})", "  nothing is found", "")
    for finding in found:
        yield from _show(finding.kind, name, finding)


def _show(kind: Kind, name: str, finding: Finding) -> Iterator[str]:
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
