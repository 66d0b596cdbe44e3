"""Facts asked of the kernel about processes whose pid is proven, and about the sockets they listen on.

What may live here: reading `/proc`, `/sys` and netlink, and nothing else; no uWSGI key, no Prometheus, no
timer. Every function is short and synchronous (it runs on the event loop), never raises because a process
ended or a permission lacks, and says `None` where a fact cannot be had: 0 is a measurement.
"""
