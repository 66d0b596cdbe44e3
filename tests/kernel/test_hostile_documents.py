"""Lookups in the kernel do no harm, whatever names and pids a document contains."""

import json
import os

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from uwsgi_headroom import stats
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.kernel.host import Host
from uwsgi_headroom.source import Answer

PIDS = st.sampled_from([-1, 0, 1, 2**22, 2**31 - 1, 2**31, 2**32, 2**63 - 1, -(2**63), os.getpid(), os.getppid()])
NAMES = (
    st.text(max_size=30)
    | st.from_regex(r"(@|\\0|/|\[|)[a-z:%.\d]{0,12}\]?:\d{0,12}", fullmatch=True)
    | st.sampled_from(["", ":", "::", ":0", "[::]:1", "[]:1", "[::1%lo]:1", "\0a", "/" + "x" * 200, "a" * 200 + ":1"])
)


def facts(document: object) -> HostFacts:
    return Host().read_facts(stats.decode(json.dumps(document).encode()), Answer(b"", peer_pid=os.getpid()))


@given(st.lists(NAMES, max_size=6), st.lists(PIDS, max_size=6))
@example(["\0:80", "a\0:80", ":" + "9" * 200, "[::1]:65536", "\0"], [])
@example(["127.0.0.1:²", "[::1]:٣", "0x7f.1:1", "1:1"], [])
@settings(max_examples=150)
def test_any_names_and_pids_of_a_proven_server(names, pids):
    workers, sockets = [{"pid": pid} for pid in pids], [{"name": name} for name in names]
    facts({"pid": os.getpid(), "workers": workers, "sockets": sockets})


@pytest.mark.parametrize("name", ["\0:80", "127.0.0.1\0:80", "/run/a\0", ":65536", "[::1]:" + "9" * 200])
def test_the_queue_of_an_impossible_socket_name_is_not_measurable(name):
    document = {"pid": os.getpid(), "workers": [], "sockets": [{"name": name}, {"name": "/run/none"}]}
    host = facts(document)
    assert host.off is None
    assert host.backlogs[name].queue is None
    assert "65535" in (host.backlogs[name].reason or "")
    assert "65535" not in (host.backlogs["/run/none"].reason or "")


PEERS = [("127.0.0.1", 9), ("::1", 9), ("fe80::1%lo", 9), ("192.0.2.1", 9)]


@pytest.mark.parametrize("pid", [-1, 0, 1, 2**22 + 1, 2**31, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize(
    "answer",
    [*(Answer(b"", peer_pid=pid) for pid in (os.getpid(), 0, None)), *(Answer(b"", peer=each) for each in PEERS)],
)
def test_any_master_pid(pid, answer):
    """A document may contain any master PID: nothing is proven, and nothing fails."""
    snapshot = stats.decode(json.dumps({"pid": pid, "workers": []}).encode())
    assert Host().read_facts(snapshot, answer).off
    assert pid == 1 or Host().read_facts(snapshot, Answer(b"", peer_pid=pid)).off, "the peer has the same one"
