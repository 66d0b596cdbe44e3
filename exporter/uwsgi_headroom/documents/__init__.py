"""What the faces show of a server, as JSON documents: what is in them, how they come about, and their description.

Keys are the words of the project (README, metrics). Times are in seconds, instants in epoch seconds, sizes in bytes,
parts of a whole from 0 to 1. What is not known is null, and `unknown` says why: never 0. Nothing of a request is in
any of them.
"""
