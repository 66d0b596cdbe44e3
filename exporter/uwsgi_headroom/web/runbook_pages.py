"""Serves the runbooks at `/runbooks/`. Alerts and findings link to the exporter that provides their figures.

`/runbooks/NAME` is a page for people, filled in for a server with `?server=NAME&worker=ID`; `/runbooks/NAME.md` is its
Markdown source. Alerts link to the code of their finding: `/runbooks/CODE` is its runbook, or the server's page where
the finding needs none. A page needs no scripts, and has the style of the live page. In the repository the files are in
`alerts/runbooks`, beside the rules; the package has a symbolic link to that folder, which setuptools follows, so that
wheels and source distributions contain the files.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from html import escape
from importlib import resources
from unicodedata import bidirectional
from urllib.parse import urlencode

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from uwsgi_headroom.analysis.findings import RUNBOOKS
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.kernel.setup import find_systemd_unit
from uwsgi_headroom.stats import Snapshot
from uwsgi_headroom.stats.server import Worker
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.watch.watch import Watch
from uwsgi_headroom.web import bounds, live_page
from uwsgi_headroom.web.request_values import read_parameter
from uwsgi_headroom.web.shared_builds import BuildKind, SharedBuilds

MEANINGS = {
    "SERVER": "the name of the uWSGI server (the label `server`)",
    "STATS": "the address of its stats server",
    "EXPORTER": "the exporter's address, `http://HOST:9238`",
    "MASTER_PID": "the PID of uWSGI's master",
    "WORKER_PID": "the PID of a worker",
    "WORKER_PIDS": "the PIDs of all workers",
    "UNIT": "uWSGI's systemd unit; `ps -o unit= -p PID` prints it for a PID of uWSGI",
}
"""The meaning of each placeholder."""

PIDS = {"MASTER_PID", "WORKER_PID", "WORKER_PIDS"}

PLACEHOLDER = re.compile(rf"(?<![\w$])(?:{'|'.join(sorted(MEANINGS, key=len, reverse=True))})(?!\w)")

Values = Mapping[str, str]
"""Values by placeholder. WORKER_PIDS is several words of digits; every other value is one word."""


def is_typeable(value: str) -> bool:
    """Whether a person who copies a value into a terminal sees its effect."""
    return value != "" and value.isprintable() and {"R", "AL"}.isdisjoint(map(bidirectional, value))


def fill_code(code: str, language: str, values: Values) -> str:
    """Write the HTML of a command or a query, with placeholders filled in, or marked if they have no value."""
    return _rewrite(code, PLACEHOLDER, lambda match: _fill(match, language, values), escape)


def _rewrite(
    text: str, pattern: re.Pattern[str], write: Callable[[re.Match[str]], str], plain: Callable[[str], str]
) -> str:
    """Write the HTML of a text: of what matches a pattern, and of the plain text between."""
    html, end = [], 0
    for match in pattern.finditer(text):
        html += [plain(text[end : match.start()]), write(match)]
        end = match.end()
    return "".join([*html, plain(text[end:])])


def _fill(match: re.Match[str], language: str, values: Values) -> str:
    name, value = match[0], values.get(match[0])
    if value is None:
        return f"<mark>{name}</mark>"
    in_string = match.string[match.start() - 1 : match.start()] == '"'
    if in_string or language == "promql":
        text = value.replace("\\", "\\\\").replace('"', '\\"')
    else:
        text = value if name == "WORKER_PIDS" else shlex.quote(value)
    return f"<b>{escape(text)}</b>"


def used_placeholders(text: str) -> set[str]:
    return set(PLACEHOLDER.findall(text))


class Target(Struct, frozen=True):
    """The server for which a runbook is filled in; without a name, for none. workers: those with a process; chosen: the
    one that the commands mean, None if none is chosen; doubt: why the kernel does not prove its PIDs, if they are not
    known for that."""

    name: str = ""
    values: Values = {}
    workers: tuple[Worker, ...] = ()
    chosen: Worker | None = None
    doubt: str | None = None

    def address(self, runbook: str, worker: Worker | None = None) -> str:
        """The URL of a runbook, or of the list if the name is empty, for the same server and worker, or for another
        worker."""
        if not self.name:
            return f"/runbooks/{runbook}"
        query = {"server": self.name}
        if chosen := worker or self.chosen:
            query["worker"] = str(chosen.worker_id)
        return f"/runbooks/{runbook}?{urlencode(query)}"


def describe_target(watch: Watch, exporter: str | None, chosen: str) -> Target:
    """Collect the values of a server. exporter: the exporter's URL, if it is known; chosen: the id of a worker as in
    the request, or any other text for none."""
    reading = watch.reading
    address = str(watch.address)
    values = {"SERVER": watch.name}
    if "?" not in address:  # a query may contain a token
        values["STATS"] = address
    if exporter:
        values["EXPORTER"] = exporter
    workers: list[Worker] = []
    if reading and isinstance(reading.snapshot, Snapshot) and watch.state == "up":
        workers = [each for each in reading.snapshot.workers if each.pid and not reading.process_is_missing(each)]
    only = workers[0] if len(workers) == 1 else None
    worker = next((worker for worker in workers if str(worker.worker_id) == chosen), only)
    doubt = None
    if reading:
        values |= collect_pids(reading.host, workers, worker)
        doubt = reading.host.off
    typeable = {name: value for name, value in values.items() if is_typeable(value)}
    return Target(watch.name, typeable, tuple(workers), worker, doubt)


def collect_pids(host: HostFacts, workers: Sequence[Worker], chosen: Worker | None) -> dict[str, str]:
    """Collect the PIDs on this host that the kernel proves, and the unit of systemd. The others are left out: a stats
    document can name any process."""
    pids = {worker.worker_id: str(pid) for worker in workers if (pid := host.local_pid(worker.pid or 0))}
    if host.master_pid is None:
        return {}
    found = {"MASTER_PID": str(host.master_pid)}
    if pids and len(pids) == len(workers):
        found["WORKER_PIDS"] = " ".join(pids.values())
    if chosen and chosen.worker_id in pids:
        found["WORKER_PID"] = pids[chosen.worker_id]
    if host.processes and (unit := find_systemd_unit(host.master_pid)):
        found["UNIT"] = unit
    return found


_FENCE = re.compile(r"```(sh|promql)")
_ITEM = {"ul": re.compile(r"\* +"), "ol": re.compile(r"[1-9][0-9]?\. +")}
_INLINE = re.compile(r"`([^`]+)`|\[([^]\[`]+)\]\((Uwsgi\w+)\.md\)")
_NOT_TEXT = re.compile(r"[*`\[\]<>\\]|__|\b_|_\b|https?://")
"""Markup of other Markdown dialects, which is refused."""


class UnknownMarkdownError(ValueError):
    """A runbook contains Markdown that this renderer does not know."""


class Runbook(Struct, frozen=True):
    """A runbook and its parts. summary: what is wrong, and the effect on users."""

    text: str
    title: str
    summary: str
    body: str


def split_runbook(text: str) -> Runbook:
    """Split a runbook into its title, its opening paragraph, and the rest. Raises UnknownMarkdownError."""
    title, summary, body = text.split("\n\n", 2)
    if not title.startswith("# ") or not body.startswith("## "):
        raise UnknownMarkdownError(f"not a runbook: {title!r}")
    return Runbook(text, title.removeprefix("# "), summary, body)


def render_blocks(text: str, target: Target) -> str:
    """Render a part of a runbook to HTML. Raises UnknownMarkdownError."""
    lines = text.splitlines()
    html = []
    while lines:
        html.append(_take_block(lines, target))
    return "".join(html)


def render_inline(text: str, target: Target) -> str:
    """Render text without blocks to HTML. Raises UnknownMarkdownError."""

    def write(match: re.Match[str]) -> str:
        code, label, name = match.groups()
        if name:
            return f'<a href="{escape(target.address(name))}">{_plain(label)}</a>'
        return f"<code>{fill_code(code, '', target.values)}</code>"

    return _rewrite(text, _INLINE, write, _plain)


def _plain(text: str) -> str:
    if found := _NOT_TEXT.search(text):
        raise UnknownMarkdownError(f"{found[0]!r} in {text!r}")
    return escape(text)


def _take_block(lines: list[str], target: Target) -> str:
    first = lines[0]
    if not first.strip():
        del lines[0]
        return ""
    if fence := _FENCE.fullmatch(first):
        return _take_code(lines, fence[1], target)
    if first.startswith("## "):
        return f"<h2>{render_inline(lines.pop(0)[3:], target)}</h2>"
    if first.startswith("| "):
        return _take_table(lines, target)
    for tag, mark in _ITEM.items():
        if mark.match(first):
            return _take_list(lines, tag, mark, target)
    if not first[0].isalnum() and first[0] not in "`[":
        raise UnknownMarkdownError(f"a line that begins with {first[0]!r}: {first!r}")
    return f"<p>{render_inline(' '.join(_take_while(lines, lambda line: bool(line.strip()))), target)}</p>"


def _take_while(lines: list[str], wanted: Callable[[str], bool]) -> list[str]:
    count = next((place for place, line in enumerate(lines) if not wanted(line)), len(lines))
    taken = lines[:count]
    del lines[:count]
    return taken


def _take_code(lines: list[str], language: str, target: Target) -> str:
    del lines[0]
    code = _take_while(lines, lambda line: line != "```")
    if not lines:
        raise UnknownMarkdownError("code that does not end")
    del lines[0]
    rows = "\n".join(f"<code>{fill_code(row, language, target.values)}</code>" for row in code)
    return f'<pre class="{language}">{rows}</pre>'


def _take_table(lines: list[str], target: Target) -> str:
    taken = _take_while(lines, lambda line: line.startswith("|"))
    head, *rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in (taken[0], *taken[2:])]
    if not taken[1:] or set(taken[1]) != set("|-") or any(len(row) != len(head) for row in rows):
        raise UnknownMarkdownError(f"a table that is not regular: {head}")
    cells = ["".join(f"<td>{render_inline(cell, target)}" for cell in row) for row in rows]
    heads = "".join(f"<th>{render_inline(cell, target)}" for cell in head)
    return f"<table><thead><tr>{heads}<tbody>{''.join(f'<tr>{row}' for row in cells)}</table>"


def _is_indented(width: int, line: str) -> bool:
    return not line.strip() or line.startswith(" " * width)


def _take_list(lines: list[str], tag: str, mark: re.Pattern[str], target: Target) -> str:
    """Take a list: items with the blocks indented below them. An item's text is one paragraph."""
    items = []
    while lines and (found := mark.match(lines[0])):
        width = found.end()
        first = lines.pop(0)[width:]
        below = _take_while(lines, partial(_is_indented, width))
        items.append(f"<li>{render_blocks(chr(10).join([first, *(line[width:] for line in below)]), target)}")
    return f"<{tag}>{''.join(items)}</{tag}>"


_RUNBOOKS = BuildKind("runbooks", rest=1.0, most=bounds.MOST_RUNBOOKS, seconds=1.0)
"""Apart from documents: a request may name any server and worker, so requests with many names would take the places of
the page."""

_CODE = re.compile("[a-z_]+")
"""The code of a finding."""

_TEXT_HEADERS = {"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff"}


@cache
def load_runbooks() -> Mapping[str, Runbook]:
    """Read every runbook once, by name, sorted by name. Requests look names up here and never build a path from a
    name."""
    files = resources.files("uwsgi_headroom").joinpath("runbooks").iterdir()
    texts = {file.name[:-3]: file.read_text("utf-8") for file in files if file.name.endswith(".md")}
    return {name: split_runbook(text) for name, text in sorted(texts.items())}


def routes(fleet: Fleet, builds: SharedBuilds) -> list[Route]:
    async def show_list(request: Request) -> Response:
        return await _show(fleet, builds, request, "", lambda target: render_list(load_runbooks(), target))

    async def show_page(request: Request) -> Response:
        code = request.path_params["name"]
        name = RUNBOOKS.get(code, code)
        if runbook := load_runbooks().get(name):
            missing = read_parameter(request, "server")
            return await _show(fleet, builds, request, name, lambda target: render_runbook(runbook, target, missing))
        if _CODE.fullmatch(code):
            server = read_parameter(request, "server")
            if any(watch.name == server for watch in fleet.watches()):
                return RedirectResponse(live_page.path(server))
        return _missing()

    return [
        Route("/runbooks/", show_list),
        Route("/runbooks/{name}.md", _show_text),
        Route("/runbooks/{name}", show_page),
    ]


async def _show_text(request: Request) -> Response:
    if runbook := load_runbooks().get(request.path_params["name"]):
        return PlainTextResponse(runbook.text, headers=_TEXT_HEADERS)
    return _missing()


def _missing() -> Response:
    return PlainTextResponse("No such runbook; /runbooks/ lists them.\n", status_code=404, headers=_TEXT_HEADERS)


async def _show(
    fleet: Fleet, builds: SharedBuilds, request: Request, name: str, render: Callable[[Target], str]
) -> Response:
    """Show a runbook, or the list if the name is empty, for the server and the worker of the request."""
    server, worker = read_parameter(request, "server"), read_parameter(request, "worker")
    watch = next((watch for watch in fleet.watches() if watch.name == server), None)
    exporter = find_exporter_address(request)

    async def make() -> bytes:
        target = describe_target(watch, exporter, worker) if watch else Target()
        # A name in the URL may contain bytes that are not UTF-8.
        return render(target).encode("utf-8", "replace")

    key = "runbook", name, server, watch, worker, exporter
    state = lambda: watch and watch.reader.attempts  # noqa: E731
    return await builds.respond(request, _RUNBOOKS, key, state, make, live_page.HEADERS, live_page.MEDIA_TYPE)


_HOST = re.compile(r"[A-Za-z0-9._-]+(:[0-9]+)?|\[[0-9A-Fa-f:.]+\](:[0-9]+)?")


def find_exporter_address(request: Request) -> str | None:
    """Find the exporter's URL as the reader requested it; None if the Host header is not a plain host."""
    host = request.headers.get("host", "")
    return f"{request.url.scheme}://{host}" if _HOST.fullmatch(host) else None


_MOST_WORKERS = 64
"""Most workers to choose from: a longer list would hide the runbook."""


def render_list(runbooks: Mapping[str, Runbook], target: Target) -> str:
    items = "".join(
        f'<li><a href="{escape(target.address(name))}">{escape(name)}</a>'
        f"<p>{render_inline(runbook.summary, target)}</p>"
        for name, runbook in runbooks.items()
    )
    return _page("Runbooks", target, f'<h1>Runbooks</h1><ul class="list">{items}</ul>')


def render_runbook(runbook: Runbook, target: Target, missing: str = "") -> str:
    """Write a runbook, for a server if given. missing: the name of a requested server that does not exist."""
    title = escape(runbook.title)
    needed = used_placeholders(runbook.body)
    whom = _describe(target, needed, runbook.title) if target.name else _placeholders(needed, missing)
    return _page(
        title,
        target,
        f'<h1>{title}</h1><p class="summary">{render_inline(runbook.summary, target)}</p>'
        f'<section class="target">{whom}</section>{render_blocks(runbook.body, target)}'
        f'<footer><a href="/runbooks/{title}.md">This runbook as text</a></footer>',
        ("All runbooks", target.address("")),
    )


def _describe(target: Target, needed: set[str], title: str) -> str:
    parts = [f"<p>Commands are filled in for <b>{escape(target.name)}</b>. Run them on its host, as root.</p>"]
    unknown = needed - target.values.keys()
    if "WORKER_PID" in needed and target.workers:
        parts.append(_choice(target, title))
        unknown -= {"WORKER_PID"}
    if unknown:
        missing = "".join(f"<li><mark>{name}</mark>: {_meaning(name)}; not known here." for name in sorted(unknown))
        parts.append(f"<p>Fill in yourself:</p><ul>{missing}</ul>")
    if target.doubt and needed & PIDS:
        parts.append(f"<p>No PID is filled in: {escape(target.doubt)}.</p>")
    return "".join(parts)


def _choice(target: Target, title: str) -> str:
    workers = sorted(target.workers, key=lambda worker: worker.worker_id)[:_MOST_WORKERS]
    chosen = target.chosen
    links = " ".join(
        f'<a href="{escape(target.address(title, worker))}"'
        f"{' aria-current=true' if worker == chosen else ''}>{worker.worker_id}</a>"
        for worker in workers
    )
    which = "choose the worker"
    if chosen and chosen in workers:
        which = f"worker {chosen.worker_id}, PID {target.values.get('WORKER_PID', 'not known')}"
    return f'<p>For <mark>WORKER_PID</mark>: {which}</p><p class="choice">{links}</p>'


def _placeholders(needed: set[str], missing: str) -> str:
    why = f"There is no server <b>{escape(missing)}</b> now. " if missing else ""
    rows = "".join(f"<li><mark>{name}</mark>: {_meaning(name)}." for name in MEANINGS if name in needed)
    return (
        f"<p>{why}Run commands on the server's host, as root, and replace:</p><ul>{rows}</ul>"
        "<p>To have them filled in, open the runbook from a finding on a server's page.</p>"
    )


def _meaning(name: str) -> str:
    return re.sub("`(.*?)`", r"<code>\1</code>", escape(MEANINGS[name]))


def _page(title: str, target: Target, body: str, *links: tuple[str, str]) -> str:
    named = [("All servers", "/"), *links]
    if target.name:
        named.insert(0, (target.name, live_page.path(target.name)))
    above = " ".join(f'<a href="{escape(address)}">{escape(text)}</a>' for text, address in named)
    return live_page.render_document(
        f"{title} · uwsgi-headroom",
        f"<main class=runbook><nav>{above}</nav>{body}</main>",
        [live_page.url("runbook.css")],
    )
