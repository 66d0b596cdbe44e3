"""Old requests that go on, by what their threads have written."""

import os
import threading
import time
from types import SimpleNamespace

import msgspec

from tests.kernel.waits.test_sampler import sampler_after
from tests.support.simulated_server import Server
from uwsgi_headroom.kernel.waits import worker_threads
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


def test_the_thread_of_an_old_request_without_stats(monkeypatch):
    """uWSGI numbers its threads. A thread that was idle a moment ago serves no old request, whatever it writes."""
    of, _ = sampler_after(1.0)
    monkeypatch.setattr(of._streams, "find", lambda old, now: old)
    worker = msgspec.structs.replace(Server(processes=1).read(1.0).snapshot.workers[0], serving={0: time.time() - 20})
    threads = SimpleNamespace(all_found=True, threads=[7001, 7002])
    idle_at = {7001: time.monotonic(), 7002: time.monotonic() - 20}
    at = worker_threads.LookedAt(7, None, None, True, worker=worker, threads=threads, locks=None, idle_at=idle_at)
    assert of._find_streams([at], of_kernel=False) == {(1, 0): (7, 7001)}
    assert of._find_streams([at], of_kernel=True) == {(1, 0): (7, 7002)}
    idle_at[7002] = time.monotonic()
    assert of._find_streams([at], of_kernel=True) == {}
