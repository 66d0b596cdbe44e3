"""Imported by each uWSGI of the lab: records the CPUs that each worker may run on, when the worker starts.

Appends a line of JSON to the file that `LAB_MASKS` names: the master's PID, the worker's id and its affinity mask.
"""

from __future__ import annotations

import json
import os

import uwsgi  # type: ignore[import-untyped]
from uwsgidecorators import postfork  # type: ignore[import-untyped]


@postfork  # type: ignore[untyped-decorator]
def record() -> None:
    with open(os.environ["LAB_MASKS"], "a", encoding="ascii") as file:
        file.write(json.dumps([os.getppid(), uwsgi.worker_id(), sorted(os.sched_getaffinity(0))]) + "\n")
