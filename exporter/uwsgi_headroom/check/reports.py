"""Writes verdicts as text of 80 columns without colour, as JSON, and as the line of a monitoring plugin.

The text of one server begins with what is wrong, what to do and what users feel, and has each problem on the first
screen; of several, it has a line for each, worst first, with what to do first below it, then the details of any
problem. The JSON is each server's document, as in the API, over the time that it was watched.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from uwsgi_headroom import __version__
from uwsgi_headroom.analysis.findings import first_act
from uwsgi_headroom.analysis.what_if.predict import PredictedLoad, WhatIf
from uwsgi_headroom.check.failure import Performance, render_label, render_line
from uwsgi_headroom.check.request import WORST_FIRST, Thresholds, find_worst
from uwsgi_headroom.check.tables import UNKNOWN, find_field, render_plain
from uwsgi_headroom.check.thresholds import LIMITED, Limited, find_limits, find_value
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
    shorten_act,
    write_moment,
)
from uwsgi_headroom.documents.subjects import Code, CodeLine
from uwsgi_headroom.same_fields import given
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


def render_lines(server: ServerDocument, *, everything: bool = False, names_all: bool = True) -> Iterator[str]:
    """Write the report. Its first lines are enough to act: what is wrong and since when, what to do, what users wait,
    and where the time goes; then each problem. everything: with all figures, workers and notes; names_all: name the
    option `--all`, which prints these."""
    lines = list_lines(server)
    # Its status as an exit status has it, so a server that is down is unknown.
    verdict = f"{server.status.upper()}  {server.verdict}{''.join(lines[0].parts[1:])}"
    head = [*_wrap(_identify(server), indent=("", "  ")), *_wrap(verdict)]
    for line in lines:
        if (everything or _is_first(line, server)) and not _is_said_elsewhere(line):
            head += _section(line.label, "".join(map(_keep_together, line.parts)))
    yield from head
    if server.state == "up" and everything:
        if server.workers and server.window:
            yield from ("", *render_plain(server, WIDTH))
        for place, finding in enumerate(server.findings, 1):
            yield from ("", *write_finding(place, finding, server))
    elif server.state == "up":
        yield from _first_screen(server, FIRST_SCREEN - len(head), _count_left_out(server) if names_all else ())
    if server.code:
        yield from ("", *_code(server.code))
    if server.what_if:
        yield from ("", *_what_if(server.what_if))


def _is_first(line: TextLine, server: ServerDocument) -> bool:
    """Whether a line is on the first screen. The headroom of a server that is ok is its verdict already."""
    if line.code == "headroom" and server.headroom and not server.headroom.sleeps:
        return not server.verdict.startswith("Headroom")
    return (line.rank <= MATTERS and line.code != "unknown") or line.tone in ("warning", "critical")


def _is_said_elsewhere(line: TextLine) -> bool:
    return line.code == "verdict" or (line.code == "unknown" and line.parts[0] in _NO_LOSS)


_NO_LOSS = ("figures", "residency")
"""What is not known and no reader of a report misses."""


_LONGEST_KEPT = 40


def _keep_together(part: str) -> str:
    text = part.lstrip(" ,;:=")
    mark = part[: len(part) - len(text)]
    return part if len(text) > _LONGEST_KEPT else mark + text.replace(" ", "\u00a0")


def _first_screen(server: ServerDocument, room: int, left: Sequence[str]) -> Iterator[str]:
    problems = list_problems(server)
    shown = problems[:_MOST_PROBLEMS]
    after = [f"... and {len(problems) - len(shown)} more"] * (len(problems) > len(shown))
    blocks = [_block(finding, server, is_first=place == 0) for place, finding in enumerate(shown)]
    sizes = [min(len(block), _MOST_BLOCK) for block in blocks]
    while sum(sizes) + len(sizes) + len(after) + len(left) > room and max(sizes, default=0) > _LEAST_BLOCK:
        place = max(range(len(sizes)), key=lambda each: (sizes[each], each))
        sizes[place] -= 1
    for place, (block, size) in enumerate(zip(blocks, sizes, strict=True)):
        yield from [""] * (place > 0)
        yield from cut_lines(block, size)
    yield from after
    if named := _find_named_workers(shown):
        many = len(server.workers) > _MOST_ROWS
        yield from ("", *render_plain(server, WIDTH, named if many else ()))
    yield from left


_MOST_ROWS = 8
"""With more workers, the table has only those that a problem names."""

_WORKERS = re.compile(r"\b[Ww]orkers? (\d+(?:(?:, | and )\d+)*)")


def _find_named_workers(problems: Sequence[FindingSection]) -> set[int]:
    texts = (text for problem in problems for text in _WORKERS.findall(f"{problem.title} {problem.evidence}"))
    return {int(number) for text in texts for number in re.findall(r"\d+", text)}


def _block(finding: FindingSection, server: ServerDocument, *, is_first: bool) -> list[str]:
    act = first_act(finding.change)
    lines: list[str] = []
    if not (is_first and finding.title == server.verdict):
        lines += _wrap(f"{finding.severity.upper()}  {finding.title}")
        lines += _section("DO", shorten_act(act))
    harms = [harm.evidence for harm in finding.harms if not is_first]
    lines += _fit_sentences("why", " ".join(filter(None, (finding.evidence, *harms))))
    _, _, rest = finding.change.partition(f"{act}. " if act in finding.change else ". ")
    rest = rest.removeprefix("Then ")
    return lines + _fit_sentences("then", f"{rest[:1].upper()}{rest[1:]}")


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
    if not server.window:
        return []
    notes = sum(finding.severity == "info" for finding in server.findings)
    unknown = sum(each.what not in _NO_LOSS for each in server.unknown)
    facts: Facts = {"notes": notes or None, "unknown": unknown or None}
    text = "Add `--all` for [notes? {notes:note}, ][unknown? {unknown:unknown figure}, ]the workers and all figures."
    return ["", *_wrap(fill(text, facts))]


def _identify(server: ServerDocument) -> str:
    facts: Facts = {
        "name": server.name,
        "address": server.address,
        "version": server.state == "up" and server.version,
        "host": _host_of(server),
        "window": find_field(server, "window.seconds"),
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
    """Write the lines of code that contain a text, with their time of a request and share of busy threads."""
    for line in lines:
        time = fill("[time? {time}]", {"time": given(line.per_request, lambda seconds: fit_duration(seconds, 8))})
        what = describe_code_line(line)
        if text.casefold() in what.casefold():
            yield from wrap(what, width, f"  {time:>8} {percent(line.share):>6}  ", " " * CODE_AT)


CODE_AT = 19
"""The column at which the text of a line of code begins."""


def write_finding(place: int, finding: FindingSection, server: ServerDocument, width: int = WIDTH) -> Iterator[str]:
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


def _what_if(document: WhatIf) -> Iterator[str]:
    if document.refusal is not None:
        yield from _wrap(f"What if: not known. {document.refusal}")
        return
    rows = list(document.predictions)
    if document.today and not any(row.is_observed for row in rows):
        rows.insert(0, document.today)
    loads = [f"at {rate(at.throughput)}" for at in rows[0].loads] if rows else []
    yield "What if (mean times with the wait in the listen queue; *: the observed setting)"
    yield _row("", "most", "limited", loads, "")
    yield _row("setting", "req/s", "by", ["time"] * len(loads), "memory")
    for row in rows:
        memory = UNKNOWN if row.memory is None else byte_size(row.memory)
        times = [_total_time(at) for at in row.loads]
        setting = f"{row.setting}{'*' * row.is_observed}"
        yield _row(setting, amount(row.most_throughput), LIMIT_WORDS[row.limit].short, times, memory)
    yield ""
    sentences = [find_field(document, "check.sentence"), *(row.memory_sentence for row in rows), *document.cautions]
    for sentence in filter(None, sentences):
        yield from _wrap(sentence, ("  ", "  "))


def _row(setting: str, most: str, limit: str, times: Sequence[str], memory: str) -> str:
    return f"  {setting:<10}{most:>9}  {limit:<12}{''.join(f'{time:>14}' for time in times)}{memory:>9}".rstrip()


def _total_time(at: PredictedLoad) -> str:
    if not at.sustained:
        return "too much"
    return "unknown" if at.total_time is None else fit_duration(at.total_time, 7)


def count_statuses(judged: Sequence[ServerDocument]) -> str:
    """Return such as `4 servers: 1 critical, 1 unknown, 2 ok`."""
    count = Counter(server.status for server in judged)
    parts = ", ".join(f"{count[status]} {status}" for status in WORST_FIRST if count[status])
    return f"{counted(len(judged), 'server')}: {parts}"


def describe_headroom(server: ServerDocument) -> str:
    """Return `1.2x`, `>100x`, or `-` if headroom is unknown."""
    room = server.headroom
    if server.state != "up" or room is None or (room.factor is None and not room.far):
        return UNKNOWN
    return ">100x" if room.factor is None else factor(room.factor)


_LONGEST_NAME = 24


def render_list(judged: Sequence[ServerDocument], *, everything: bool = False) -> Iterator[str]:
    yield f"{find_worst(server.status for server in judged).upper()}  {count_statuses(judged)}"
    full = _describe_full_hosts(judged)
    for sentence in full.values():
        yield from _wrap(sentence, indent=("", "  "))
    yield ""
    width = fit_names(judged)
    for server in judged:
        yield from write_line(server, width)
        if server.status != "ok" and not (lacks_host_only(server) and _host_of(server) in full):
            yield from cut_lines(_wrap(find_first_act(server), indent=(f"{'':8}  DO  ", "")), 1)
    for server in judged:  # of one that is not up, the line above is complete
        if server.state == "up" and (server.status != "ok" or server.what_if):
            yield ""
            yield "-" * WIDTH
            yield from render_lines(server, everything=everything)


def _describe_full_hosts(judged: Sequence[ServerDocument]) -> dict[str | None, str]:
    hosts: dict[str | None, list[ServerDocument]] = {}
    for server in judged:
        hosts.setdefault(_host_of(server), []).append(server)
    found = ((host, describe_full_host(servers)) for host, servers in hosts.items())
    return {host: sentence for host, sentence in found if sentence}


def _host_of(server: ServerDocument) -> str | None:
    host: str | None = find_field(server, "identity.host")
    return host


def fit_names(servers: Iterable[ServerDocument]) -> int:
    return min(_LONGEST_NAME, max(len(escape_text(server.name)) for server in servers))


def write_line(server: ServerDocument, width: int) -> Iterator[str]:
    status, name = server.status.upper(), escape_text(server.name)
    if len(name) > width:
        yield f"{status:8}  {name}"
        status = name = ""
    begin = f"{status:8}  {name:{width}}  {describe_headroom(server):>5}  "
    yield from wrap(server.verdict, WIDTH, begin, " " * len(begin))


def render_json(judged: Sequence[ServerDocument], *, single: bool) -> str:
    """Write JSON in ASCII: the document of the single server that is named, else a list with the worst status."""
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
    status = find_worst(server.status for server in judged)
    if len(judged) == 1:
        (server,) = judged
        return render_line(status, f"{server.name}: {server.verdict}", _list_figures(server, thresholds))
    figures = (
        figure._replace(label=f"{render_label(server.name)}.{figure.label}")
        for server in judged
        for figure in _list_figures(server, thresholds)
    )
    return render_line(status, _summarize(judged), figures)


def _summarize(judged: Sequence[ServerDocument]) -> str:
    troubled = [server for server in judged if server.status != "ok"]
    named = [f"{server.name}: {server.verdict.removesuffix('.')}" for server in troubled[:_MOST_NAMED]]
    more = fill("[more? and {more} more]", {"more": max(0, len(troubled) - _MOST_NAMED) or None})
    return "; ".join(filter(None, (count_statuses(judged), *named, more)))


def _list_figures(server: ServerDocument, thresholds: Thresholds) -> Iterator[Performance]:
    """List the figures of a readable server: always the same ones, since a graph's file has a fixed number."""
    if server.state != "up":
        return
    if server.emperor:
        yield Performance("vassals", len(server.emperor.vassals))
        yield Performance("throttled_vassals", len(server.emperor.throttled))
    elif server.router:
        yield Performance("active_sessions", server.router.active_sessions)
    else:
        headroom, wait, time, p95, p99, _ = (_judged_figure(server, figure, thresholds) for figure in LIMITED)
        yield headroom
        yield Performance("throughput", find_field(server, "flow.throughput"))
        yield from (time, wait)
        yield Performance(
            "concurrency", find_field(server, "flow.observed"), most=find_field(server, "threads.available")
        )
        states = find_field(server, "waits.states")
        locked = None if states is None else sum(each.threads for each in states if each.state == "interpreter_lock")
        yield Performance("interpreter_lock_waiters", locked)
        yield from (p95, p99)
    if server.objective:
        judged = server.objective.windows[-1:] * (not server.objective.unjudged)
        share, rate = next(((burn.share, burn.rate) for burn in judged), (None, None))
        yield Performance("objective_missed_share", share, most=1)
        yield Performance("objective_burn_rate", rate)


def _judged_figure(server: ServerDocument, figure: Limited, thresholds: Thresholds) -> Performance:
    limits = find_limits(thresholds, figure)
    warning, critical = (
        "" if limit is None else figure.range.format(limit) for limit in (limits.warning, limits.critical)
    )
    return Performance(figure.name, find_value(server, figure), figure.unit, warning, critical)
