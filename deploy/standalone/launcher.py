"""The entry point of the one-file program."""

import sys

from uwsgi_headroom.__main__ import main

sys.exit(main())
