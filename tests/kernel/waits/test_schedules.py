"""Old requests that go on, by what their threads have written."""

import os
import threading

from uwsgi_headroom.kernel.waits.schedules import Streams


def test_a_thread_that_still_writes():
    """A request goes on if its thread has written something in the last 30 s; one that never does is stuck."""
    streams, own = Streams(), {"own": (os.getpid(), threading.get_native_id()), "ended": (os.getpid(), 1 << 22)}
    with open(os.devnull, "wb", buffering=0) as file:
        assert streams.find(own, 100.0) == ()
        assert streams.find(own, 101.0) == (), "nothing is known of what it wrote before"
        file.write(b"data: x\n\n")
        assert streams.find(own, 101.5) == (), "it looks once a second"
        assert streams.find(own, 102.0) == ("own",)
    assert streams.find(own, 131.0) == ("own",)
    assert streams.find(own, 132.0) == ()
    assert streams.find({}, 133.0) == ()
