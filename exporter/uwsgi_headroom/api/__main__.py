"""`python3 -m uwsgi_headroom.api`: write the description of the API anew."""

from uwsgi_headroom.api.openapi import FILE, text

FILE.write_text(text())
