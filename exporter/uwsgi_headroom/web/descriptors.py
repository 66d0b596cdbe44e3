"""Shares out the descriptors that the process may open between the HTTP server and the rest.

An excess connection must be accepted before it can be closed, and a closed one keeps its descriptor for another turn of
the event loop. So about four times those accepted at once can be open beside the connections that are kept.
"""

from __future__ import annotations

import logging
import resource
from dataclasses import dataclass

from uwsgi_headroom.web import bounds

_LEAST_CONNECTIONS, _LEAST_ACCEPTS = 4, 2

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Capacity:
    """Numbers of connections kept open, of connections that are accepted at once, and of event streams."""

    connections: int
    accepts: int

    @property
    def streams(self) -> int:
        return min(bounds.MOST_STREAMS, self.connections // 2)


def raise_soft_limit() -> int:
    """Raise the soft limit of open descriptors towards the hard limit; return the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = bounds.MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, bounds.MOST_DESCRIPTORS)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def share_out(limit: int, servers: int, listeners: int) -> Capacity:
    """Compute the HTTP server's share of `limit` descriptors. Of those that servers, listeners and the process itself
    leave, half are for connections, and a third for connections about to be accepted or closed. The rest is for servers
    that globs find later."""
    needed = bounds.OWN_DESCRIPTORS + bounds.DESCRIPTORS_PER_SERVER * servers + listeners
    spare = limit - needed
    connections = max(_LEAST_CONNECTIONS, min(bounds.MOST_CONNECTIONS, spare // 2))
    accepts = max(_LEAST_ACCEPTS, min(bounds.ACCEPTS_IN_A_TURN, spare // 12))
    if connections < bounds.MOST_CONNECTIONS:
        fields = {"limit": limit, "connections": connections}
        _log.warning("few descriptors: raise the hard limit (ulimit -n, LimitNOFILE=)", extra={"fields": fields})
    return Capacity(connections, accepts)
