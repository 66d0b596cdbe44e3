"""Hostile and broken stats servers for tests and benchmarks: a table, and a process that runs all of them.

A case is a row: its name, what is at its address, and what the exporter makes of that. `peer` is one connection as the
server has it; `connections`, `bodies` and `http_answers` are what a server does with one; `listeners` and `paths`
are what may be at an address; `cases` has the table; `process` runs it.
"""
