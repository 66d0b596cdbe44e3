"""The history that lasts: a file with the figures of every server, minute by minute, for two years (SQLite).

`watch/kept_history.py` cuts records; `writer` writes them from its own thread; `file` reads them, in any process.
"""
