"""The options that uWSGI's master was started with, as far as they can be read from outside."""

from uwsgi_headroom.kernel.options.files import MasterFiles
from uwsgi_headroom.kernel.options.model import Options
from uwsgi_headroom.kernel.options.read import read_options

__all__ = ["MasterFiles", "Options", "read_options"]
