"""`python3 -m uwsgi_headroom.documents`: write the description of the API anew."""

from uwsgi_headroom.documents.openapi import FILE, render

FILE.write_text(render())
