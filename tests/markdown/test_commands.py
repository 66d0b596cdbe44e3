"""Commands and configuration that documents show are understood by what they are for."""

import importlib.util
import re

import pytest
import yaml

from app.scenes import SCENES
from tests.support.markdown import blocks, commands, inline_code, list_documents, name_of, split_commands
from tools.environments import ROOT
from uwsgi_headroom.arguments.commands import PROGRAM, make_command_line
from uwsgi_headroom.arguments.parser import UsageError
from uwsgi_headroom.config.yaml_file import load_file

DOCUMENTS = list_documents()
ABOUT_THE_PROGRAM = [
    ROOT / "README.md",
    *(ROOT / "docs" / f"{name}.md" for name in ("api", "check", "configuration", "metrics", "page", "top")),
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


def test_what_the_test_reads():
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
