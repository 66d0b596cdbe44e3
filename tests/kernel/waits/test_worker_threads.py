"""Request threads among the other threads of real processes, and old requests whose threads go on."""

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import msgspec

from tests.kernel.waits.test_sampler import READ, of_x86_64, sampled, sampler_after
from tests.support.real_uwsgi import wait_until
from tests.support.simulated_server import MovableClock, Server
from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.waits import worker_threads
from uwsgi_headroom.kernel.waits.sampler import WaitSampler, WaitSetting
from uwsgi_headroom.kernel.waits.schedules import Streams
from uwsgi_headroom.kernel.waits.system_calls import parse_system_call, read_system_call
from uwsgi_headroom.kernel.waits.worker_threads import RequestThreads

CHANCE = random.Random(1)

PROGRAM = """
import json, signal, sys, threading
stop, ready, ids = threading.Event(), threading.Barrier(int(sys.argv[1]) + int(sys.argv[2]) + int(sys.argv[3]) + 1), []
threading.stack_size(64 << 10)
def run():
    ids.append(threading.get_native_id()); ready.wait(); stop.wait()
def start(number):
    for _ in range(number):
        before = len(ids)
        threading.Thread(target=run, daemon=True).start()
        while len(ids) == before: pass
start(int(sys.argv[1]))
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
start(int(sys.argv[2]))
start(int(sys.argv[3]))
ready.wait()
print(json.dumps(ids), flush=True)
sys.stdin.read()
"""
"""Starts threads as uWSGI does: some by the application first, then those of requests, with all signals blocked, then
some that requests start."""


@contextmanager
def started(before: int, serving: int, after: int) -> Iterator[tuple[int, list[int]]]:
    command = [sys.executable, "-c", PROGRAM, str(before), str(serving), str(after)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        ids = json.loads(process.stdout.readline())
        yield process.pid, ids
        process.stdin.close()


def test_request_threads_are_presumed():
    """Of nine threads, the main one and the first three that block all signals serve requests."""
    with started(3, 3, 2) as (pid, ids):
        threads = RequestThreads(pid, 4)
        assert set(threads.threads) == {pid, *ids[3:6]}
        assert threads.all_found
        assert set(threads.strangers(CHANCE)) <= {*ids[:3], *ids[6:]}


def test_seen_threads_replace_presumed_ones():
    """One that was seen accepting serves, whatever its mask; never more than there are. A single is the main one."""
    with started(2, 1, 1) as (pid, ids):
        assert RequestThreads(pid, 1).threads == [pid]
        threads = RequestThreads(pid, 2)
        assert set(threads.threads) == {pid, ids[2]}
        for thread in (ids[0], pid, ids[0]):
            threads.note_accepting(thread)
        assert set(threads.threads) == {pid, ids[0]}
        assert threads.strangers(CHANCE) == []


def test_threads_that_are_missing():
    with started(0, 1, 0) as (pid, _):
        threads = RequestThreads(pid, 8)
        assert (len(threads.threads), threads.all_found) == (2, False)
    ended = RequestThreads(pid, 8)
    assert (ended.threads, ended.all_found, ended.strangers(CHANCE)) == ([], False, [])
    threads.list_again()
    assert threads.threads == []


def test_thousands_of_threads_cost_a_bounded_number_of_reads(monkeypatch):
    reads: list[object] = []
    real = procfs.read_file
    monkeypatch.setattr(procfs, "read_file", lambda *path: reads.append(path) or real(*path))
    with started(1500, 0, 0) as (pid, _):
        threads = RequestThreads(pid, 1000)
        assert len(reads) <= worker_threads._MOST_MASKS
        assert (threads.threads, threads.all_found) == ([pid], False)
        assert len(threads.strangers(CHANCE)) == 4


def test_lists_become_rare(monkeypatch):
    lists: list[int] = []
    monkeypatch.setattr(worker_threads, "list_threads", lambda pid: lists.append(pid) or [pid])
    threads = RequestThreads(os.getpid(), 8)
    for _ in range(1000):
        threads.list_again()
    assert 30 <= len(lists) <= 40


def test_a_thread_without_a_mask_is_not_presumed_to_serve(monkeypatch):
    with started(0, 3, 0) as (pid, _):
        monkeypatch.setattr(procfs, "read_file", lambda *_: b"Name:\tuwsgi\n")
        assert RequestThreads(pid, 2).threads == [pid]
        monkeypatch.setattr(procfs, "read_file", lambda *_: b"Name:\tuwsgi\nSigBlk:\t0000000000000000\n")
        assert RequestThreads(pid, 2).threads == [pid]


def reads_input(pid: int) -> bool:
    call = parse_system_call(read_system_call(pid, pid))
    return call not in ("running", "outside") and (call[0], call[1][0]) == (READ, 0)


@of_x86_64
def test_a_worker_that_has_ended_does_not_switch_the_server_off():
    ended = os.fork()
    if ended == 0:
        os._exit(0)
    os.waitid(os.P_PID, ended, os.WEXITED | os.WNOWAIT)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1) as living:
        wait_until(lambda: reads_input(living.pid), what="the process to read its input")
        server = Server(processes=2, threads=1)
        server.respawn(1, 1.0, ended)
        server.respawn(2, 1.0, living.pid)
        server.busy(1, 1)
        # Time stands still: on a busy machine a sample may otherwise end before it has looked at the second worker.
        waits = sampled(WaitSampler(WaitSetting(), MovableClock().clock.monotonic), server)
        assert waits.off is None
        assert waits.threads.get("pipe") == 1
        living.kill()
    os.waitpid(ended, 0)
    assert sampled(WaitSampler(WaitSetting()), server).off is None


def test_a_thread_that_still_writes():
    """A request goes on if its thread has written something in the last 30 s; one that never does is stuck."""
    streams, own = Streams(), {"own": (os.getpid(), threading.get_native_id()), "ended": (os.getpid(), 1 << 22)}
    with open(os.devnull, "wb", buffering=0) as file:
        assert streams.find(own, 100.0) == ()
        assert streams.find(own, 101.0) == (), "nothing is known of what it wrote before"
        file.write(b"data: x\n\n")
        assert not streams.is_due(101.5)
        assert streams.is_due(102.0)
        assert streams.find(own, 102.0) == ("own",)
    assert streams.find(own, 131.0) == ("own",)
    assert streams.find(own, 132.0) == ()
    assert streams.find({}, 133.0) == ()


def test_the_thread_of_an_old_request_without_stats(monkeypatch):
    """uWSGI numbers its threads. A thread that was idle a moment ago serves no old request, whatever it writes."""
    of, _ = sampler_after(1.0)
    monkeypatch.setattr(of, "_streams", SimpleNamespace(is_due=lambda now: True, find=lambda old, now: old))
    worker = msgspec.structs.replace(Server(processes=1).read(1.0).snapshot.workers[0], serving={0: time.time() - 20})
    threads = SimpleNamespace(all_found=True, threads=[7001, 7002])
    idle_at = {7001: time.monotonic(), 7002: time.monotonic() - 20}
    at = worker_threads.LookedAt(7, None, None, True, worker=worker, threads=threads, locks=None, idle_at=idle_at)
    assert of._find_streams([at], of_kernel=False) == {(1, 0): (7, 7001)}
    assert of._find_streams([at], of_kernel=True) == {(1, 0): (7, 7002)}
    idle_at[7002] = time.monotonic()
    assert of._find_streams([at], of_kernel=True) == {}
