"""The Markdown of runbooks becomes HTML; unknown Markdown is refused."""

from __future__ import annotations

from html import escape

import pytest

from tools.environments import ROOT
from uwsgi_headroom.web.runbook_markdown import Style, UnknownMarkdownError, render_blocks, render_inline, split_runbook

STYLE = Style(code=lambda code, _language: escape(code), address=lambda name: f"/r/{name}")


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("One line\nand another & more.", "<p>One line and another &amp; more.</p>"),
        ("## Verify", "<h2>Verify</h2>"),
        ("Set `a < b`.", "<p>Set <code>a &lt; b</code>.</p>"),
        ("See [it](UwsgiDown.md).", '<p>See <a href="/r/UwsgiDown">it</a>.</p>'),
        ("* a\n  b\n* c", "<ul><li><p>a b</p><li><p>c</p></ul>"),
        (
            "1. a\n\n   ```sh\n   x | y\n   ```\n\n2. b",
            '<ol><li><p>a</p><pre class="sh"><code>x | y</code></pre><li><p>b</p></ol>',
        ),
        ("```promql\nup\n\ndown\n```", '<pre class="promql"><code>up</code>\n<code></code>\n<code>down</code></pre>'),
        ("| a | b |\n|---|---|\n| `c` | d |", "<table><thead><tr><th>a<th>b<tbody><tr><td><code>c</code><td>d</table>"),
        ("a\n\nb", "<p>a</p><p>b</p>"),
    ],
)
def test_what_runbooks_use_is_rendered(text: str, html: str) -> None:
    """Each construct is rendered, and no text is parsed as HTML."""
    assert render_blocks(text, STYLE) == html


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "a <b>",
        "**bold**",
        "_it_",
        "a [link](https://example.com/)",
        "a [link](javascript:alert)",
        "![x](UwsgiDown.md)",
        "> quote",
        "# title",
        "### deeper",
        "- item",
        "    indented code",
        "```python\nx\n```",
        "```sh\nx",
        "| a | b |\n|---|---|\n| c |",
        "| a |\nno rule",
        "see https://example.com",
        "a ` b",
        "a \\ b",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    """Other Markdown is refused, so that a test of the runbooks finds it before a reader does."""
    with pytest.raises(UnknownMarkdownError):
        render_blocks(text, STYLE)


def test_code_is_left_to_the_style() -> None:
    """Code is passed on with its language, which decides how values are escaped."""
    style = Style(code=lambda code, language: f"{language}:{code}", address=str)
    assert render_blocks("```sh\nls\n```", style) == '<pre class="sh"><code>sh:ls</code></pre>'
    assert render_inline("`up`", style) == "<code>:up</code>"


@pytest.mark.parametrize("book", sorted((ROOT / "alerts" / "runbooks").glob("*.md")), ids=lambda book: book.stem)
def test_every_runbook_can_be_rendered(book) -> None:
    """Every part of every runbook can be rendered."""
    runbook = split_runbook(book.read_text())
    assert runbook.title == book.stem
    assert render_inline(runbook.summary, STYLE)
    assert render_blocks(runbook.body, STYLE).count("<h2>") == 3


def test_a_file_that_is_no_runbook_is_refused() -> None:
    """A runbook without a summary is refused."""
    with pytest.raises(UnknownMarkdownError, match="not a runbook"):
        split_runbook("# A\n\n## b\n\nc")
