"""`uwsgi-headroom check`: watch a server for a while, then say how it is, for a person on call or a machine.

The exit status follows the convention of Nagios plugins: 0 fine, 1 warning, 2 critical, 3 not judged.
"""
