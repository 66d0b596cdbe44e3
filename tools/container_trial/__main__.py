"""`python3 -m tools.container_trial` (`make try-container`): tries the container image for real, as root.

Builds the image on a stand-in for the official Python image, runs uWSGI in a container and exporters beside it, and
prints a table of their figures and the truth. With `--write`, puts it into deploy/container/README.md. The exit status
is 0 if counts and listen queues are right wherever they are shown, 1 if not, and 75 if the trial cannot run here.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

from tools import debian_root
from tools.commands import CommandError
from tools.container_trial import podman as podman_module
from tools.container_trial import table
from tools.container_trial.images import CONTAINERFILES, EXPORTER, base_image, build, make_stand_in, megabytes
from tools.container_trial.measure import THREADS, Figures, Truth, measure, running
from tools.container_trial.podman import Podman, own_podman
from tools.debian_root import UnavailableError
from tools.environments import ROOT
from tools.generated_files import replace_section

README = ROOT / "deploy" / "container" / "README.md"
UNAVAILABLE = 75  # EX_TEMPFAIL of sysexits.h


def main(argv: list[str] | None = None) -> int:
    """Runs the trial; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python3 -m tools.container_trial", description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the results into deploy/container/README.md")
    write = parser.parse_args(argv).write
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.default_int_handler)
    try:
        refuse()
        with own_podman() as podman:
            wrong = _try(podman, write)
    except UnavailableError as error:
        print(f"container-trial: cannot run here: {error}", file=sys.stderr)
        return UNAVAILABLE
    except (CommandError, TimeoutError) as error:
        print(f"\ncontainer-trial: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130
    for sentence in wrong:
        print(f"container-trial: {sentence}", file=sys.stderr)
    return 1 if wrong else 0


def refuse() -> None:
    """Raises `UnavailableError` if this machine cannot run the trial."""
    release = Path("/etc/os-release")
    os_release = release.read_text() if release.exists() else ""
    reason = debian_root.unavailable(os_release) or podman_module.unavailable()
    if reason:
        raise UnavailableError(reason)


def faults(happened: Truth, figures: list[Figures]) -> list[str]:
    """Returns a sentence for each figure that is shown and wrong."""
    wrong = []
    for each in figures:
        expected = {
            "requests": (each.after.since(each.before, "uwsgi_worker_requests_total"), happened.requests),
            "busy threads": (each.held.total("uwsgi_threads_busy"), THREADS),
            "listen queue": (each.held.total("uwsgi_socket_queue_length"), happened.queue),
        }
        wrong += [
            f"{each.way.title}: {name} {shown:g}, not {true}"
            for name, (shown, true) in expected.items()
            if shown is not None and shown != true
        ]
    return wrong


def _try(podman: Podman, write: bool) -> list[str]:
    make_stand_in(podman)
    for image in CONTAINERFILES:
        build(podman, image)
    base, whole = megabytes(podman, base_image()), megabytes(podman, EXPORTER)
    with running(podman) as trial:
        happened, figures = measure(trial)
    size = f"The image adds {whole - base:.0f} MB to its base; with the stand-in it has {whole:.0f} MB.\n"
    cgroups = podman.run("info", "--format", "{{.Host.CgroupsVersion}}").removeprefix("v")
    linux, load = os.uname().release.split("-")[0], os.getloadavg()[1]
    machine = f"Linux {linux}, cgroup version {cgroups}, {os.cpu_count()} CPUs"
    conditions = f"Measured on {machine}; the load average was {load:.0f}.\n"
    sections = {
        "size": size,
        "measured": f"{table.table(happened, figures)}\n{conditions}{table.cost(figures[0])}",
        "reasons": table.reasons(figures),
    }
    for name, text in sections.items():
        print(f"\n{text}", end="")
        if write:
            README.write_text(replace_section(README.read_text(), f"trial-{name}", f"\n{text}\n"))
    return faults(happened, figures)


if __name__ == "__main__":
    sys.exit(main())
