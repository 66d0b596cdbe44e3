"""Joins the modules of the page to one script: a browser on a slow network waits for each file in turn.

The exporter does it once, when the page is first requested, so there is no build step. A module becomes a function that
runs once, after those that it imports, and returns what it exports. Names of modules stay apart, and the code stays as
it is written, but for comments that fill lines. For that, a module follows a rule, which `join` enforces:

* imports are `import { one, other as name } from "./module.js";` or `import * as name from "./module.js";`, on a line;
* exports are `export const`, `export function`, `export async function` or `export class`, at the beginning of a line;
* no module imports itself, directly or through others;
* within a text over several lines, no line begins like a comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_IMPORT = re.compile(r'import (?:\{ (?P<names>[\w$, ]+) \}|\* as (?P<whole>[\w$]+)) from "\./(?P<module>\w+)\.js";')
_EXPORT = re.compile(r"export (?=(?:const|(?:async )?function|class) (?P<name>[\w$]+))")
_OTHER = re.compile(r"\s*(?:import|export)\b|.*\bimport\s*[(.]")
_COMMENT = re.compile(r"^ *(?://.*|/\*\*(?:[^*]|\*(?!/))*\*/ *)\n", re.MULTILINE)


def join(modules: Mapping[str, str], first: str = "main") -> str:
    """Join the modules that the first one needs. modules: their text, by name. Raises ValueError where a module does
    not follow the rule, or imports what is not there."""
    exports: dict[str, list[str]] = {}
    return "".join(_wrap(name, modules[name], exports) for name in _order(modules, first))


def _order(modules: Mapping[str, str], first: str) -> list[str]:
    """List modules, each after those that it imports."""
    ordered: list[str] = []

    def visit(name: str, importers: tuple[str, ...]) -> None:
        if name in importers:
            raise ValueError(f"modules import each other: {', '.join(importers[importers.index(name) :])}")
        if name not in modules:
            raise ValueError(f"{importers[-1] if importers else 'the page'} imports {name}, which is missing")
        if name not in ordered:
            for found in _IMPORT.finditer(modules[name]):
                visit(found["module"], (*importers, name))
            ordered.append(name)

    visit(first, ())
    return ordered


def _wrap(name: str, text: str, exports: dict[str, list[str]]) -> str:
    """Make a function of a module. exports: of the modules so far, to which it adds its own."""
    own = exports[name] = []
    lines = list(_rewrite(name, _COMMENT.sub("", text), exports))
    returned = f"return {{ {', '.join(own)} }};\n" if own else ""
    return f"const ${name} = (() => {{\n{''.join(lines)}{returned}}})();\n"


def _rewrite(name: str, text: str, exports: dict[str, list[str]]) -> Iterator[str]:
    """Rewrite the lines that import or export."""
    for line in text.splitlines(keepends=True):
        if found := _IMPORT.fullmatch(line.rstrip("\n")):
            wanted = [each.partition(" as ")[0].strip() for each in (found["names"] or "").split(",")]
            if found["names"] and (missing := set(wanted) - set(exports[found["module"]])):
                raise ValueError(
                    f"{name} imports {', '.join(sorted(missing))}, which {found['module']} does not export"
                )
            names = found["whole"] or f"{{ {found['names'].replace(' as ', ': ')} }}"
            yield f"const {names} = ${found['module']};\n"
        elif found := _EXPORT.match(line):
            exports[name].append(found["name"])
            yield line[found.end() :]
        elif _OTHER.match(line):
            raise ValueError(f"{name}: the page's script cannot have this line: {line.strip()}")
        else:
            yield line
