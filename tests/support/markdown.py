"""The Markdown documents of the repository: which there are, and their links, anchors, code and commands."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from tools.environments import ROOT

_NO_SOURCES = {"build", "dist", "node_modules"}
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"`([^`\n]+(?:\n[^`\n]+)?)`")
_LINK = re.compile(r"\]\(\s*<?([^()\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)|(?:href|src)=\"([^\"]+)\"")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_OPERATORS = frozenset("|&;<>()")


class Block(Struct, frozen=True):
    """A fenced block of code. language: as written behind the fence, or empty."""

    language: str
    text: str


def list_documents() -> list[Path]:
    """Every Markdown file of the repository, each once: folders may be links to others."""
    folders = [path for path in ROOT.iterdir() if path.is_dir() and not _is_skipped(path)]
    found = [*ROOT.glob("*.md"), *(path for folder in folders for path in folder.rglob("*.md"))]
    return sorted({path.resolve() for path in found if not any(map(_is_skipped, path.relative_to(ROOT).parents))})


def _is_skipped(folder: Path) -> bool:
    return folder.name.startswith(".") or folder.name in _NO_SOURCES


def name_of(path: Path) -> str:
    """The path within the repository, as a name of a test."""
    return str(path.relative_to(ROOT))


def blocks(text: str) -> list[Block]:
    """The fenced blocks, without their indentation."""
    return [
        Block(language, re.sub(rf"^{indent}", "", body, flags=re.MULTILINE))
        for indent, language, body in _FENCE.findall(text)
    ]


def inline_code(text: str) -> list[str]:
    """What stands between backticks outside of fenced blocks, each on one line."""
    return [" ".join(code.split()) for code in _INLINE.findall(_FENCE.sub("", text))]


def links(text: str) -> list[str]:
    """The targets of links and pictures, those in code left out."""
    prose = _INLINE.sub("", _FENCE.sub("", text))
    return [markdown or html for markdown, html in _LINK.findall(prose)]


def anchors(text: str) -> set[str]:
    """The anchors of the headings, as GitHub makes them."""
    made: list[str] = []
    for heading in _HEADING.findall(_FENCE.sub("", text)):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        made.append(f"{slug}-{made.count(slug)}" if slug in made else slug)
    return set(made)


def commands(text: str) -> Iterator[list[str]]:
    """Every shell command that a document shows, as words: in blocks for a shell or a terminal, and between backticks.

    Of a terminal's block these are the lines behind a prompt. Comments and redirections are left out.
    """
    for block in blocks(text):
        body = block.text.replace("\\\n", " ")
        if block.language == "console":
            body = "\n".join(line[2:] for line in body.splitlines() if line.startswith("$ "))
        elif block.language != "sh":
            continue
        for line in body.splitlines():
            yield from split_commands(line)
    for code in inline_code(text):
        yield from split_commands(code)


def split_commands(line: str) -> Iterator[list[str]]:
    """The commands of a line of shell. Nothing where the line is none (`it's`)."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:
        return
    command: list[str] = []
    redirected = False
    for word in [*words, ";"]:
        if set(word) <= {"<", ">"}:
            redirected = True
        elif not set(word) <= _OPERATORS:
            if not redirected:
                command.append(word)
            redirected = False
        elif command:
            yield command
            command = []
