"""Reads the line of code that each busy thread of a server's workers is in, from the kernel's side of the process.

It stops no process and changes none, and takes the right that waits take. It reads names of functions and files, and
line numbers: no value of a variable.
"""

from uwsgi_headroom.kernel.stacks.looks import look

__all__ = ["look"]
