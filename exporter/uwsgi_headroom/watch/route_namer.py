"""Names the routes in service in the documents of one server."""

from __future__ import annotations

from uwsgi_headroom.routes.book import RouteBook
from uwsgi_headroom.routes.served import ServedRoutes
from uwsgi_headroom.routes.shape import OTHER
from uwsgi_headroom.routes.templates import Templates
from uwsgi_headroom.stats import AnySnapshot, Snapshot


class RouteNamer:
    """The routes of one server. templates: those that its documents are decoded with."""

    def __init__(self, templates: Templates) -> None:
        self.templates = templates
        self._book = RouteBook()

    def find_routes(self, snapshot: AnySnapshot, at: float) -> ServedRoutes | None:
        """Return the routes in service in a document that was read at the monotonic time `at`; None for an emperor, a
        router, or a server that does not list its threads."""
        if not isinstance(snapshot, Snapshot) or not any(worker.threads for worker in snapshot.workers):
            return None
        workers = [worker for worker in snapshot.workers if worker.serving]
        found = self._book.find_numbers((shape for worker in workers for shape in worker.shapes.values()), at)
        return ServedRoutes(
            names=self._book.names,
            generations=self._book.generations,
            numbers={
                worker.worker_id: {thread: found.get(worker.shapes.get(thread, OTHER), 0) for thread in worker.serving}
                for worker in workers
            },
        )
