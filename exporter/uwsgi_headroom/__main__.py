"""`python3 -m uwsgi_headroom`."""

from uwsgi_headroom.cli import main

raise SystemExit(main())
