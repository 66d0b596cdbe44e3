"""A program whose threads wait in known functions. It runs on every version of CPython, without any other module.

For each line on its standard input it prints, as JSON, the stack of each of its threads but the main one, by the
thread's id: function, file and line, the one called last first. For the line `fork` it starts a child, prints its pid,
and the child's main thread waits in `Child.rests`.
"""

import json
import os
import socket
import sys
import threading
import time

HELD = threading.Lock()
NEAR, FAR = socket.socketpair()


class Naps:
    def naps(self):
        time.sleep(
            3600,
        )


def queues():
    HELD.acquire()
    with HELD:
        pass


def listens():
    return list(FAR.recv(1) for _ in range(3))  # noqa: C400 - a frame of a generator


def größer():  # noqa: PLC2401 - a name beyond ASCII
    threading.Event().wait()


def deep(levels):
    if levels:
        return deep(levels - 1)
    condition = threading.Condition()
    with condition:
        return condition.wait()


def jumps():
    for _ in range(2):
        try:
            raise ValueError
        except ValueError:
            pass

    exec(compile("\n\n\ntime.sleep(3600)", "<made>", "exec"), {"time": time})


def sorts():
    def compares(_number):  # is called from C
        time.sleep(3600)

    sorted(range(2), key=compares)


async def awaits():
    time.sleep(3600)  # noqa: ASYNC251 - a frame of a coroutine


def runs():
    async def outer():
        await awaits()

    outer().send(None)


class Child:
    def rests(self):
        time.sleep(3600)


def describe(frame):
    found = []
    while frame:
        code = frame.f_code
        found.append((getattr(code, "co_qualname", code.co_name), code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return found


HELD.acquire()
for target in (Naps().naps, queues, listens, größer, lambda: deep(40), lambda: deep(300), jumps, sorts, runs):
    threading.Thread(target=target, daemon=True).start()
print(json.dumps({"python": sys.version_info[:2]}), flush=True)
for request in sys.stdin:
    if request == "fork\n":
        child = os.fork()
        if child == 0:
            Child().rests()
        print(json.dumps({"child": child}), flush=True)
        continue
    frames = sys._current_frames()
    others = {
        thread.native_id: thread.ident for thread in threading.enumerate() if thread is not threading.main_thread()
    }
    print(json.dumps({number: describe(frames[ident]) for number, ident in others.items()}), flush=True)
