"""Hostile and broken stats servers for tests and benchmarks: a table of cases, and a process that runs all of them.

`bodies` has documents, `servers` what a server does on a connection and what is at its address, `cases` the table.
"""
