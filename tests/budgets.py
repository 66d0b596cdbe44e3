"""Measures how large each room of the repository is, and lowers the budgets in `budgets.txt` to that.

    python -m tests.budgets      prints each budget beside the size of now, and lowers those that are too high

A room is a folder of exporter/uwsgi_headroom or of the top, in lines of Python; `:other` is its other text, without
generated files. Budgets are never raised by this program.
"""

import ast
import re
import subprocess
from collections.abc import Iterator, Mapping
from math import ceil
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TABLE = Path(__file__).with_name("budgets.txt")

PACKAGE = "exporter/uwsgi_headroom/"

APART = re.compile(
    r"^(dashboards/out|docs/examples|tests/frozen/pages)/|^docs/findings\.md$|/static/vendor/|/static/words\.js$"
    r"|^tests/(budgets\.txt|flaky\.txt|frozen/\w+\.jsonl)$|^CHANGELOG\.md$"
)
"""Files that are generated or of another project, and lists that grow by their purpose."""

LONGEST = 600
"""Lines of a module. Those that were longer on the first day have a budget of their own."""

SEVERAL = re.compile(r"\band\b.*\band\b|;(?! does no I/O)", re.DOTALL)
"""In the first sentence of a docstring, shows that a module says several things."""

_DOCSTRING = re.compile(r'(?:#[^\n]*\n|\s)*r?"""(.+?)(?:[.:](?=\s)|""")', re.DOTALL)

_DEFINED = re.compile(r"( *)(?:async )?def ")


class Size(NamedTuple):
    """A number of lines, words, files or others; and, for a room, its bytes a line, rounded up to a tenth."""

    count: int
    density: float = 0.0


def read_budgets(text: str) -> dict[str, Size]:
    """The budgets by name: on each line a name, a count, bytes a line for a room, and after a raise `# REASON`."""
    rows = [line.partition("#")[0].split() for line in text.splitlines()]
    return {row[0]: Size(int(row[1]), *map(float, row[2:])) for row in rows if row}


def measure() -> dict[str, Size]:
    """The sizes of now by the same names."""
    files = {name: (ROOT / name).read_bytes() for name in list_files()}
    texts = {name: content for name, content in files.items() if b"\0" not in content and not APART.search(name)}
    rooms: dict[str, list[bytes]] = {}
    for name, content in texts.items():
        rooms.setdefault(find_room(name), []).append(content)
    sizes = {room: _size(contents) for room, contents in sorted(rooms.items())}
    modules = {name: content.decode() for name, content in texts.items() if name.endswith(".py")}
    product = {name: text for name, text in modules.items() if name.startswith(PACKAGE)}
    lengths = sorted(length for text in product.values() for length in function_lengths(text))
    sizes["docs:words"] = Size(
        sum(len(text.split()) for name, text in texts.items() if re.match(r"docs/.*\.md$", name))
    )
    sizes["files"] = Size(len(files))
    sizes["exporter:function-median"] = Size(lengths[len(lengths) // 2])
    sizes["exporter:function-95-percent"] = Size(lengths[len(lengths) * 95 // 100])
    sizes["exporter:conditional-expressions"] = Size(sum(map(count_conditional_expressions, product.values())))
    sizes["exporter:docstrings-of-several-things"] = Size(sum(map(says_several_things, product.values())))
    long = {name: text.count("\n") for name, text in modules.items()}
    sizes |= {name: Size(lines) for name, lines in long.items() if lines > LONGEST}
    return {name: size for name, size in sizes.items() if size.count}


def list_files() -> Iterator[str]:
    """The files that git tracks, or would: names from the top."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    places = {name: ROOT / name for name in sorted(set(listed.split("\0")) - {""})}
    yield from (name for name, place in places.items() if place.is_file() and not place.is_symlink())


def find_room(name: str) -> str:
    """The room of a file, such as `exporter/web`; `exporter/modules` has those in no folder, `top` the files there."""
    folder = name.removeprefix(PACKAGE).rpartition("/")[0].partition("/")[0]
    room = f"exporter/{folder or 'modules'}" if name.startswith(PACKAGE) else folder or "top"
    return room if name.endswith(".py") else f"{room}:other"


def _size(contents: list[bytes]) -> Size:
    lines, length = sum(each.count(b"\n") for each in contents), sum(map(len, contents))
    return Size(lines, ceil(10 * length / max(1, lines)) / 10)


def function_lengths(source: str) -> Iterator[int]:
    """The lines of each function in a formatted module, from its `def` to its last line that is not empty."""
    opened: list[tuple[int, int]] = []
    last = 0
    for number, line in enumerate([*source.splitlines(), "end"], 1):
        text = line.lstrip()
        if not text or text[0] in ")]}":
            last = number if text else last
            continue
        indent = len(line) - len(text)
        while opened and indent <= opened[-1][0]:
            yield last - opened.pop()[1] + 1
        if _DEFINED.match(line):
            opened.append((indent, number))
        last = number


def count_conditional_expressions(source: str) -> int:
    """How often a module says `a if b else c`: a fact that is known where it arises, or a row, needs none."""
    return sum(isinstance(node, ast.IfExp) for node in ast.walk(ast.parse(source)))


def says_several_things(source: str) -> bool:
    """Whether the first sentence of a module's docstring joins several, or there is none."""
    found = _DOCSTRING.match(source)
    return bool(SEVERAL.search(found[1])) if found else bool(source.strip())


def find_excess(budgets: Mapping[str, Size], sizes: Mapping[str, Size]) -> Iterator[str]:
    """One line for each size that is above its budget, or has none."""
    for name, size in sizes.items():
        budget = budgets.get(name)
        if budget is None:
            yield f"{name}: {size.count:,} without a budget{f' (over {LONGEST} lines)' * name.endswith('.py')}"
        elif size.count > budget.count:
            yield f"{name}: {size.count:,}, which is {size.count - budget.count:,} more than its budget"
        elif size.density > budget.density:
            yield f"{name}: {size.density} bytes a line, more than {budget.density}"


def lower(text: str, sizes: Mapping[str, Size]) -> str:
    """The table with no budget above the size of now, and without what no longer exists. Comments stay."""
    lines = []
    for line in text.splitlines():
        for name, budget in read_budgets(line).items() or [("", Size(0))]:
            figures, mark, reason = line.partition("#")
            if name in sizes:
                least = Size(*map(min, budget, sizes[name]))
                figures = f"{name:46} {least.count:7} {least.density or '':>6}".rstrip() + "  " * bool(mark)
            if name in sizes or not name:
                lines.append(f"{figures}{mark}{reason}\n")
    return "".join(lines)


def main() -> None:
    text, sizes = TABLE.read_text(), measure()
    budgets = read_budgets(text)
    for name, size in sizes.items():
        budget = budgets.get(name, Size(0))
        print(f"{name:46} {size.count:7} of {budget.count:7} {size.density:6} of {budget.density:6}")
    print(*find_excess(budgets, sizes), sep="\n")
    TABLE.write_text(lower(text, sizes))


if __name__ == "__main__":
    main()
