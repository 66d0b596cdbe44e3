"""Links lead somewhere, and every claim about safety to a test."""

import importlib.util
import re
import urllib.parse

import pytest
import yaml

from app.scenes import SCENES
from tests.support.markdown import (
    anchors,
    blocks,
    commands,
    inline_code,
    links,
    list_documents,
    name_of,
    split_commands,
)
from tools.environments import ROOT
from tools.examples import DOCUMENT, EXAMPLES, form, run_all, run_example
from uwsgi_headroom.arguments.commands import PROGRAM, make_command_line
from uwsgi_headroom.arguments.parser import UsageError
from uwsgi_headroom.config.yaml_file import load_file

DOCUMENTS = list_documents()
FOLDERS = ("alerts", "app", "dashboards", "deploy", "docs", "exporter", "tests", "tools")
ENDINGS = {".py", ".js", ".yaml", ".yml", ".service", ".tmpl"}
SOURCES = [
    ROOT / "Makefile",
    ROOT / "CHANGELOG.md",
    *(ROOT / "alerts" / "runbooks").glob("*.md"),
    *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in ENDINGS and path.is_file()),
]

_PATH = re.compile(rf"(?:{'|'.join(FOLDERS)})/[\w./*-]+")
_DOCUMENT = re.compile(r"\b(?:docs|alerts|dashboards|deploy)/[\w./-]*\.md\b")


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_relative_links_lead_somewhere(path):
    """To a file or a folder, and where the link names an anchor, to a heading of that document."""
    for target, _, anchor in [urllib.parse.unquote(link).partition("#") for link in links(path.read_text())]:
        file = (path.parent / target).resolve() if target else path
        if not re.match(r"[a-z]+:", target):
            assert file.exists(), target
            assert not anchor or anchor in anchors(file.read_text()), f"{target}#{anchor}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_rows_are_in_a_table(path):
    """An empty line ends a table: rows after it are shown as they are written."""
    assert not re.findall(r"(?m)^\|.*\|\n\n+(?=\|.*\|\n(?!\|[-| :]+\|$))", path.read_text())


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_paths_in_code_exist(path):
    named = [code for code in inline_code(path.read_text()) if _PATH.fullmatch(code)]
    assert [code for code in named if not list(ROOT.glob(code.rstrip("/")))] == []


def test_documents_are_where_they_are_looked_for():
    named = {(name, name_of(path)) for path in SOURCES for name in _DOCUMENT.findall(path.read_text())}
    assert named
    assert sorted((name, where) for name, where in named if not (ROOT / name).is_file()) == []
    for folder, index in ((ROOT / "docs", "start.md"), (ROOT / "docs" / "dev", "design.md")):
        linked = {link.partition("#")[0] for link in links((folder / index).read_text())}
        assert {path.name for path in folder.glob("*.md")} - {index} <= linked


def test_the_readme_is_a_first_screen():
    text = (ROOT / "README.md").read_text()
    assert (len(text.splitlines()) <= 110, len(text.split()) <= 900, len(links(text)) <= 25) == (True,) * 3
    assert len(list((ROOT / "docs").glob("*.md"))) <= 28


def test_what_the_test_reads():
    """Anchors are those that GitHub makes. Links, pictures and HTML are links, but not in code."""
    text = "# A `b`, c\n\n```sh\n# no heading\n```\n## [Link](x.md): d-e_f\n## Twice\n## Twice\n"
    assert anchors(text) == {"a-b-c", "link-d-e_f", "twice", "twice-1"}
    text = '[a](b.md#c) ![d](e.png "f") [![g](h.png)](i.md) `[j](k.md)`\n```\n[l](m.md)\n```\n<a href="n.md">\n'
    assert links(text) == ["b.md#c", "e.png", "h.png", "i.md", "n.md"]


def test_every_claim_names_a_test():
    """Each row of the tables of attackers has a test, or leads to the chapter that names them."""
    text = (ROOT / "SECURITY.md").read_text()
    assert len(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)) > 30
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| can try")]
    assert len(rows) > 15
    for row in rows:
        assert "`tests/" in row or "docs/security.md#tls-and-login" in row, row


TRIES = 2


@pytest.fixture(scope="module")
def printed():
    """What each prints now; they run at the same time."""
    return run_all()


@pytest.mark.integration
def test_every_block_is_an_example():
    """No output in the document was typed: each stands between the marks of an example that is run."""
    text = DOCUMENT.read_text()
    marked = re.findall(r"^<!-- example (\S+) -->\n```console\n(.*?)```\n<!-- /example \1 -->$", text, re.M | re.S)
    assert [name for name, _ in marked] == [example.name for example in EXAMPLES]
    assert text.count("```console") == len(marked)


@pytest.mark.integration
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_it_prints_what_the_document_shows(example, printed):
    """The same words in the same order. If they changed: `.venv/bin/python -m tools.examples` writes them anew."""
    section = DOCUMENT.read_text().partition(f"<!-- example {example.name} -->")[2].partition("<!-- /")[0]
    command, _, shown = section.partition("```console\n")[2].rpartition("```")[0].partition("\n")
    assert command == f"$ {example.shown}"
    now = printed[example.name]
    for _ in range(TRIES):
        if form(now) == form(shown):
            return
        now = run_example(example)  # alone: on a busy machine, too few samples may have shown what requests wait for
    assert form(now) == form(shown)


@pytest.mark.integration
def test_forms():
    """Figures, bars and line breaks do not count; words do."""
    first = "time   1,249 ms per request: 204 ms postgres,\n   under 3.5 s lock; 8x4 >100x 83 % ███▉ 32.7/s"
    second = "time   2.1 s per request: 1 ms postgres, under 9 ms lock; 16x2 1.0x\n   7 % █ 9/s"
    assert form(first) == form(second)
    assert form("1.0 of 4 threads") != form("1.0 of 4 lock")


ABOUT_THE_PROGRAM = [
    ROOT / "README.md",
    *(ROOT / "docs" / f"{name}.md" for name in ("api", "check", "configuration", "page")),
]
"""Where a flag on its own is one of this program."""

COMMANDS = make_command_line().commands
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
SCENE_NAMES = {scene.name for scene in SCENES} | {"list", "..."}


def arguments_of_program(words):
    """The arguments, if this is a command of this program: by its name, by a path, or by the command alone with a flag
    (`check --all`)."""
    program, *rest = words
    if program.rpartition("/")[2] == PROGRAM:
        return rest
    return words if program in COMMANDS and any(word.startswith("--") for word in rest) else None


def shown_arguments(text):
    found = map(arguments_of_program, commands(text))
    return [arguments for arguments in found if arguments is not None]


def refusal(arguments):
    """Why the command line does not understand these arguments; empty if it does."""
    try:
        make_command_line().parse(arguments)
    except UsageError as error:
        return str(error)
    except SystemExit as ended:  # it has printed its help or its version
        return f"it ended with {ended.code}" if ended.code else ""
    return ""


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_commands_are_understood(path):
    shown = shown_arguments(path.read_text())
    assert {" ".join(arguments): problem for arguments in shown if (problem := refusal(arguments))} == {}


@pytest.mark.parametrize("path", ABOUT_THE_PROGRAM, ids=name_of)
def test_flags_exist(path):
    known = {flag for parser in COMMANDS.values() for flag in parser.options}
    named = {code.split()[0].replace("[no-]", "") for code in inline_code(path.read_text()) if code.startswith("--")}
    assert named <= known


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_targets_of_make_exist(path):
    text = re.sub(r"\*`[^`]*`\*", "", path.read_text())  # in italics: of an earlier commit
    words = [word for command in commands(text) if command[0] == "make" for word in command[1:]]
    assert {word for word in words if re.fullmatch(r"[a-z-]+", word)} <= TARGETS
    assert {word.removeprefix("SCENE=") for word in words if word.startswith("SCENE=")} <= SCENE_NAMES


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_modules_exist(path):
    for command in commands(path.read_text()):
        if re.fullmatch(r"python(3(\.\d+)?)?", command[0].rpartition("/")[2]) and "-m" in command:
            module = command[command.index("-m") + 1]
            assert importlib.util.find_spec(module), module


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_yaml_can_be_read(path, tmp_path):
    """Every block of YAML; one for `uwsgi-headroom --config` by the program itself."""
    for block in blocks(path.read_text()):
        if block.language != "yaml":
            continue
        assert isinstance(yaml.safe_load(block.text), dict)
        if block.text.startswith(f"# {PROGRAM} --config"):
            file = tmp_path / "config.yml"
            file.write_text(block.text)
            assert load_file(file).servers


def test_what_the_test_of_commands_reads():
    """Commands in blocks and between backticks are found, whatever stands before, behind and around them."""
    text = """
```sh
cd x && uwsgi-headroom --stats a=/b --min-headroom 2:1.2 \\
  --config c   # it is
uwsgi-headroom completion bash > d
```
```console
$ uwsgi-headroom check /e | head
--nonsense
```
`~/f/uwsgi-headroom top --once`, `check --all`, `top` and it's
"""
    found = shown_arguments(text)
    assert found == [
        ["--stats", "a=/b", "--min-headroom", "2:1.2", "--config", "c"],
        ["completion", "bash"],
        ["check", "/e"],
        ["top", "--once"],
        ["check", "--all"],
    ]
    assert [refusal(arguments) for arguments in found[1:]] == [""] * 4
    assert "--min-headroom" in refusal(found[0])
    assert "--nonsense" in refusal(["check", "/a", "--nonsense"])
    assert list(split_commands("systemctl edit uwsgi-headroom")) == [["systemctl", "edit", "uwsgi-headroom"]]


def test_every_command_is_shown_somewhere():
    found = [arguments for path in DOCUMENTS for arguments in shown_arguments(path.read_text())]
    shown = {arguments[0] for arguments in found if arguments and arguments[0] in COMMANDS}
    assert shown == set(COMMANDS)
