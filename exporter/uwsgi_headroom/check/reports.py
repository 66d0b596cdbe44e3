"""Writes verdicts as text of 80 columns without colour, as JSON, and as the line of a monitoring plugin.

The text of one server begins with what is wrong, what to do and what users feel, and has each problem on the first
screen; of several servers, it has a line for each, worst first, with what to do first below it, then the details of any
problem. The JSON is each server's document, as in the exporter's API, over the time that it was watched.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from uwsgi_headroom import __version__
from uwsgi_headroom.analysis.findings import first_act
from uwsgi_headroom.analysis.percentiles import find_percentile
from uwsgi_headroom.analysis.what_if.predict import PredictedLoad
from uwsgi_headroom.check.failure import Performance, render_label, render_line
from uwsgi_headroom.check.request import WORST_FIRST, Threshold, Thresholds, find_worst
from uwsgi_headroom.check.worker_table import render_plain
from uwsgi_headroom.documents.lines import MATTERS, list_lines
from uwsgi_headroom.documents.schema import FindingSection, ServerDocument, TextLine
from uwsgi_headroom.documents.sentences import (
    describe_code_line,
    describe_code_rest,
    describe_full_host,
    find_first_act,
    find_since,
    lacks_host_only,
    list_problems,
    percentile_name,
    shorten_act,
    write_moment,
)
from uwsgi_headroom.documents.waits import Code, CodeLine
from uwsgi_headroom.documents.what_if import PredictedSetting, WhatIf
from uwsgi_headroom.terminal_text import cut_lines, escape_text, wrap
from uwsgi_headroom.words.formats import amount, byte_size, counted, factor, fit_duration, percent, rate
from uwsgi_headroom.words.states import LIMITS as LIMIT_WORDS
from uwsgi_headroom.words.template import Facts, fill

WIDTH = 80

FIRST_SCREEN = 24
"""Lines of a terminal, in which a report shows every warning."""

_MOST_PROBLEMS = 5
_MOST_BLOCK, _LEAST_BLOCK = 6, 2
"""Lines of a problem: at most, and if there are many problems."""


def render_lines(server: ServerDocument, *, everything: bool = False) -> Iterator[str]:
    """Write the report. Its first lines are enough to act: what is wrong and since when, what to do, what users wait,
    and where the time goes; then each problem follows. everything: with all figures, workers and notes."""
    lines = list_lines(server)
    head = [*_wrap(_identify(server), indent=("", "  ")), *_wrap(_verdict(server, lines))]
    shown = [line for line in lines if everything or _is_first(line, server)]
    head += [text for line in shown if not _is_said_elsewhere(line) for text in _write_line(line)]
    yield from head
    if server.state == "up" and everything:
        yield from _everything(server)
    elif server.state == "up":
        yield from _first_screen(server, FIRST_SCREEN - len(head))
    if server.code:
        yield from ("", *_code(server.code))
    if server.what_if:
        yield from ("", *_what_if(server.what_if))


def _verdict(server: ServerDocument, lines: Sequence[TextLine]) -> str:
    """The status as an exit status has it, so a server that is down is unknown."""
    return f"{server.status.upper()}  {server.verdict}{''.join(lines[0].parts[1:])}"


def _is_first(line: TextLine, server: ServerDocument) -> bool:
    """Whether a line is on the first screen. The headroom of a server that is ok is its verdict already."""
    if line.code == "headroom" and server.headroom and not server.headroom.sleeps:
        return not server.verdict.startswith("Headroom")
    return (line.rank <= MATTERS and line.code != "unknown") or line.tone in ("warning", "critical")


def _is_said_elsewhere(line: TextLine) -> bool:
    return line.code == "verdict" or (line.code == "unknown" and line.parts[0] in _NO_LOSS)


_NO_LOSS = ("figures", "residency")
"""What is not known and no reader of a report misses."""


def _write_line(line: TextLine) -> list[str]:
    parts = [_keep_together(part) for part in line.parts]
    return _section(line.label, "".join(parts))


_LONGEST_KEPT = 40


def _keep_together(part: str) -> str:
    """Keep a short part on one line, without the mark that separates it from the one before."""
    text = part.lstrip(" ,;:=")
    mark = part[: len(part) - len(text)]
    return part if len(text) > _LONGEST_KEPT else mark + text.replace(" ", "\u00a0")


def _everything(server: ServerDocument) -> Iterator[str]:
    if server.workers and server.window:
        yield from ("", *render_plain(server, WIDTH))
    for place, finding in enumerate(server.findings, 1):
        yield from ("", *write_finding(place, finding, server))


def _first_screen(server: ServerDocument, room: int) -> Iterator[str]:
    """Write each problem in as many lines as there are, at most, on the rest of the first screen."""
    problems = list_problems(server)
    shown = problems[:_MOST_PROBLEMS]
    more = [f"... and {len(problems) - len(shown)} more"] if len(problems) > len(shown) else []
    left = _count_left_out(server)
    named = _find_named_workers(shown)
    table = ["", *render_plain(server, WIDTH, named if len(server.workers) > _MOST_ROWS else ())] if named else []
    blocks = [_block(finding, server, is_first=place == 0) for place, finding in enumerate(shown)]
    sizes = [min(len(block), _MOST_BLOCK) for block in blocks]
    while sum(sizes) + len(sizes) + len(more) + len(left) > room and max(sizes, default=0) > _LEAST_BLOCK:
        place = max(range(len(sizes)), key=lambda each: (sizes[each], each))
        sizes[place] -= 1
    for block, size in zip(blocks, sizes, strict=True):
        yield from cut_lines(block, size) if block is blocks[0] else ("", *cut_lines(block, size))
    yield from (*more, *table, *left)


_MOST_ROWS = 8
"""With more workers, the table has only those that a problem names."""

_WORKERS = re.compile(r"\b[Ww]orkers? (\d+(?:(?:, | and )\d+)*)")


def _find_named_workers(problems: Sequence[FindingSection]) -> set[int]:
    texts = (text for problem in problems for text in _WORKERS.findall(f"{problem.title} {problem.evidence}"))
    return {int(number) for text in texts for number in re.findall(r"\d+", text)}


def _block(finding: FindingSection, server: ServerDocument, *, is_first: bool) -> list[str]:
    """Write a problem. The first one is the verdict, whose title and first act stand above."""
    act = first_act(finding.change)
    _, _, rest = finding.change.partition(f"{act}. " if act in finding.change else ". ")
    is_said = is_first and finding.title == server.verdict
    lines = [] if is_said else _wrap(f"{finding.severity.upper()}  {finding.title}")
    lines += [] if is_said or not act else _section("DO", shorten_act(act))
    harms = [] if is_first else [harm.evidence for harm in finding.harms]
    if evidence := " ".join(filter(None, (finding.evidence, *harms))):
        lines += _fit_sentences("why", evidence)
    rest = rest.removeprefix("Then ")
    return lines + (_fit_sentences("then", f"{rest[:1].upper()}{rest[1:]}") if rest else [])


def _fit_sentences(name: str, text: str) -> list[str]:
    """Write as many sentences as fit into half of a block, at least one, which is cut if it is longer."""
    sentences = _SENTENCE_ENDS.split(text)
    for count in range(len(sentences), 1, -1):
        lines = _section(name, " ".join(sentences[:count]))
        if len(lines) <= _MOST_BLOCK // 2:
            return lines
    return cut_lines(_section(name, sentences[0]), _MOST_BLOCK // 2)


_SENTENCE_ENDS = re.compile(r"(?<=\.) (?=[A-Z`])")


def _count_left_out(server: ServerDocument) -> list[str]:
    """Say in one line what else is known."""
    notes = sum(finding.severity == "info" for finding in server.findings)
    unknown = sum(each.what not in _NO_LOSS for each in server.unknown)
    facts: Facts = {"notes": notes or None, "unknown": unknown or None}
    text = "Add `--all` for [notes? {notes:note}, ][unknown? {unknown:unknown figure}, ]the workers and all figures."
    return ["", *_wrap(fill(text, facts))] if server.window else []


def _identify(server: ServerDocument) -> str:
    """Say which server it is, and for how long it was watched."""
    facts: Facts = {
        "name": server.name,
        "address": server.address,
        "version": server.state == "up" and server.version,
        "host": server.identity.host if server.identity else None,
        "window": server.window.seconds if server.window else None,
        "kind": server.kind or "",
    }
    return fill(
        "{name}[version?   uWSGI {version}][version, host?  on {host}][version? ,][not version?  ] {address}"
        "[version, window? , watched for {window:duration}][version, not window? , {kind}]",
        facts,
    )


def _section(name: str, text: str) -> list[str]:
    return _wrap(text, indent=(f"  {name:13}", " " * 15))


_MOST_CODE_LINES = 5


def _code(code: Code) -> Iterator[str]:
    """Write the lines of code that take the most time."""
    if code.why is not None:
        yield from _wrap(f"Code: not known. {code.why[:1].upper()}{code.why[1:]}.")
        return
    if not code.threads:
        yield f"Code: no thread was busy in {counted(code.samples, 'sample')}."
        return
    yield from _wrap(f"Code, by {counted(round(code.threads), 'sample')} of busy threads:")
    yield from write_code_lines(code.lines[:_MOST_CODE_LINES], WIDTH)
    if rest := describe_code_rest(code, _MOST_CODE_LINES):
        yield from _wrap(f"{rest}.", indent=("  ", "  "))


def write_code_lines(lines: Sequence[CodeLine], width: int, text: str = "") -> Iterator[str]:
    """Write those lines of code that contain a text, each with its time of a request and its share of busy threads."""
    for line in lines:
        time = "" if line.per_request is None else fit_duration(line.per_request, 8)
        what = describe_code_line(line)
        if text.casefold() in what.casefold():
            yield from wrap(what, width, f"  {time:>8} {percent(line.share):>6}  ", " " * CODE_AT)


CODE_AT = 19
"""The column at which the text of a line of code begins."""


def write_finding(place: int, finding: FindingSection, server: ServerDocument, width: int = WIDTH) -> Iterator[str]:
    """Write all about a finding."""
    yield from wrap(f"{place}. {finding.severity.upper()}: {finding.title}", width, rest="   ")
    since = find_since(server, finding)
    if since is not None:
        yield f"   Since {write_moment(since, server.time)}."
    for text in (*[harm.evidence for harm in finding.harms], finding.evidence, finding.meaning):
        yield from wrap(text, width, "   ", "   ")
    if finding.change:
        yield from wrap(finding.change, width, "   -> ", "      ")


def _wrap(text: str, indent: tuple[str, str] = ("", "")) -> list[str]:
    return wrap(text, WIDTH, *indent)


_TOO_MUCH = "too much"
_NOT_KNOWN = "unknown"
_HEAD = "  {:<10}{:>9}  {:<12}"
_TIME = "{:>14}"
_MEMORY = "{:>9}"


def _what_if(document: WhatIf) -> Iterator[str]:
    """Write the section; for a refusal, its reason."""
    if document.refusal is not None:
        yield from _wrap(f"What if: not known. {document.refusal}")
        return
    today = [document.today] if document.today and not any(each.is_observed for each in document.predictions) else []
    rows = [*today, *document.predictions]
    loads = rows[0].loads if rows else ()
    yield "What if (mean times with the wait in the listen queue; *: the observed setting)"
    yield (
        _HEAD.format("", "most", "limited")
        + "".join(_TIME.format(f"at {rate(at.throughput)}") for at in loads)
        + _MEMORY.format("")
    ).rstrip()
    yield _HEAD.format("setting", "req/s", "by") + _TIME.format("time") * len(loads) + _MEMORY.format("memory")
    for row in rows:
        yield _row(row).rstrip()
    yield ""
    sentences = [document.check.sentence] if document.check else []
    sentences += [row.memory_sentence for row in rows if row.memory_sentence]
    for sentence in (*sentences, *document.cautions):
        yield from _wrap(sentence, ("  ", "  "))


def _row(row: PredictedSetting) -> str:
    name = f"{row.setting}{'*' if row.is_observed else ''}"
    memory = "-" if row.memory is None else byte_size(row.memory)
    times = "".join(_TIME.format(_total_time(at)) for at in row.loads)
    return (
        _HEAD.format(name, amount(row.most_throughput), LIMIT_WORDS[row.limit].short) + times + _MEMORY.format(memory)
    )


def _total_time(at: PredictedLoad) -> str:
    if not at.sustained:
        return _TOO_MUCH
    return _NOT_KNOWN if at.total_time is None else fit_duration(at.total_time, 7)


def count_statuses(judged: Sequence[ServerDocument]) -> str:
    """Return such as `4 servers: 1 critical, 1 unknown, 2 ok`."""
    count = Counter(server.status for server in judged)
    parts = ", ".join(f"{count[status]} {status}" for status in WORST_FIRST if count[status])
    return f"{counted(len(judged), 'server')}: {parts}"


def describe_headroom(server: ServerDocument) -> str:
    """Return `1.2x`, `>100x`, or `-` if headroom is unknown."""
    if server.state != "up" or server.headroom is None:
        return "-"
    if server.headroom.factor is None:
        return ">100x" if server.headroom.far else "-"
    return factor(server.headroom.factor)


_LONGEST_NAME = 24


def render_list(judged: Sequence[ServerDocument], *, everything: bool = False) -> Iterator[str]:
    """Write the report on several servers."""
    yield f"{find_worst(server.status for server in judged).upper()}  {count_statuses(judged)}"
    full = _describe_full_hosts(judged)
    for sentence in full.values():
        yield from _wrap(sentence, indent=("", "  "))
    yield ""
    names = [escape_text(server.name) for server in judged]
    width = min(_LONGEST_NAME, max(map(len, names)))
    for name, server in zip(names, judged, strict=True):
        yield from _line(name, server, width)
        act = "" if lacks_host_only(server) and _host_of(server) in full else find_first_act(server)
        if act and server.status != "ok":
            yield from cut_lines(_wrap(act, indent=(f"{'':8}  DO  ", "")), 1)
    for server in judged:
        if (
            server.status != "ok" or server.what_if
        ) and server.state == "up":  # for the others, the line above is complete
            yield ""
            yield "-" * WIDTH
            yield from render_lines(server, everything=everything)


def _describe_full_hosts(judged: Sequence[ServerDocument]) -> dict[str | None, str]:
    """What each host lacks whose CPUs are all in use, by its name: said once for all servers on it."""
    hosts: dict[str | None, list[ServerDocument]] = {}
    for server in judged:
        hosts.setdefault(_host_of(server), []).append(server)
    found = ((host, describe_full_host(servers)) for host, servers in hosts.items())
    return {host: sentence for host, sentence in found if sentence}


def _host_of(server: ServerDocument) -> str | None:
    return server.identity.host if server.identity else None


def _line(name: str, server: ServerDocument, width: int) -> Iterator[str]:
    begin = f"{server.status.upper():8}  {name:{width}}  {describe_headroom(server):>5}  "
    indent = " " * (8 + 2 + width + 2 + 5 + 2)
    if len(name) > width:
        yield f"{server.status.upper():8}  {name}"
        begin = f"{'':8}  {'':{width}}  {describe_headroom(server):>5}  "
    yield from wrap(server.verdict, WIDTH, begin, indent)


def render_json(judged: Sequence[ServerDocument], *, single: bool) -> str:
    """Write one JSON document in ASCII: the server's own if the request names a single server, else a list with the
    worst status."""
    if single:
        return json.dumps(_to_builtins(judged[0]), indent=2)
    whole = {
        "time": time.time(),
        "version": __version__,
        "status": find_worst(server.status for server in judged),
        "verdict": count_statuses(judged),
        "host": " ".join(_describe_full_hosts(judged).values()) or None,
        "servers": [_to_builtins(server) for server in judged],
    }
    return json.dumps(whole, indent=2)


def _to_builtins(server: ServerDocument) -> object:
    """Return a document, with the lines of the verdict that thresholds may have changed."""
    return msgspec.to_builtins(replace(server, lines=list_lines(server)), str_keys=True)


_MOST_NAMED = 3
"""How many servers' verdicts the line contains; a pager shows no more."""


def render_report(judged: Sequence[ServerDocument], thresholds: Thresholds) -> str:
    """Write the line. With several servers, labels begin with the server's name: `shop.headroom`."""
    several = len(judged) > 1
    figures = [
        figure
        for server in judged
        for figure in _list_figures(server, thresholds, f"{render_label(server.name)}." if several else "")
    ]
    status = find_worst(server.status for server in judged)
    return render_line(status, _summarize(judged) if several else f"{judged[0].name}: {judged[0].verdict}", figures)


def _summarize(judged: Sequence[ServerDocument]) -> str:
    troubled = [server for server in judged if server.status != "ok"]
    named = [f"{server.name}: {server.verdict.removesuffix('.')}" for server in troubled[:_MOST_NAMED]]
    more = [f"and {len(troubled) - _MOST_NAMED} more"] if len(troubled) > _MOST_NAMED else []
    return "; ".join((count_statuses(judged), *named, *more))


def _list_figures(server: ServerDocument, thresholds: Thresholds, prefix: str) -> Iterator[Performance]:
    """List the figures of a readable server: always the same ones, since a graph's file has a fixed number."""
    if server.state != "up":
        return
    if server.emperor:
        yield Performance(f"{prefix}vassals", len(server.emperor.vassals))
        yield Performance(f"{prefix}throttled_vassals", len(server.emperor.throttled))
    elif server.router:
        yield Performance(f"{prefix}active_sessions", server.router.active_sessions)
    else:
        yield from _list_flow(server, thresholds, prefix)


def _list_flow(server: ServerDocument, thresholds: Thresholds, prefix: str) -> Iterator[Performance]:
    flow, room, threads = server.flow, server.headroom, server.threads
    yield Performance(
        f"{prefix}headroom", room.factor if room else None, "", *_ranges(thresholds.min_headroom, "{:g}:")
    )
    yield Performance(f"{prefix}throughput", flow.throughput if flow else None)
    yield Performance(
        f"{prefix}response_time",
        flow.response_time if flow else None,
        "s",
        *_ranges(thresholds.max_response_time, "{:g}"),
    )
    yield Performance(
        f"{prefix}queue_wait", flow.queue_wait if flow else None, "s", *_ranges(thresholds.max_queue_wait, "{:g}")
    )
    yield Performance(
        f"{prefix}concurrency", flow.observed if flow else None, most=threads.available if threads else None
    )
    yield Performance(f"{prefix}interpreter_lock_waiters", _count_lock_waiters(server))
    for share, limits in ((0.95, thresholds.max_p95), (0.99, thresholds.max_p99)):
        percentile = find_percentile(server.response_times, share)
        seconds = percentile.seconds if percentile else None
        yield Performance(f"{prefix}response_time_{percentile_name(share)}", seconds, "s", *_ranges(limits, "{:g}"))
    if server.objective:
        burn = server.objective.windows[-1] if server.objective.windows and not server.objective.unjudged else None
        yield Performance(f"{prefix}objective_missed_share", burn.share if burn else None, most=1)
        yield Performance(f"{prefix}objective_burn_rate", burn.rate if burn else None)


def _count_lock_waiters(server: ServerDocument) -> float | None:
    """Return the mean number of threads that wait for the interpreter lock of their worker."""
    if server.waits is None:
        return None
    return sum(state.threads for state in server.waits.states if state.state == "interpreter_lock")


def _ranges(limits: Threshold, form: str) -> tuple[str, str]:
    """Return the ok ranges for warning and for critical."""
    warning, critical = ("" if limit is None else form.format(limit) for limit in (limits.warning, limits.critical))
    return warning, critical
