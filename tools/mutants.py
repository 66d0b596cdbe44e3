"""Measures what the tests notice: changes one small thing in the source at a time, and runs the tests that call it.

A fixed seed draws the changes (mutants): a module by its number of lines, then a kind of change, then a place. Each is
written into a temporary copy of `exporter/`, and tried with the tests that call its function, as a run of all notes,
quick and special ones first. A test that passes without it kills it. Whether a survivor matters, a person has to say.
"""

import argparse
import ast
import contextlib
import functools
import itertools
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.environments import ROOT

PACKAGE = "uwsgi_headroom"
ADDED: dict[type, Any] = {int: 1, float: 1, str: "~", bytes: b"~"}
KINDS = ("operator", "comparison", "constant", "deleted statement")
LIMIT = 1800.0  # seconds of one run
MEMORY = 4 << 30  # bytes
SPECIAL = 100  # tests of the first round: most mutants die there

SWAPS = {"+": "-", "-": "+", "*": "/", "/": "*", "//": "*", "%": "*", "|": "&", "&": "|", "<<": ">>", ">>": "<<"}
SWAPS |= {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "is": "is not", "is not": "is"}
SWAPS |= {"in": "not in", "not in": "in", "and": "or", "or": "and", "**": "*"}
TOKEN = re.compile(r"//|\*\*|<<|>>|[<>=!]=|[-+*/%|&<>]|is\s+not\b|not\s+in\b|\b(?:is|in|and|or)\b")

# Names for the type checker, and texts for the log.
DECLARED = {"TypeVar", "NewType", "cast", "Literal"}
LOGS = {"_log", "log", "logger", "logging", "warnings"}
BUILTIN_TYPES = {"None", "bool", "bytes", "dict", "float", "int", "list", "set", "str", "tuple"}


@dataclass(frozen=True)
class Mutant:
    """Bytes `start` to `end` of a file are replaced by `text`."""

    module: str  # path below the package
    line: int
    kind: str
    start: int
    end: int
    before: str
    text: str

    def __str__(self) -> str:
        before = " ".join(self.before.split())
        change = "deleted: " + before if self.kind == "deleted statement" else f"{before} -> {self.text}"
        return f"{self.module}:{self.line}  {change}"


class Module:
    """The source of a module, and the mutants that can be made of it."""

    def __init__(self, path: Path, package: Path) -> None:
        self.name, self.source, self.mutants = str(path.relative_to(package)), path.read_bytes(), list[Mutant]()
        self._offsets = [0]
        for line in self.source.splitlines(keepends=True):
            self._offsets.append(self._offsets[-1] + len(line))
        self._visit(ast.parse(self.source))

    def _visit(self, node: ast.AST) -> None:  # noqa: PLR0912 - one case for each kind of node
        if _is_declaration(node):
            return
        if _is_deletable(node):
            self._add("deleted statement", *self._range(node), "pass")
        match node:
            case ast.BinOp(left, _, right) if not _is_text(left) and not any(map(_is_type, (left, right))):
                self._swap("operator", left, right)
            case ast.BoolOp(_, values):
                for left, right in itertools.pairwise(values):
                    self._swap("operator", left, right)
            case ast.Compare(first, _, others):
                for left, right in itertools.pairwise([first, *others]):
                    self._swap("comparison", left, right)
            case ast.UnaryOp(ast.Not() | ast.USub() as operator):
                start, _ = self._range(node)
                self._add("operator", start, start + (3 if isinstance(operator, ast.Not) else 1), "")
            case ast.Constant(bool(value)):
                self._add("constant", *self._range(node), repr(not value))
            case ast.Constant(value) if type(value) in ADDED:
                self._add("constant", *self._range(node), repr(value + ADDED[type(value)]))
            case ast.JoinedStr():
                return  # before Python 3.12, parts of an f-string have no places of their own
        for name, value in ast.iter_fields(node):
            if name not in ("annotation", "returns", "decorator_list", "bases", "exc"):
                for part in value if isinstance(value, list) else [value]:
                    if isinstance(part, ast.AST):
                        self._visit(part)

    def _range(self, node: Any) -> tuple[int, int]:
        starts = self._offsets
        return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset

    def _swap(self, kind: str, left: ast.AST, right: ast.AST) -> None:
        """Replaces the operator between two operands."""
        _, start = self._range(left)
        if token := TOKEN.search(self.source[start : self._range(right)[0]].decode()):
            self._add(kind, start + token.start(), start + token.end(), SWAPS[" ".join(token.group().split())])

    def _add(self, kind: str, start: int, end: int, text: str) -> None:
        line = self.source.count(b"\n", 0, start) + 1
        self.mutants.append(Mutant(self.name, line, kind, start, end, self.source[start:end].decode(), text))


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _is_type(node: ast.AST) -> bool:
    """Whether an operand of `|` is a type, as in `int | None`."""
    name = ast.unparse(node).split("[")[0].split(".")[-1]
    return name in BUILTIN_TYPES or (name[:1].isupper() and not name.isupper())


def _is_declaration(node: ast.AST) -> bool:
    """Whether a node is a docstring, a type, a `__slots__` or `__all__`, a message for the log, or for mypy only."""
    match node:
        case ast.Expr(value) if _is_text(value):
            return True
        case ast.Expr(ast.Call(called)):
            return not LOGS.isdisjoint(ast.unparse(called).split("."))
        case ast.Assign([target, *_]):
            return ast.unparse(target) in ("__slots__", "__all__")
        case ast.If(test):
            return ast.unparse(test).endswith("TYPE_CHECKING")
        case ast.Call(called) | ast.Subscript(called):
            return ast.unparse(called).split(".")[-1] in DECLARED
    return False


def _is_deletable(node: ast.AST) -> bool:
    """Whether a statement can go without a NameError, which any test would notice."""
    match node:
        case ast.Assign(targets):
            return all(isinstance(target, ast.Attribute | ast.Subscript) for target in targets)
        case ast.Expr(value):
            return ast.unparse(value) != "..."
    return isinstance(node, ast.AugAssign | ast.Return | ast.Raise | ast.Continue | ast.Break | ast.Delete)


def draw(package: Path, seed: int, number: int) -> list[Mutant]:
    """Draws different mutants, weighted over modules by their lines. The same source and seed give the same ones."""
    modules = [Module(path, package) for path in sorted(package.rglob("*.py"))]
    lines = [module.source.count(b"\n") for module in modules]
    chance, drawn = random.Random(seed), list[Mutant]()
    while len(drawn) < min(number, sum(len(module.mutants) for module in modules)):
        module, kind = chance.choices(modules, lines)[0], chance.choice(KINDS)
        if of_kind := [mutant for mutant in module.mutants if mutant.kind == kind and mutant not in drawn]:
            drawn.append(chance.choice(of_kind))
    return drawn


@functools.cache
def note(number: int, test: str) -> None:
    """Notes that a test calls the function of a mutant."""
    with contextlib.suppress(OSError, KeyError), open(os.environ["NOTES"], "a") as file:
        print(number, test.rpartition(" ")[0], file=file)


def add_notes(number: int, mutant: Mutant, tree: ast.AST) -> None:
    """Changes the functions with the mutant to call `note`; for one outside of functions, all."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    around = [function for function in functions if function.lineno <= mutant.line <= (function.end_lineno or 0)]
    call = (
        f"__import__('tools.mutants').mutants.note({number}, __import__('os').environ.get('PYTEST_CURRENT_TEST', ''))"
    )
    for function in around or functions:
        function.body.insert(ast.get_docstring(function) is not None, ast.parse(call).body[0])


class Copy:
    """A temporary copy of `exporter/`, which holds at most one mutant."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._package = folder, folder / "exporter" / PACKAGE
        shutil.copytree(ROOT / "exporter", folder / "exporter", ignore=shutil.ignore_patterns("__pycache__"))
        paths = {"PYTHONPATH": f"{folder}/exporter:{ROOT}", "HYPOTHESIS_STORAGE_DIRECTORY": f"{folder}/hypothesis"}
        paths |= {"NOTES": f"{folder}/notes", "PYTHONDONTWRITEBYTECODE": ""}  # else each run compiles all
        self._environment = {**os.environ, **paths}

    def find_tests(self, mutants: Sequence[Mutant]) -> dict[Mutant, list[str]]:
        """The tests that call the function of each mutant: quick ones first, then special ones; then its room."""
        trees = {each.module: ast.parse((self._package / each.module).read_bytes()) for each in mutants}
        for number, mutant in enumerate(mutants):
            add_notes(number, mutant, trees[mutant.module])
        for name, tree in trees.items():
            self._write(name, ast.unparse(tree).encode())
        self._failed_test(["tests", "-n=auto", "--maxfail=0"])
        notes = [line.split(" ", 1) for line in sorted({*(self._folder / "notes").read_text().splitlines()})]
        calls = Counter(test for _, test in notes)
        self._failed_test(["tests", "--collect-only", "-m=not integration and not slow"])
        quick = {*(self._folder / "output").read_text().splitlines()}
        tests: dict[Mutant, list[str]] = {}
        for place, mutant in enumerate(mutants):
            found = [test for number, test in notes if number == str(place) and test]
            room = [ROOT / "tests/frozen", *ROOT.glob(f"tests/{mutant.module.split('/')[0].removesuffix('.py')}")]
            tests[mutant] = [*sorted(found, key=lambda test: (test not in quick, calls[test])), *map(str, room)]
        return tests

    def killer(self, mutant: Mutant, tests: Sequence[str]) -> str | None:
        """The first test that fails with the mutant and passes without it; None if there is none."""
        path, source = mutant.module, (ROOT / "exporter" / PACKAGE / mutant.module).read_bytes()
        changed = source[: mutant.start] + mutant.text.encode() + source[mutant.end :]
        without: list[str] = []
        while tests:
            self._write(path, changed)
            failed = self._failed_test(tests, without)
            self._write(path, source)
            again = [failed] if failed and failed.startswith("tests/") else tests
            if failed is None or self._failed_test(again, without) is None:
                return failed
            if failed in without or again is tests:  # it cannot be left out
                raise SystemExit(f"without a change, too, this fails: {failed}")
            without.append(failed)
        return None

    def _write(self, name: str, source: bytes) -> None:
        path = self._package / name
        path.write_bytes(source)
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
            compiled.unlink()  # Python would use it for a source of the same size and second

    def _failed_test(self, tests: Sequence[str], without: Sequence[str] = ()) -> str | None:
        """The first test that fails, "the time limit", or None if all pass."""
        options = ["-x", "-q", "--tb=no", "-rfE", "--hypothesis-seed=0", "-p", "no:cacheprovider", "-m", "not slow"]
        options += ["-o", "addopts=--import-mode=importlib", *(f"--deselect={test}" for test in without)]
        command = [sys.executable, "-m", "pytest", *options, *tests]
        with (self._folder / "output").open("w+") as output:
            streams: Any = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT}
            # A test ends with its session.
            process = subprocess.Popen(command, cwd=ROOT, env=self._environment, start_new_session=True, **streams)
            try:
                status = process.wait(LIMIT)
            except subprocess.TimeoutExpired:
                return "the time limit"
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            output.seek(0)
            named = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output.read(), re.MULTILINE)
        if status in (0, 5):  # 5: no test was chosen
            return None
        return named.group(1) if named else f"an end of pytest with status {status}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Change the source in small ways, and see whether the tests notice.")
    parser.add_argument("--seed", type=int, default=31)
    parser.add_argument("--number", type=int, default=60)
    parser.add_argument("--list", action="store_true", help="print the mutants, run nothing")
    given = parser.parse_args(argv)
    mutants = draw(ROOT / "exporter" / PACKAGE, given.seed, given.number)
    if given.list:
        print(*mutants, sep="\n")
        return 0
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))  # tests inherit it
    killers: dict[Mutant, str] = {}
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tests, copy = Copy(Path(folder, "notes")).find_tests(mutants), Copy(Path(folder, "mutants"))
        for chosen, mutant in itertools.product((slice(SPECIAL), slice(SPECIAL, None)), mutants):
            if mutant not in killers and (killer := copy.killer(mutant, tests[mutant][chosen])):
                killers[mutant] = killer
                print(f"{mutant}\n    killed by {killer}", flush=True)
    for mutant in mutants:
        if mutant not in killers:
            print(f"{mutant}\n    SURVIVED")
    print(f"seed {given.seed}: {len(killers)} of {len(mutants)} killed, in {(time.monotonic() - start) / 60:.0f} min")
    return int(len(killers) < 0.9 * len(mutants))


if __name__ == "__main__":
    sys.exit(main())
