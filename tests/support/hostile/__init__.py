"""Hostile and broken stats servers for tests and benchmarks: a table, and a process that runs all of them.

A case is a row: its name, its address, and the state that the exporter must report. `peer` is the server's side of a
connection; `connections`, `bodies` and `http_answers` define what a server sends; `listeners` and `paths` create what
is at an address; `cases` has the table; `process` runs it.
"""
