"""Runs all scenarios or the named ones, and prints or writes what was seen. The exit status is 1 if any differs."""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tools.bench.table import machine
from tools.scenarios.checking import Seen
from tools.scenarios.rows import find_rows
from tools.scenarios.run import Result, count, plan, render_marks, run_all, run_row
from tools.scenarios.scenario import Load, Scenario, Server
from tools.tables import replace_section, table
from uwsgi_headroom.check.reports import render_lines
from uwsgi_headroom.documents.schema import ServerDocument as Document

NOWHERE = Path(os.devnull)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m tools.scenarios", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="rows whose name contains this text (default: all)")
    parser.add_argument("--all", action="store_true", help="run healthy twins and two random variations of each, too")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the rows into this document")
    parser.add_argument("--texts", type=Path, default=NOWHERE, metavar="FILE", help="write whole verdicts as they come")
    parser.add_argument("--seed", type=int, default=1, help="seed of the variations (default %(default)s)")
    options = parser.parse_args()
    try:
        rows = find_rows(options.names)
    except LookupError as error:
        parser.error(str(error))
    planned = plan(rows, options.seed) if options.all else []
    if planned:
        rows = [run for each in planned for run in (each.row, *each.variations)]
    print(f"{len(rows)} runs.", flush=True)
    begun = time.monotonic()
    options.texts.parent.mkdir(parents=True, exist_ok=True)
    with options.texts.open("w") as texts:

        def report(result: Result) -> None:
            print(line(result), flush=True)
            print(full_text(result), file=texts, flush=True)

        results = run_all(rows, run_row, report)
    seconds = time.monotonic() - begun
    if options.write:
        document = replace_section(options.write.read_text(), "scenarios", f"{markdown(results)}\n")
        options.write.write_text(document)
    for each in render_marks(planned, {result.row.name: result for result in results}) if planned else ():
        print(each)
    print(f"{count(results)} {seconds:.0f} s.")
    return min(1, sum(bool(result.different) for result in results))


def line(result: Result) -> str:
    if result.seen is None:
        why = f"skipped, {result.skipped}" if result.skipped else result.different[0]
        return f"{result.mark} {result.row.name}: {why}"
    seen = result.seen
    lines = [f"{result.mark} {result.row.name}: {_seen(seen)}, exit status {seen.exit_status}. {seen.verdict}"]
    lines += [f"    not as expected: {text}" for text in result.different]
    if result.different:
        lines += [f"    {finding['severity']} {finding['code']}: {finding['evidence']}" for finding in seen.findings]
        figures = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in seen.figures.items())
        lines += [f"    clients: {_clients(seen)}; figures: {figures}"]
    return "\n".join(lines)


def full_text(result: Result) -> str:
    row, seen = result.row, result.seen
    head = [f"{result.mark} {row.name}: {_server(row.server)}; {_loads(row)}; checked for {row.seconds:g} s"]
    codes = " or ".join(row.expected.first) or ", ".join(row.expected.also)
    head += [f"Expected: {f'{row.expected.outcome} {codes}'.strip()}. {row.why}".rstrip()]
    head += [f"Not as expected: {text}" for text in result.different]
    if seen is None:
        return "\n".join([*head, f"Not run: {result.skipped or 'see above'}", "", ""])
    head += [f"Seen: {_seen(seen)}, exit status {seen.exit_status}. Clients: {_clients(seen) or 'none'}."]
    text = [seen.verdict]
    if seen.document:
        text = list(render_lines(msgspec.convert(seen.document, Document, str_keys=True), everything=True))
    return "\n".join([*head, "", *[f"    {each}".rstrip() for each in text], "", ""])


def markdown(results: Sequence[Result]) -> str:
    run = [result for result in results if not result.skipped]
    met = sum(not result.different for result in run)
    head = f"{met} of {len(run)} are as expected, {len(results) - len(run)} skipped. {machine()}"
    by_said: dict[str, list[str]] = {}
    for result in results:
        if result.different or _said(result) != "ok":
            mark = "✗ " if result.different else ""
            by_said.setdefault(_said(result), []).append(f"{mark}{result.row.name}")
    rows = [(said, "; ".join(names)) for said, names in sorted(by_said.items())]
    calm = sum(not each.different and _said(each) == "ok" for each in results)
    rows.append(("ok", f"{calm} healthy or harmless ones"))
    return "\n".join([head, "", *table(("`check` says", "situations"), rows)])


def _said(result: Result) -> str:
    if result.seen is None:
        return "skipped" if result.skipped else "not run"
    return f"{result.seen.outcome} `{result.seen.first or ''}`".removesuffix(" ``")


def _server(server: Server) -> str:
    if server.bare:
        return "emperor"
    size = f"{server.processes}x{server.threads}"
    options = " ".join(option.replace("{directory}/", "").replace("{tcp}", "tcp") for option in server.options)
    places = f", CPU {server.cpus}" * bool(server.cpus) + f", {server.quota:g} CPU" * bool(server.quota)
    places += f", behind nginx with `{server.nginx}`" * bool(server.nginx)
    places += f", started again after {server.restarts:g} s" * bool(server.restarts)
    places += f", beside {', '.join(server.beside)}" * bool(server.beside)
    return f"{size} `{options}`{places}" if options else f"{size}{places}"


def _loads(row: Scenario) -> str:
    texts = [_load(load) for load in row.loads]
    texts += [f"{event.act.__name__.replace('_', ' ')} after {event.at:g} s" for event in row.events]
    return "; ".join(texts + [f"{row.burners} burners"] * bool(row.burners)) or "none"


def _load(load: Load) -> str:
    many = f"{load.part:.0%}" if load.part else f"{load.rate:g}/s" if load.rate else f"{load.clients} clients"
    work = [f"{load.io_ms:g} ms"] * bool(load.io_ms) + [f"{load.cpu_ms:g} ms CPU"] * bool(load.cpu_ms)
    path = load.path if len(load.path) <= 32 else f"{load.path[:32]}... ({len(load.path)} bytes)"
    return " ".join([many, *work, *[path] * (path != "/")])


def _seen(seen: Seen) -> str:
    return f"{seen.outcome} {seen.first or ''}".strip()


def _clients(seen: Seen) -> str:
    if not seen.tally:
        return ""
    bad = [f"{seen.tally[name]:.0f} {name}" for name in ("refused", "failed") if seen.tally[name]]
    return ", ".join([f"{seen.tally['answered']:.0f} answered in {seen.tally['mean']:.2f} s", *bad])


if __name__ == "__main__":
    sys.exit(main())
