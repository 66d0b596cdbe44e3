"""`uwsgi-headroom top`: the documents of the API on a terminal, for whoever has nothing but ssh.

What is shown is made by pure functions from a document to lines (`view`); reading documents
(`feeds`) and the terminal (`terminal`) are at the ends. Rich, of the extra `top`, knows colours and the width of
characters. Textual would do more than is needed, from a vt100 up, for four times the CPU to start and twice the memory.
"""
