"""Reads the options of a uWSGI master from its command line and configuration files, as far as they are visible."""

from uwsgi_headroom.kernel.options.files import MasterFiles
from uwsgi_headroom.kernel.options.model import NAMES
from uwsgi_headroom.kernel.options.read import read_options
from uwsgi_headroom.record import DISTRIBUTIONS_FILES, Options

__all__ = ["DISTRIBUTIONS_FILES", "NAMES", "MasterFiles", "Options", "read_options"]
