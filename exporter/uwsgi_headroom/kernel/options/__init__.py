"""Reads the options of a uWSGI master from its command line and configuration files, as far as they are visible."""

from uwsgi_headroom.kernel.options.files import MasterFiles
from uwsgi_headroom.kernel.options.model import Options
from uwsgi_headroom.kernel.options.read import read_options

__all__ = ["MasterFiles", "Options", "read_options"]
