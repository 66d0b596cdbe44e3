"""`uwsgi-headroom check`: watches servers for a while, then prints a verdict, for a person on call or a machine.

The exit status follows the convention of Nagios plugins: 0 ok, 1 warning, 2 critical, 3 unknown.
"""
