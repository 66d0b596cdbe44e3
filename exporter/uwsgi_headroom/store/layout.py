"""Records as blobs of whole numbers.

All figures of a record are growths over its time, differences of totals, so their numbers are small: a minute of a
server with 8 workers takes some 500 bytes. Times are stored in units of 0.1 ms, expected numbers of requests in
hundredths. Texts (names of sockets, backends and routes) are stored elsewhere, and by their number here. Unknown is 0;
what can be unknown is stored plus 1, or minus 1 if it is negative.
"""

from __future__ import annotations

from uwsgi_headroom.history.totals import OCCUPANCY_BOUNDS

LAYOUT = 1
"""The first number of a record. A change of anything below, or of the order of figures, needs another one."""

TICKS = 10_000
"""Units of time in a second."""

PARTS = 100
"""Units of an expected request."""

RATIO = 1_000_000
"""Units of a whole, for objectives."""

LEVELS = len(OCCUPANCY_BOUNDS) + 1
