"""Reads the options of a uWSGI master from its command line and configuration files, as far as they are visible.

The door of the room: `files` knows how to open the files, `read` uWSGI's order and the options' names. The
syntax of the files is in `ini_syntax`, because `tune` reads and changes such files too.
"""

from uwsgi_headroom.kernel.options.files import MasterFiles
from uwsgi_headroom.kernel.options.read import NAMES, read_file_options, read_options

__all__ = ["NAMES", "MasterFiles", "read_file_options", "read_options"]
