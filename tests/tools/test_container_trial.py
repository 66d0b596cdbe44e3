"""The trial of the container image sees figures that are wrong, and its table shows what is absent as absent."""

from __future__ import annotations

import pytest

from tools import debian_root
from tools.container_trial import images, table
from tools.container_trial.__main__ import UNAVAILABLE, faults, main
from tools.container_trial.exporters import WAYS
from tools.container_trial.measure import QUEUED, THREADS, Figures, Truth
from tools.container_trial.reading import Reading

HAPPENED = Truth(requests=1200, cpu_seconds=10.0, request_seconds=90.0, queue=QUEUED)


def figures(requests: float = 1200, queue: float | None = QUEUED) -> Figures:
    """Figures of an exporter that knows the requests and the listen queue."""
    waiting = {} if queue is None else {"uwsgi_socket_queue_length": [('socket=":8000"', queue)]}
    before = Reading({"uwsgi_worker_requests_total": [('worker_id="1"', 5.0), ('worker_id="2"', 7.0)]})
    after = Reading({"uwsgi_worker_requests_total": [('worker_id="1"', 5.0 + requests), ('worker_id="2"', 7.0)]})
    held = Reading({"uwsgi_threads_busy": [("", float(THREADS))], **waiting})
    return Figures(WAYS[0], before, held, after, {"waits": "not permitted", "residency": "off"})


def test_right_figures_have_no_fault() -> None:
    """What equals the truth is right, and what is absent is not wrong."""
    assert faults(HAPPENED, [figures(), figures(queue=None)]) == []


def test_wrong_figures_are_faults() -> None:
    """A request too few, and a queue of 0 instead of an absent one."""
    assert len(faults(HAPPENED, [figures(requests=1199)])) == 1
    assert "listen queue 0, not 12" in faults(HAPPENED, [figures(queue=0)])[0]


def test_the_table_has_the_truth_first() -> None:
    """Then a row for each exporter; what is absent is called so."""
    lines = table.table(HAPPENED, [figures(queue=None)]).splitlines()
    assert lines[2].startswith("| **the truth** | 1200 | 32 | 12 | 10.00 |")
    cells = [cell.strip() for cell in lines[3].split("|")[1:-1]]
    assert cells[1:4] == ["1200", "32", table.ABSENT]
    assert cells[-1] == table.ABSENT


def test_reasons_leave_out_what_is_off_by_default() -> None:
    """Residency is opt-in and needs no explanation."""
    assert table.reasons([figures()]).splitlines()[1:] == ["  * `waits`: not permitted"]


def test_the_stand_in_is_that_of_the_containerfile() -> None:
    """Its name and its suite come from the Containerfile."""
    assert images.base_image().startswith("docker.io/library/python:3.")
    assert images.suite(images.base_image()) == "trixie"


def test_the_cost_is_that_of_the_observed_time() -> None:
    """CPU seconds divided by the seconds in which the exporter observed its server."""
    before = Reading({"process_cpu_seconds_total": [("", 1.0)], "uwsgi_exporter_observed_seconds_total": [("", 10.0)]})
    after = Reading(
        {
            "process_cpu_seconds_total": [("", 1.5)],
            "uwsgi_exporter_observed_seconds_total": [("", 30.0)],
            "process_resident_memory_bytes": [("", 45e6)],
        }
    )
    assert "used 2.5 % of a CPU and 45 MB" in table.cost(Figures(WAYS[0], before, after, after, {}))


def test_a_machine_that_cannot_run_it_is_not_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit status differs from that of wrong figures, and the reason is printed."""
    monkeypatch.setattr(debian_root, "unavailable", lambda _release: "it needs root")
    assert main([]) == UNAVAILABLE
    assert "cannot run here: it needs root" in capsys.readouterr().err
