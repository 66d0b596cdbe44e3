"""Severities compared with exact long-run figures: 1 to 64 threads, 5 to 130 % load, several distributions."""

from math import fsum

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from tests.analysis.judging import figures_of
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings import Finding, collect_findings
from uwsgi_headroom.analysis.findings.kind import SEVERITIES
from uwsgi_headroom.analysis.findings.queue import FILLING, FULL
from uwsgi_headroom.analysis.findings.threads import RESERVE_UNUSED, THREADS_BUSY, THREADS_FULL
from uwsgi_headroom.analysis.littles_law import LEAST_WAIT, MOST_WAIT, SEVERE, WAIT_RATIO, judge_waiting
from uwsgi_headroom.analysis.verdict import verdict_sentence, worst_status
from uwsgi_headroom.history.window import Window


class Load(Struct, frozen=True):
    """A server and its load. threads: per worker; up: running workers, the others are cheaper mode's reserve; load:
    arrivals as a part of what the running threads can serve; seconds: mean time in service; cpu: the part of it on the
    CPU; queue: its limit."""

    workers: int
    threads: int
    load: float
    up: int
    seconds: float = 0.1
    cpu: float = 0.01
    cv: float = 1.0
    queue: int = 100

    @property
    def capacity(self) -> int:
        return self.up * self.threads

    def probabilities(self) -> list[float]:
        """The probability of each number of requests in the server, in service or waiting."""
        offered, weights = self.load * self.capacity, [1.0]
        for present in range(1, self.capacity + self.queue + 1):
            weights.append(weights[-1] * offered / min(present, self.capacity))
            if weights[-1] > 1e200:  # only ratios count
                weights = [weight / 1e200 for weight in weights]
        total = fsum(weights)
        return [weight / total for weight in weights]

    def window(self, length: float) -> Window:
        """The mean window of `length` seconds, with requests shared evenly by the workers."""
        probabilities = self.probabilities()
        capacity = self.capacity
        busy = fsum(min(present, capacity) * part for present, part in enumerate(probabilities))
        waiting = fsum((present - capacity) * part for present, part in enumerate(probabilities) if present > capacity)
        waiting = min(float(self.queue), waiting * (1 + self.cv**2) / 2)
        requests = length * busy / self.seconds
        rows = (
            worker(
                worker_id,
                round(requests / self.up) if worker_id <= self.up else 0,
                each=self.seconds,
                cpu=length * busy * self.cpu / self.seconds / self.up if worker_id <= self.up else 0.0,
                busy=length * busy / self.up if worker_id <= self.up else 0.0,
                up=None if worker_id <= self.up else 0.0,
            )
            for worker_id in range(1, self.workers + 1)
        )
        return replace(
            window(length, *rows, **{"app.sock": waiting * length}),
            full_seconds=length * fsum(probabilities[capacity:]),
            queue_full_seconds={"app.sock": length * probabilities[-1] if probabilities[-1] > 1e-6 else 0.0},
        )


HARM = {"clients_refused", "queue_wait", "requests_lost", "harakiri", "request_stuck", "unevenness_hurts"}
"""Findings about harm that users feel now."""

LOADS = [0.05, 0.12, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0, 1.1, 1.3]

prefork = st.builds(lambda workers: (workers, 1), st.sampled_from([1, 2, 4, 8, 16, 64]))
threaded = st.tuples(st.sampled_from([1, 2, 4]), st.sampled_from([2, 8, 16]))
servers = st.one_of(prefork, threaded).flatmap(
    lambda size: st.builds(
        Load,
        workers=st.just(size[0]),
        threads=st.just(size[1]),
        load=st.sampled_from(LOADS),
        up=st.integers(1, size[0]),
        seconds=st.sampled_from([0.005, 0.06, 0.5, 5.0]),
        cpu=st.just(0.0),
        cv=st.sampled_from([0.0, 0.5, 1.0, 2.0]),
        queue=st.sampled_from([40, 100]),
    )
)


def judge(load: Load, seconds: float = 60.0) -> tuple[Figures, list[Finding]]:
    """The figures and findings of a load over this many seconds."""
    window = load.window(seconds)
    server = Server(processes=load.workers, threads=load.threads, spawned=load.up, queue=0, cpus=64.0)
    server.queue = int(window.queue_seconds["app.sock"] / seconds)
    figures = figures_of(window, server)
    return figures, collect_findings(figures)


def near_a_threshold(figures: Figures) -> bool:
    """Whether a wait, which depends on whole requests, is within a fifth of a threshold of the rules, or another figure
    is at one."""
    flow, window = figures.flow, figures.window
    wait, served = flow.queue_wait or 0.0, flow.response_time or 1.0
    used = (flow.observed or 0.0) / (figures.ceiling or 1)
    full = window.full_seconds / window.seconds
    refused = window.queue_full_seconds["app.sock"] / window.seconds
    filled = window.queue_seconds["app.sock"] / window.seconds / 100
    compared = [(wait, seconds) for seconds in (LEAST_WAIT, MOST_WAIT, SEVERE[0])]
    compared += [(wait / served, part) for part in (WAIT_RATIO, SEVERE[1])]
    exact = [(used, THREADS_BUSY), (used, THREADS_FULL), (full, RESERVE_UNUSED), (refused, FULL[0]), (filled, FILLING)]
    return any(0.8 < figure / threshold < 1.25 for figure, threshold in compared) or any(
        0.99 < figure / threshold < 1.01 for figure, threshold in exact
    )


def rank(findings: list[Finding]) -> int:
    """0 for no finding, 3 for critical."""
    return max((len(SEVERITIES) - SEVERITIES.index(finding.severity) for finding in findings), default=0)


@given(servers)
@settings(max_examples=40, deadline=None)
def test_severity_never_decreases_as_load_grows(load):
    """As load grows, the severity of present harm does not decrease, nor does that of all findings."""
    judged = [judge(replace(load, load=part))[1] for part in LOADS]
    each = [[one for finding in findings for one in (finding, *finding.harms)] for findings in judged]
    harm = [rank([finding for finding in findings if finding.code in HARM]) for findings in each]
    assert harm == sorted(harm)
    worst = [rank([finding for finding in findings if finding.severity != "info"]) for findings in judged]
    assert worst == sorted(worst)


@given(servers)
@settings(max_examples=150, deadline=None)
def test_status_number_and_sentence_agree(load):
    """The status is the first finding's severity and the sentence is its title; without findings it is the headroom,
    which is then above the thresholds of the warnings. With a headroom of 2 and no request waiting, refused or lost, no
    finding is even a warning."""
    figures, findings = judge(load)
    status, sentence = worst_status(findings), verdict_sentence(figures.headroom, findings)
    severities = [SEVERITIES.index(finding.severity) for finding in findings]
    assert severities == sorted(severities)
    if status == "ok":
        assert not findings or findings[0].severity == "info"
        assert sentence.startswith(("Headroom ", "Nearly idle", "Requests wait with more load; headroom "))
        assert (figures.headroom.factor or 100.0) > 1.3
    else:
        assert (findings[0].severity, findings[0].title) == (status, sentence)
    if judge_waiting(figures.flow) == "none" and not any(figures.window.queue_full_seconds.values()):
        assert status != "critical"
        assert status == "ok" or (figures.headroom.factor or 100.0) < 2


@given(servers)
@settings(max_examples=50, deadline=None)
def test_windows_of_steady_load_agree(load):
    """Windows of 20 s, one minute and five minutes of the same load are judged alike, unless a figure is at a
    threshold."""
    assume(not near_a_threshold(judge(load, 300.0)[0]))
    assume(load.window(20.0).workers[0].requests >= 20)  # requests are whole numbers
    judged = [
        {(finding.code, finding.severity) for finding in judge(load, seconds)[1]} for seconds in (20.0, 60.0, 300.0)
    ]
    assert judged[0] == judged[1] == judged[2]


@pytest.mark.parametrize(
    ("load", "status"),
    [
        (Load(1, 1, 0.12, 1, seconds=0.06), "ok"),
        (Load(2, 1, 0.30, 2), "ok"),
        (Load(8, 1, 0.50, 8), "ok"),
        (Load(8, 1, 0.90, 8), "warning"),
        (Load(8, 1, 1.20, 8), "critical"),
        (Load(4, 8, 0.50, 4), "ok"),
        (Load(4, 8, 1.10, 4), "critical"),
        (Load(8, 1, 0.35, 2, seconds=0.06), "ok"),
    ],
    ids=str,
)
def test_known_situations(load, status):
    """Known situations are judged as an expert would judge them."""
    assert worst_status(judge(load)[1]) == status
