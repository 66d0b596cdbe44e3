"""Address to bytes. Nothing here knows JSON or uWSGI's keys; what comes back is what was on the wire.

The rules of a reader that never hurts the server it watches (uWSGI's master writes the document with a blocking
write, and does nothing else meanwhile): receive at once, to the end, as fast as it comes; send nothing to a raw
server; close at the deadline and at the size cap, whatever happens.
"""

from uwsgi_headroom.source.address import Address, File, Http, Tcp, Unix, parse_address
from uwsgi_headroom.source.answer import Answer
from uwsgi_headroom.source.read import read_document

__all__ = ["Address", "Answer", "File", "Http", "Tcp", "Unix", "parse_address", "read_document"]
