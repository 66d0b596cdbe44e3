"""Writes frozen windows and expected differences.

python -m tests.frozen write FOLDER...       adds windows from folders of `tests.frozen.capture`
python -m tests.frozen accept "REASON"       everything that is judged otherwise now, as expected for this reason
python -m tests.frozen pages                 what rows say about windows
python -m tests.frozen documents             what the API says about a dozen windows
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.frozen import documents, pages
from tests.frozen.form import encode
from tests.frozen.judgement import DIFFERENCES, WINDOWS, decode_given, expected, find_different, judge, read_lines
from tools.environments import ROOT

NEUTRAL = (
    (re.escape(str(ROOT)), "/srv/checkout"),
    (r"/tmp/(pytest-of-\w+/pytest-\d+|hostile-\w+|headroom-\w+)", "/run/app"),
    (r"headroom-\d+-\d+", "app"),
)
"""What names this machine or one run, and what stands for it."""


def write(folders: list[Path]) -> None:
    """Adds each window once, with what is judged of it; one of a name that is there replaces it."""
    lines = {line["name"]: line for line in read_lines(WINDOWS)}
    seen, changed = {json.dumps(line["given"]) for line in lines.values()}, 0
    for name, codes, given in sorted(_collect(folders), key=lambda found: found[0]):
        form = _shorten(given)
        if json.dumps(form) in seen:
            continue
        seen.add(json.dumps(form))
        judged = judge(form)
        found = [[each["code"], each["severity"]] for each in judged["findings"]]
        if found != codes:
            print(f"{name}: {codes} were found, {found} are found again")
            changed += 1
            continue
        lines[name] = {"name": name, "judged": judged, "given": form}
    WINDOWS.write_text("".join(f"{_compact(lines[name])}\n" for name in sorted(lines)))
    print(f"{len(lines)} windows, {changed} left out")


def _compact(line: Any) -> str:
    return json.dumps(line, separators=(",", ":"))


def _shorten(given: dict[str, Any]) -> dict[str, Any]:
    """The shortest form of an input, from any form of it."""
    short = {name: encode(each) for name, each in decode_given(given).items()}
    return short | ({"backends": given["backends"]} if "backends" in given else {})


def _collect(folders: list[Path]) -> Iterator[tuple[str, list[Any], dict[str, Any]]]:
    """The windows of folders: of each server the last one, of each test all. Name, codes and input."""
    for folder in folders:
        names = folder / "names"
        rows = [line.split("\t") for line in names.read_text().splitlines()] if names.exists() else []
        by_address = {re.sub(r"^\w+://", "", address): name for address, name in rows}
        for file in sorted(folder.glob("*.jsonl")):
            last: dict[str, dict[str, Any]] = {}
            for number, line in enumerate(read_lines(file)):
                key = re.sub(r"^\w+://", "", line["address"])
                name = f"{line['test']} {number}" if line["test"] else by_address.get(key, "")
                if name:
                    last[name] = line
            for name, line in last.items():
                yield _make_neutral(name), line["codes"], json.loads(_make_neutral(json.dumps(line["given"])))


def _make_neutral(text: str) -> str:
    for pattern, neutral in NEUTRAL:
        text = re.sub(pattern, neutral, text)
    return text


def accept(reason: str) -> None:
    """Adds one line: what is judged otherwise now, by name, and why."""
    different = {name: now for name, (now, _) in find_different().items()}
    with DIFFERENCES.open("a") as file:
        print(_compact({"reason": reason, "judged": different}), file=file)
    print(f"{len(different)} of {len(expected())} windows")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write", *folders]:
            write(list(map(Path, folders)))
        case ["accept", reason]:
            accept(reason)
        case ["pages"]:
            pages.write()
        case ["documents"]:
            documents.write()
        case _:
            sys.exit(__doc__)
