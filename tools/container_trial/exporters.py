"""The ways to run an exporter beside a uWSGI in a container, each with what it shares and which rights it has."""

from __future__ import annotations

from dataclasses import dataclass

APP = "trial-app"
VOLUME = "trial-run"
STATS = "/run/uwsgi/stats"
APP_USER = "10001:10001"
_LOCKED = ("--read-only", "--cap-drop=all", "--security-opt=no-new-privileges")
_PID, _NETWORK = f"--pid=container:{APP}", f"--network=container:{APP}"
_CGROUPS = ("--cgroupns=host", "--volume=/sys/fs/cgroup:/sys/fs/cgroup:ro")


@dataclass(frozen=True)
class Way:
    """One way to run the exporter. options: of `podman run`; None if it runs on the host, as root."""

    title: str
    options: tuple[str, ...] | None

    @property
    def shares_network(self) -> bool:
        """Whether it listens in the network namespace of uWSGI."""
        return self.options is not None and _NETWORK in self.options


WAYS = (
    Way("uWSGI's user, no capabilities", (*_LOCKED, _PID, _NETWORK, f"--user={APP_USER}")),
    Way("the same, and the host's cgroups", (*_LOCKED, _PID, _NETWORK, *_CGROUPS, f"--user={APP_USER}")),
    Way("own user in the socket's group", (*_LOCKED, _PID, _NETWORK, "--user=20002:20002", "--group-add=10001")),
    Way(
        "the same, with SYS_PTRACE and DAC_READ_SEARCH",
        (
            *("--read-only", "--cap-drop=all", "--cap-add=SYS_PTRACE", "--cap-add=DAC_READ_SEARCH", _PID, _NETWORK),
            *("--user=20002:20002", "--group-add=10001"),
        ),
    ),
    Way("root, podman's default capabilities", ("--read-only", _PID, _NETWORK, "--user=0:0")),
    Way(
        "root in the socket's group, only these two capabilities",
        (*_LOCKED, "--cap-add=SYS_PTRACE", "--cap-add=DAC_READ_SEARCH", _PID, _NETWORK, "--user=0:10001"),
    ),
    Way("uWSGI's user, PID namespace not shared", (*_LOCKED, _NETWORK, f"--user={APP_USER}")),
    Way("uWSGI's user, network namespace not shared", (*_LOCKED, _PID, f"--user={APP_USER}")),
    Way("on the host, as root", None),
)
"""The rows of the table."""
