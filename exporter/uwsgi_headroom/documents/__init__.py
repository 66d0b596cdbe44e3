"""JSON documents about servers: the data that the API serves and that the page, `check` and `top` show.

Keys use the terms of docs/glossary.md and of the metrics. Durations are in seconds, instants in epoch seconds, sizes
in bytes, shares from 0 to 1. An unknown value is null, never 0, and `unknown` gives the reason. No document contains
any data of a request.
"""
