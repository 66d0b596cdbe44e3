"""A procfs of one process with a root directory of its own, to read options from."""

from collections.abc import Mapping
from pathlib import Path

from tests.kernel.trees import write_files
from uwsgi_headroom.kernel.options import read_options
from uwsgi_headroom.record import Options

PID = 7
CWD = "/srv"


def make_tree(where: Path, *words: str, files: Mapping[str, str] | None = None) -> Path:
    """A `/proc` in which process PID has these words as its command line. files: by absolute path in its root."""
    proc, root = where / "proc", where / "root"
    (proc / str(PID)).mkdir(parents=True)
    (proc / str(PID) / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in words))
    (proc / str(PID) / "cwd").symlink_to(CWD)
    (proc / str(PID) / "root").symlink_to(root)
    (root / CWD[1:]).mkdir(parents=True)
    write_files(root, {name[1:]: text for name, text in (files or {}).items()})
    return proc


def options_of(where: Path, *words: str, files: Mapping[str, str] | None = None) -> Options:
    return read_options(PID, proc=make_tree(where, "/usr/bin/uwsgi", *words, files=files))


def set_in(options: Options) -> dict[str, object]:
    return {name: getattr(options, name) for name in options.source}
