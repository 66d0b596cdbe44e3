"""Turns the method and path of requests in service into routes, such as `POST /orders/{id}`. Opt-in.

A path is other people's data. Rules of this package:

* Only a method and a path come in. `shape` drops what identifies a person, a record or a session, before anything is
  kept; only its result is stored.
* Only segments that read like names survive, and only once they were seen in several samples (`book`).
* The number of routes, segments and values is bounded, whatever clients request.
"""
