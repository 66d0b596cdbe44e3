"""Prints the completion script for a shell."""

from __future__ import annotations

import sys

from uwsgi_headroom.arguments.commands import DEFAULT_COMMAND, CommandLine
from uwsgi_headroom.completion.bash import render_bash
from uwsgi_headroom.completion.candidates import list_candidates
from uwsgi_headroom.completion.fish import render_fish
from uwsgi_headroom.completion.zsh import render_zsh

_RENDERERS = {"bash": render_bash, "zsh": render_zsh, "fish": render_fish}


def render_script(line: CommandLine, shell: str) -> str:
    """Write the script that completes this command line in a shell, one of `SHELLS`."""
    return _RENDERERS[shell](list_candidates(line), DEFAULT_COMMAND)


def run(line: CommandLine, shell: str) -> int:
    """Print the script. Returns the exit status."""
    sys.stdout.write(render_script(line, shell))
    return 0
