"""What is worth saying of a window, and what is not."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from tests.support.simulated_server import EPOCH, Server
from tests.support.windows import the_example, the_harmless_one, window, worker
from uwsgi_headroom.analysis.figures import compute_figures
from uwsgi_headroom.analysis.findings import Finding, collect_findings
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.kernel.cpus import UsableCpus
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.stats import Snapshot

AT = 1000.0


def findings_by_code(window_: Window, server: Server | None = None, **changes: object) -> dict[str, Finding]:
    """Findings by code of a window that ends with a look at a server."""
    reading = replace((server or Server()).read(AT), **changes)
    figures = compute_figures(window_, reading.snapshot, reading.host.cpus)
    return {finding.code: finding for finding in collect_findings(figures, reading)}


def with_cpus(server: Server, cpus: UsableCpus) -> Reading:
    reading = server.read(AT)
    return replace(reading, host=replace(reading.host, cpus=cpus))


def idle(seconds: float = 60.0, workers: int = 4) -> Window:
    return window(
        seconds, *(worker(worker_id, 500, each=0.01, cpu=0.5, busy=5.0) for worker_id in range(1, workers + 1))
    )


def test_a_quiet_server_has_nothing_to_say() -> None:
    """Even workers with room everywhere: no finding at all."""
    assert findings_by_code(idle()) == {}


def test_the_story_is_told_in_a_sentence() -> None:
    """43 % in one worker whose interpreter is saturated while threads elsewhere idle: critical, with what it costs and
    what to change."""
    by_code = findings_by_code(the_example(), Server(cpus=4.0))
    finding = by_code["unevenness_hurts"]
    assert finding.severity == "critical"
    assert finding.title == (
        "Worker 2 takes 43 % of the requests and its interpreter is saturated, while 18 threads elsewhere idle."
    )
    assert "669 ms, against 379 ms" in finding.evidence
    assert "(25 %) off the mean response time" in finding.meaning
    assert "from 4x8 to more processes and fewer threads, such as 8x4" in finding.change
    assert "interpreter_bound" not in by_code, "the same thing is not said twice"


def test_harmless_unevenness_is_called_harmless() -> None:
    """33/26/23/18 % at a low interpreter load is said as what it is, and no warning."""
    finding = findings_by_code(the_harmless_one())["unevenness_harmless"]
    assert finding.severity == "info"
    assert "harmless" in finding.title
    assert "33/26/23/18 %" in finding.evidence


def test_unevenness_below_the_noise_is_not_mentioned() -> None:
    """What chance explains is no finding: 8x1 at 10 to 17 % with few requests."""
    shares = (17, 10, 12, 13, 12, 13, 12, 11)
    rows = [worker(worker_id, 5 * share, each=0.05, cpu=3.0, busy=10.0) for worker_id, share in enumerate(shares, 1)]
    codes = findings_by_code(window(60, *rows), Server(processes=8, threads=1))
    assert not {"uneven", "unevenness_hurts", "unevenness_harmless"} & set(codes)


def test_too_few_requests_say_how_many_more() -> None:
    """No judgement of shares without requests to support it."""
    rows = [worker(1, 40), *(worker(worker_id, 0) for worker_id in (2, 3, 4))]
    by_code = findings_by_code(window(30, *rows))
    assert "160 more are needed" in by_code["too_few_requests"].evidence
    assert "unevenness_hurts" not in by_code


def test_without_process_facts_unevenness_is_no_verdict() -> None:
    """Whether uneven shares cost anything cannot be told without interpreter load: said so, and why it is lacking."""
    rows = [worker(worker_id, n, cpu=None) for worker_id, n in enumerate((2000, 300, 300, 300), 1)]
    by_code = findings_by_code(window(60, *rows), Server(host=False))
    assert by_code["uneven"].severity == "info"
    assert "another host" in by_code["no_process_facts"].evidence


def test_saturation_by_the_time_with_every_thread_busy() -> None:
    """A tenth of the time without a free thread is critical; a hundredth is a warning; less is not mentioned."""
    base = window(60, *(worker(worker_id, 600, busy=300.0, cpu=1.0) for worker_id in (1, 2, 3, 4)))
    assert findings_by_code(replace(base, full_seconds=6.0))["saturation"].severity == "critical"
    assert findings_by_code(replace(base, full_seconds=1.0))["saturation"].severity == "warning"
    assert "saturation" not in findings_by_code(replace(base, full_seconds=0.3))


def test_all_interpreters_saturated() -> None:
    """Every interpreter at its limit ends throughput: critical, and more processes is the way."""
    rows = [worker(worker_id, 600, each=0.2, cpu=57.0, busy=120.0) for worker_id in (1, 2)]
    finding = findings_by_code(window(60, *rows), Server(processes=2, cpus=8.0))["interpreter_bound"]
    assert finding.severity == "critical"
    assert "all 2 workers" in finding.title
    assert "more `processes`" in finding.change


@pytest.mark.parametrize(
    ("limited_by", "word"), [("affinity", "cpu-affinity"), ("quota", "CPUQuota"), ("host", "more CPUs")]
)
def test_cpu_bound_names_what_binds(limited_by: str, word: str) -> None:
    """The advice is for the limit that is the least: mask, quota or host."""
    server = Server(cpus=2.0)
    reading = with_cpus(server, UsableCpus(2.0, limited_by, 8, 8, None))  # type: ignore[arg-type]
    rows = [worker(worker_id, 600, cpu=28.0, busy=60.0) for worker_id in (1, 2, 3, 4)]
    by_code = findings_by_code(window(60, *rows), server, host=reading.host)
    assert word in by_code["cpu_bound"].change
    assert "(4) than CPUs (2)" in by_code["more_workers_than_cpus"].title


def test_a_queue_that_fills() -> None:
    """Half of the queue in use is critical; the advice is capacity first, then listen and somaxconn."""
    by_code = findings_by_code(replace(idle(), queue_seconds={"app.sock": 60 * 60.0}), Server(queue=60))
    assert by_code["queue_filling"].severity == "critical"
    assert "net.core.somaxconn" in by_code["queue_filling"].change
    assert by_code["queue_wait"].severity == "warning"
    assert "1.8 s before uWSGI sees it" in by_code["queue_wait"].title


def test_a_queue_that_cannot_be_measured_is_said() -> None:
    """With the reason, and as no more than good to know."""
    finding = findings_by_code(idle(), Server(queue=None))["queue_not_measurable"]
    assert (finding.severity, finding.evidence) == ("info", "hidden.")


def test_harakiri_and_respawns() -> None:
    """One harakiri is a warning; one slot respawned again and again is critical; a reload or scaling up is neither."""
    assert findings_by_code(replace(idle(), harakiris=1, respawns=1)).keys() == {"harakiri"}
    again = replace(idle().workers[2], respawns=3)
    loop = replace(idle(), respawns=3, workers=(*idle().workers[:2], again, idle().workers[3]))
    assert findings_by_code(loop)["respawn_loop"].severity == "critical"
    assert findings_by_code(loop)["respawn_loop"].title == "Worker 3 is respawned again and again."
    assert findings_by_code(replace(loop, reloads=1)) == {}
    scaled_up = replace(idle(), respawns=4, workers=tuple(replace(worker, respawns=1) for worker in idle().workers))
    assert findings_by_code(scaled_up) == {}


def test_stuck_requests() -> None:
    """Older than the limit are stuck; in a killed worker they are lost, and not stuck."""
    server = Server()
    server[2].request_starts = (int(EPOCH + AT) - 45, int(EPOCH + AT) - 5)
    finding = findings_by_code(idle(), server)["request_stuck"]
    assert finding.title == "1 request in service for longer than 30 s."
    assert "oldest for 45 s; in worker 2" in finding.evidence
    server.kill(2)
    assert "request_stuck" not in findings_by_code(idle(), server)
    assert "Worker 2 is not there" in findings_by_code(idle(), server)["workers_missing"].title


def test_several_workers_are_named_in_the_plural() -> None:
    """Two that are missing, or respawned again and again, are `Workers 1 and 2`; of 4,096 a sentence names eight."""
    server = Server()
    server.kill(1)
    server.kill(2)
    title = findings_by_code(idle(), server)["workers_missing"].title
    assert title == "Workers 1 and 2 are not there, or not ready yet."
    looping = tuple(replace(slot, respawns=9) for slot in idle().workers[:2])
    by_code = findings_by_code(replace(idle(), respawns=18, workers=(*looping, *idle().workers[2:])))
    assert by_code["respawn_loop"].title == "Workers 1 and 2 are respawned again and again."
    looping = tuple(replace(slot, respawns=9) for slot in idle(workers=4096).workers)
    by_code = findings_by_code(replace(idle(), respawns=9 * 4096, workers=looping))
    assert by_code["respawn_loop"].title.startswith("Workers 1, 2, 3, 4, 5, 6, 7, 8 and 4,088 more are respawned")


@pytest.mark.parametrize(
    ("saturated", "title"),
    [
        ([1], "The interpreter of worker 1 is saturated."),
        ([1, 2], "The interpreters of workers 1 and 2 are saturated."),
        ([1, 2, 3], "The interpreters of all 3 workers are saturated."),
    ],
)
def test_saturated_interpreters_are_named(saturated: list[int], title: str) -> None:
    """One by its worker, several by theirs, and all together."""
    rows = [
        worker(worker_id, 500, each=0.1, cpu=59.0 if worker_id in saturated else 1.0, busy=10.0)
        for worker_id in (1, 2, 3)
    ]
    assert findings_by_code(window(60, *rows), Server(processes=3, cpus=8.0))["interpreter_bound"].title == title


@pytest.mark.parametrize(("raised", "severity"), [(1, "info"), (40, "warning")])
def test_exceptions(raised: int, severity: str) -> None:
    """A few are good to know; one in a hundred is a warning."""
    assert findings_by_code(replace(idle(), exceptions=raised))["exceptions"].severity == severity


def test_growing_memory() -> None:
    """A tenth and 16 MB more within a window is worth a warning, unless workers were replaced in it."""
    grown = replace(
        worker(1, 500, each=0.01, cpu=0.5, busy=5.0), resident_bytes=200_000_000, resident_growth=40_000_000
    )
    window_ = replace(idle(), workers=(grown, *idle().workers[1:]))
    assert "40 MB more" in findings_by_code(window_)["memory_growing"].evidence
    assert "memory_growing" not in findings_by_code(replace(window_, respawns=1))
    little = replace(grown, resident_growth=15_000_000)
    assert "memory_growing" not in findings_by_code(replace(window_, workers=(little, *window_.workers[1:])))


def test_workers_pinned_to_one_cpu() -> None:
    """Two workers with the same single CPU in their masks are an affinity pile-up."""
    server = Server()
    server[1].affinity = server[3].affinity = (2,)
    server[2].affinity = (1,)
    assert findings_by_code(idle(), server)["workers_share_one_cpu"].title.startswith("2 workers are pinned")


def test_cheaper_that_never_scales() -> None:
    """Workers in reserve while every thread is in use, and none spawned: said; with a spawn it is not."""
    full = replace(idle(), full_seconds=30.0)
    server = Server(spawned=2)
    assert "2 workers in reserve" in findings_by_code(full, server)["cheaper_does_not_scale"].title
    assert "cheaper_does_not_scale" not in findings_by_code(replace(full, respawns=1), server)


def test_options_that_hide_figures_or_cost() -> None:
    """stats-no-cores, a document larger than a UNIX socket holds, and thunder-lock are good to know."""
    by_code = findings_by_code(idle(), Server(cores=False), document_bytes=300_000)
    assert {"no_threads", "large_document"} <= set(by_code)
    reading = Server().read(AT)
    assert isinstance(reading.snapshot, Snapshot)
    locked = msgspec.structs.replace(reading.snapshot, locks={"thunder": 7})
    assert "thunder_lock" in findings_by_code(idle(), snapshot=locked)


def test_the_worst_comes_first() -> None:
    """Critical before warning before info."""
    window_ = replace(the_example(), harakiris=1, exceptions=1)
    severities = [finding.severity for finding in findings_by_code(window_).values()]
    assert severities == sorted(severities, key=["critical", "warning", "info"].index)
    assert severities[0] == "critical"


def beside(own: float, idle: float, others: float | None) -> dict[str, Finding]:
    """Findings about a server that uses so many CPUs, with so many idle and in use by others."""
    rows = (worker(worker_id, 500, each=0.01, cpu=15 * own, busy=5.0) for worker_id in (1, 2, 3, 4))
    return findings_by_code(window(60.0, *rows, cpu=(own, idle, others)))


def test_others_that_leave_nothing_are_a_warning() -> None:
    """It says how much of how much they use, who else uses how much, and what to do."""
    finding = beside(0.1, 0.0, 1.9)["cpu_used_by_others"]
    assert finding.severity == "warning"
    assert finding.title == "Others use 1.9 of the 2 CPUs."
    assert finding.evidence == ("0.10 CPUs in use by the workers, 0.00 idle, 1.90 in use by others; CPU headroom 1.0x.")
    assert finding.change.startswith("Move the other programs")


@pytest.mark.parametrize(
    ("own", "idle", "others", "severity"),
    [
        (0.5, 0.2, 1.3, "warning"),
        (0.5, 0.3, 1.2, "info"),
        (0.3, 0.5, 1.2, "info"),
        (0.2, 0.5, 1.3, None),  # headroom 3.5
        (1.2, 0.1, 0.7, None),  # the server itself uses more
        (0.8, 1.2, 2.0, "info"),
        (0.8, 1.2, 0.4, None),
        (0.1, 0.0, None, None),
    ],
)
def test_when_others_matter(own: float, idle: float, others: float | None, severity: str | None) -> None:
    """They are named where they use the larger part and headroom of CPU is low because of it."""
    finding = beside(own, idle, others).get("cpu_used_by_others")
    assert (finding and finding.severity) == severity
