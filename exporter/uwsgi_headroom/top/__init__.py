"""`uwsgi-headroom top`: shows the documents of the API in a terminal, for use over ssh.

Pure functions turn a document into lines (`view`); `feeds` read documents, and `terminal` handles keys and screen.
Rich, from the extra `top`, provides colours and the width of characters. Textual offers more than `top` needs, for four
times the CPU at start and twice the memory.
"""
