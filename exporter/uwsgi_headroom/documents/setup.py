"""Builds the section about a server's configuration."""

from __future__ import annotations

from uwsgi_headroom.documents import schema
from uwsgi_headroom.kernel.options.model import NAMES
from uwsgi_headroom.record.setup import Setup


def build_setup(known: Setup) -> schema.Setup:
    """Build the section: options by uWSGI's names, each with its source; other fields unchanged."""
    options = known.options
    return schema.Setup(
        options={
            name: schema.Option(value=getattr(options, field), source=options.source[field])
            for field, name in NAMES.items()
            if field in options.source
        },
        options_complete=options.complete,
        options_changed=options.changed,
        somaxconn=known.somaxconn,
        concurrency_kind=known.concurrency_kind,
        socket_holders=None if known.socket_holders is None else dict(known.socket_holders),
        mapped=known.mapped,
    )
