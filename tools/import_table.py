"""The table of packages in docs/design.md: what each is for, and what else of the exporter it imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tools.environments import ROOT
from tools.generated_files import replace_section

FILE = ROOT / "docs" / "design.md"
PACKAGE = ROOT / "exporter" / "uwsgi_headroom"
_NAME = PACKAGE.name


def page() -> str:
    """docs/design.md with the table as the imports are."""
    return replace_section(FILE.read_text(), "imports", "\n".join(_rows(read_imports())) + "\n")


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
        yield from (name.split(".")[1] for name in names if name.startswith(f"{_NAME}."))


def _rows(imports: Mapping[str, frozenset[str]]) -> Iterator[str]:
    """Markdown; what needs least comes first."""
    yield "| folder or module | what it is | imports |"
    yield "|---|---|---|"
    for part in sorted(imports, key=lambda part: (len(_reach(part, imports)), part)):
        is_folder = (PACKAGE / part).is_dir()
        listed = ", ".join(f"`{name}`" for name in sorted(imports[part]))
        yield f"| `{part}{'/' if is_folder else '.py'}` | {_describe(part)} | {listed} |"


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
