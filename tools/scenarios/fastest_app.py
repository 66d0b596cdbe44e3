"""The fastest application of the scenarios: it answers with a head alone."""


def application(environ, start_response):  # type: ignore[no-untyped-def]
    start_response("204 No Content", [])
    return []
