"""Writes the HTML of the runbooks: a page for each, and their list. Needs no scripts, and has the page's style."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from urllib.parse import urlencode

from uwsgi_headroom.web import assets, page_html
from uwsgi_headroom.web.runbook_markdown import Runbook, Style, render_blocks, render_inline
from uwsgi_headroom.web.runbook_placeholders import MEANINGS, fill_code, used_placeholders
from uwsgi_headroom.web.runbook_values import Target

_MOST_WORKERS = 64
"""Most workers to choose from: a longer list would hide the runbook."""


def render_list(runbooks: Mapping[str, Runbook], target: Target | None) -> str:
    """Write the list of runbooks, by name, each with its summary."""
    style = _style(target)
    items = "".join(
        f'<li><a href="{escape(_address(name, target))}">{escape(name)}</a>'
        f"<p>{render_inline(runbook.summary, style)}</p>"
        for name, runbook in runbooks.items()
    )
    return _page("Runbooks", f'{_navigation(target)}<h1>Runbooks</h1><ul class="list">{items}</ul>')


def render_runbook(runbook: Runbook, target: Target | None, missing: str = "") -> str:
    """Write a runbook, for a server if given. missing: the name of a requested server that does not exist."""
    style = _style(target)
    needed = used_placeholders(runbook.body)
    return _page(
        runbook.title,
        f"{_navigation(target, runbook.title)}<h1>{escape(runbook.title)}</h1>"
        f'<p class="summary">{render_inline(runbook.summary, style)}</p>'
        + (_describe(target, needed, runbook.title) if target else _placeholders(needed, missing))
        + render_blocks(runbook.body, style)
        + f'<footer><a href="/runbooks/{escape(runbook.title)}.md">This runbook as text</a></footer>',
    )


def _style(target: Target | None) -> Style:
    values = target.values if target else {}
    return Style(
        code=lambda code, language: fill_code(code, language, values), address=lambda name: _address(name, target)
    )


def _address(name: str, target: Target | None, worker: int | None = None) -> str:
    """Return the URL of a runbook, or of the list if the name is empty, for the same server and worker."""
    if target is None:
        return f"/runbooks/{name}"
    chosen = target.chosen if worker is None else worker
    query = {"server": target.name, **({} if chosen is None else {"worker": str(chosen)})}
    return f"/runbooks/{name}?{urlencode(query)}"


def _navigation(target: Target | None, title: str = "") -> str:
    links = [(page_html.path(target.name), target.name)] if target else []
    links.append(("/", "All servers"))
    links += [(_address("", target), "All runbooks")] if title else []
    return "<nav>" + " ".join(f'<a href="{escape(address)}">{escape(text)}</a>' for address, text in links) + "</nav>"


def _describe(target: Target, needed: set[str], title: str) -> str:
    """Write the server of the commands, the placeholders without a value, and the workers to choose from."""
    unknown = sorted(needed - target.values.keys() - ({"WORKER_PID"} if target.workers else set()))
    missing = "".join(f"<li><mark>{name}</mark>: {_meaning(name)}; not known here." for name in unknown)
    return (
        f'<section class="target"><p>Commands are filled in for <b>{escape(target.name)}</b>. '
        f"Run them on its host, as root.</p>"
        + (_choice(target, title) if "WORKER_PID" in needed and target.workers else "")
        + (f"<p>Fill in yourself:</p><ul>{missing}</ul>" if missing else "")
        + "</section>"
    )


def _choice(target: Target, title: str) -> str:
    workers = sorted(target.workers, key=lambda worker: worker.worker_id)[:_MOST_WORKERS]
    links = " ".join(
        f'<a href="{escape(_address(title, target, worker.worker_id))}"'
        f"{' aria-current=true' if worker.worker_id == target.chosen else ''}>{worker.worker_id}</a>"
        for worker in workers
    )
    chosen = next((worker for worker in workers if worker.worker_id == target.chosen), None)
    which = f"worker {chosen.worker_id}, PID {chosen.pid}" if chosen else "choose the worker"
    return f'<p>For <mark>WORKER_PID</mark>: {which}</p><p class="choice">{links}</p>'


def _placeholders(needed: set[str], missing: str) -> str:
    """Write the placeholders that the reader must fill in, and why."""
    why = f"There is no server <b>{escape(missing)}</b> now. " if missing else ""
    rows = "".join(f"<li><mark>{name}</mark>: {_meaning(name)}." for name in MEANINGS if name in needed)
    return (
        f'<section class="target"><p>{why}Run commands on the server\'s host, as root, and replace:</p><ul>{rows}</ul>'
        "<p>To have them filled in, open the runbook from a finding on a server's page.</p></section>"
    )


def _meaning(name: str) -> str:
    return render_inline(MEANINGS[name], Style(code=lambda code, _language: escape(code), address=str))


def _page(title: str, body: str) -> str:
    return page_html.render_document(
        f"{escape(title)} · uwsgi-headroom", f"<main class=runbook>{body}</main>", [assets.url("runbook.css")]
    )
