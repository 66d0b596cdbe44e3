"""Bounds of routes: no client can make them take more memory, time or series, whatever it requests.

They stand together, apart from their uses, because docs/safety.md lists them.
"""

LONGEST_PATH = 1024
"""The most bytes of a path; a longer one is `other`."""

MOST_SEGMENTS = 8
"""The most segments of a path; one with more is `other`."""

LONGEST_NAME = 32
"""The most characters of a segment that is shown. Longer ones are titles or tokens."""

MOST_PATHS = 2000
"""The most different paths in one document that are reduced to a shape, which takes up to 40 microseconds each.
Requests with further ones are `other`."""

SIGHTINGS = 3
"""In how many samples a path must have been seen before it is named."""

MOST_ROUTES = 50
"""The most routes besides `other`: each is a time series."""

MOST_VALUES = 20
"""The most names of one segment. If one more would be named there, all become `{any}`."""

MOST_TEMPLATES = 50
"""The most templates in the configuration."""

FORGET_SECONDS = 3600
"""After this time, in seconds, a name or route that was not seen is forgotten when another one needs its place. The
history is as long."""

MOST_NODES = 1000
"""The most places in the tree of named paths of one server."""

MOST_CANDIDATES = 500
"""The most paths of one server that wait for their name. The one that was not seen for longest gives way."""

MOST_SIGHTED = 100
"""The most paths without a name that are counted in one sample, which takes some 20 microseconds each."""
