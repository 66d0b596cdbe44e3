"""Formats results: one line each during the run, and the whole report as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tools.bench.table import machine, render_table
from tools.scenarios.judge import Seen
from tools.scenarios.run import Result
from tools.scenarios.scenario import Load, Scenario, Server
from uwsgi_headroom.check.reports import render_lines
from uwsgi_headroom.documents.schema import Server as Document

HEADER = " | situation | uWSGI | load | `check` says"


def line(result: Result) -> str:
    """Returns one line for a terminal, and one for each difference."""
    if result.seen is None:
        why = f"skipped, {result.skipped}" if result.skipped else result.different[0]
        return f"{result.mark} {result.row.name}: {why}"
    seen = result.seen
    lines = [f"{result.mark} {result.row.name}: {_seen(seen)}, exit status {seen.exit_status}. {seen.verdict}"]
    lines += [f"    not as expected: {text}" for text in result.different]
    if result.different:
        lines += [f"    {finding['severity']} {finding['code']}: {finding['evidence']}" for finding in seen.findings]
        lines += [f"    clients: {_clients(seen)}; figures: {_figures(seen)}"]
    return "\n".join(lines)


def full_text(result: Result) -> str:
    """Returns what was run and expected, and the whole text that `check` writes about it."""
    row, seen = result.row, result.seen
    head = [f"{result.mark} {row.name}: {_server(row.server)}; {_loads(row)}; checked for {row.seconds:g} s"]
    head += [f"Expected: {_expected(row)}. {row.why}".rstrip()]
    head += [f"Not as expected: {text}" for text in result.different]
    if seen is None:
        return "\n".join([*head, f"Not run: {result.skipped or 'see above'}", "", ""])
    head += [f"Seen: {_seen(seen)}, exit status {seen.exit_status}. Clients: {_clients(seen) or 'none'}."]
    text = [seen.verdict]
    if seen.document:
        text = list(render_lines(msgspec.convert(seen.document, Document, str_keys=True)))
    return "\n".join([*head, "", *[f"    {each}".rstrip() for each in text], "", ""])


def markdown(results: Sequence[Result]) -> str:
    run = [result for result in results if not result.skipped]
    met = sum(not result.different for result in run)
    head = f"{met} of {len(run)} are as expected, {len(results) - len(run)} skipped. {machine()}"
    return f"{head}\n\n{render_table(HEADER, [_row(result) for result in results])}"


def _row(result: Result) -> str:
    row, seen = result.row, result.seen
    said = (
        ("skipped" if result.skipped else "not run")
        if seen is None
        else f"{seen.outcome} `{seen.first}`".removesuffix(" `None`").removesuffix(" ``")
    )
    cells = [result.mark, row.name, _server(row.server), _loads(row), said]
    return " | ".join(cell.replace("|", "\\|") for cell in cells)


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
    return " ".join([many, *work, *([_shorten(load.path)] if load.path != "/" else [])])


def _shorten(path: str) -> str:
    return path if len(path) <= _LONGEST_PATH else f"{path[:_LONGEST_PATH]}... ({len(path)} bytes)"


_LONGEST_PATH = 32


def _expected(row: Scenario) -> str:
    expected = row.expected
    codes = " or ".join(expected.first) or ", ".join(expected.also)
    return f"{expected.outcome} {codes}".strip()


def _seen(seen: Seen) -> str:
    return f"{seen.outcome} {seen.first or ''}".strip()


def _figures(seen: Seen) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in seen.figures.items())


def _clients(seen: Seen) -> str:
    if not seen.tally:
        return ""
    bad = [f"{seen.tally[name]:.0f} {name}" for name in ("refused", "failed") if seen.tally[name]]
    return ", ".join([f"{seen.tally['answered']:.0f} answered in {seen.tally['mean']:.2f} s", *bad])
