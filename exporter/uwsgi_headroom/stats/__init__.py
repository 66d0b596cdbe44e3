"""Decodes the bytes of a stats server into frozen data. The only package that knows uWSGI's key names and units.

Rules of this package, each measured on real uWSGI:

* A key that some uWSGI versions or configurations omit is optional; an absent figure is None, never 0. Unknown keys
  are skipped.
* Request variables (`cores[].vars`) hold the headers, cookies and addresses of clients. Unless routes are on, no type
  that is decoded has a field for them, so the decoder skips them. If routes are on, they stay the document's bytes, and
  only the method and the path are cut out of them; the path is reduced to a shape at once.
* Clients choose the bytes of request variables. uWSGI passes on invalid UTF-8 and raw control characters, so a
  document that is not strict JSON is repaired and decoded once more before it is refused.
* Counters are unsigned in uWSGI. A document with a negative counter, or one above 2**63 - 1, is refused.
"""

from uwsgi_headroom.stats.decoder import AnySnapshot, decode
from uwsgi_headroom.stats.raw import COUNTER, Cache, Cron, EmperorSnapshot, Legion, RouterSnapshot
from uwsgi_headroom.stats.server import Snapshot

__all__ = [
    "COUNTER",
    "AnySnapshot",
    "Cache",
    "Cron",
    "EmperorSnapshot",
    "Legion",
    "RouterSnapshot",
    "Snapshot",
    "decode",
]
