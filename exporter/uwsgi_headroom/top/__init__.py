"""`uwsgi-headroom top`: the documents of the API on a terminal, for whoever has nothing but ssh.

What is shown is made by pure functions from a document to lines (`screen` and what it puts together); reading documents
(`feed`) and the terminal (`terminal`) are at the ends. Rich, of the extra `top`, knows colours and the width of
characters. Not Textual: it takes a second to start and owns the event loop's writes, where a terminal that takes nothing
(a slow line, Ctrl-S) must never keep a read of uWSGI's stats waiting.
"""
