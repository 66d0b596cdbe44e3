"""Runs shells in a terminal with this program's completion: sends keys, and reads what the shell completes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests.support.driven_top import Driven, driven

PROMPT = "ready>"

_COMMANDS = {
    "bash": ("bash", "--noprofile", "--norc", "-i"),
    "zsh": ("zsh", "-f", "-i"),
    "fish": ("fish", "--no-config", "-i"),
}
_BEGIN = {
    "bash": "bind 'set show-all-if-ambiguous on'; bind 'set completion-query-items 0'; PS1={prompt}; source {script}",
    "zsh": "PROMPT={prompt}; autoload -Uz compinit; compinit -u -D; zstyle ':completion:*' menu no; source {script}",
    "fish": "function fish_prompt; echo -n {prompt}; end; source {script}",
}


@contextlib.contextmanager
def completing_shell(shell: str, script: Path) -> Iterator[Driven]:
    """Runs an interactive shell with a completion script until the block ends."""
    with driven(command=_COMMANDS[shell], columns=150, lines=50, HOME=str(script.parent), PS1="") as terminal:
        # The shell assembles the prompt from parts, so that the echo of this line does not look like a prompt.
        prompt = f"{PROMPT[:2]}''{PROMPT[2:-1]}'>'"
        terminal.press(_BEGIN[shell].format(prompt=prompt, script=script) + "\r")
        terminal.wait(lambda text: text.splitlines() and PROMPT in text)
        yield terminal
