"""Compares an exporter with and without `--code`: its use of CPU, and what it shows beside the application's record."""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from pathlib import Path

from tools.bench.code.measure import FUNCTIONS, busy_server, read_record
from tools.support.exporter import Exporter, exporter

_WARM_SECONDS = 15.0


def print_cost(processes: int, threads: int, seconds: float) -> None:
    """Watch a busy server of that size with an exporter, in turns without and with `--code`."""
    with busy_server(processes, threads, processes * threads // 2) as (server, record):
        for flags in ((), ("--code",)) * 2:
            with exporter("--stats", f"app={server.stats}", "--window", "1m", *flags) as running:
                time.sleep(_WARM_SECONDS)
                print(f"\n{' '.join(flags) or 'without'}: {_use_of_cpu(running, record, seconds)}")


def _use_of_cpu(running: Exporter, record: Path, seconds: float) -> str:
    """Its CPU in so many seconds; and, if it shows code, the largest difference of a share of the last minute."""
    before, spent = read_record(record), _cpu_seconds(running.pid)
    time.sleep(seconds)
    use = f"{(_cpu_seconds(running.pid) - spent) / seconds:.2%} of a CPU"
    after = read_record(record)
    code = json.loads(running.get("/api/v1/servers/app")[1])["code"]
    if code is None:
        return use
    seen: dict[str, float] = defaultdict(float)
    for line in code["lines"]:
        seen[line["function"]] += line["share"]
    whole, shown = sum(after.values()) - sum(before.values()), sum(seen[function] for function in FUNCTIONS)
    differences = [abs((after[each] - before[each]) / whole - seen[each] / shown) for each in FUNCTIONS]
    series = sum(name.startswith("uwsgi_code_") for name in running.scrape())
    return (
        f"{use}; {code['samples']} looks in {code['seconds']:.0f} s, {1e3 * code['cpu_seconds']:.2f} ms of CPU each, "
        f"{code['threads']:.0f} busy threads; largest difference {100 * max(differences):.1f} percentage points; "
        f"{series} series"
    )


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
