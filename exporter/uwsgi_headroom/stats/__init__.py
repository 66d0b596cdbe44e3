"""Bytes of a stats server to frozen data. The only package that knows uWSGI's key names and units.

Rules that live here, each measured on real uWSGI:

* A key that some uWSGI leaves out is optional; an absent figure is None, never 0. Unknown keys are skipped.
* Request variables (`cores[].vars`) hold headers, cookies and addresses of whoever is being served. No type here
  has a field for them, so the decoder steps over them without ever building a string.
* Whoever sends a request chooses bytes of those variables. uWSGI passes invalid UTF-8 and raw control characters
  through, so a document that is not strict JSON is mended once and read again before it is refused.
* Counters are unsigned in uWSGI. A negative one, or one past 2**63, is no count and refuses the document.
"""

from uwsgi_headroom.stats.decoder import AnySnapshot, decode
from uwsgi_headroom.stats.emperor_router import EmperorSnapshot, RouterSnapshot
from uwsgi_headroom.stats.server import Snapshot

__all__ = ["AnySnapshot", "EmperorSnapshot", "RouterSnapshot", "Snapshot", "decode"]
