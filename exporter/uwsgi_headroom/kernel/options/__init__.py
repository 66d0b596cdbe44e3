"""Reads the options of a uWSGI master from its command line and configuration files, as far as they are visible.

The door of the room: `spellings` knows the options' names, `files` how to open the files, `read` uWSGI's order. The
syntax of the files is in `ini_syntax`, because `tune` reads and changes such files too.
"""

from uwsgi_headroom.kernel.options.files import MasterFiles
from uwsgi_headroom.kernel.options.read import read_file_options, read_options
from uwsgi_headroom.kernel.options.spellings import NAMES

__all__ = ["NAMES", "MasterFiles", "read_file_options", "read_options"]
