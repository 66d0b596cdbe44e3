"""Reads the options of a uWSGI master from its command line and configuration files, as far as they are visible.

The door of the room: `ini` knows the files' syntax, `spellings` the options' names, `files` how to open them, `read`
uWSGI's order.
"""

from uwsgi_headroom.kernel.options.files import MasterFiles
from uwsgi_headroom.kernel.options.read import read_options
from uwsgi_headroom.kernel.options.spellings import NAMES

__all__ = ["NAMES", "MasterFiles", "read_options"]
