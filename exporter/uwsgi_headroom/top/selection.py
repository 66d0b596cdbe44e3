"""Keeps a server selected as servers come and go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from uwsgi_headroom.top.model import Key
from uwsgi_headroom.top.navigation import LISTS, Navigation


def select_server(
    navigation: Navigation, listed: Sequence[Key], shown: Sequence[Key], *, complete: bool = True
) -> Navigation:
    """Return the state with an existing server selected.

    listed: all servers; shown: those that match the filter, in the order of the list. Until a person selects a server,
    the first one in the list is selected. A single server is opened once the list is complete. A selected server stays
    selected until its feed has listed its servers.
    """
    server = navigation.server
    if not navigation.chosen and complete and len(listed) == 1 and navigation.view == "servers":
        return replace(navigation, server=listed[0], chosen=True, view="workers")
    if navigation.view in LISTS:
        if navigation.chosen and server in shown:
            return navigation
        return replace(navigation, server=shown[0] if shown else None, chosen=False)
    if server is None or server in listed or not any(key[0] == server[0] for key in listed):
        return navigation
    return replace(navigation, server=shown[0] if shown else None, chosen=False, view=navigation.home, first=0)
