"""The users that the exporter runs as, each by its `setpriv` options (setpriv(1))."""

from __future__ import annotations

from dataclasses import dataclass

SERVER, OTHER = "www-data", "nobody"
"""uWSGI's user, and a user without any rights. Both exist on every Debian."""


@dataclass(frozen=True)
class User:
    """One way to run the exporter. letter: its column; is_in_group: of the stats socket; capabilities: as for setpriv,
    in its ambient set."""

    letter: str
    words: str
    name: str = OTHER
    is_in_group: bool = True
    capabilities: tuple[str, ...] = ()
    started_by_root: bool = False
    """Whether it reads the uWSGI that root started, which then changed its user (`uid =`)."""

    def command(self) -> list[str]:
        """The words before the exporter's own command."""
        if self.name == "root":
            return []
        group = "nogroup" if self.name == OTHER else self.name
        groups = [f"--groups={SERVER}"] if self.is_in_group and self.name == OTHER else ["--clear-groups"]
        held = ",".join(("-all", *(f"+{name}" for name in self.capabilities)))
        return [
            "setpriv",
            f"--reuid={self.name}",
            f"--regid={group}",
            *groups,
            f"--inh-caps={held}",
            f"--ambient-caps={held}",
            f"--bounding-set={held}",
        ]


PTRACE, READ, NET = "sys_ptrace", "dac_read_search", "net_admin"

USERS = (
    User("A", "another user", is_in_group=False),
    User("B", "another user, in the group of the stats socket"),
    User("C", "B with `CAP_SYS_PTRACE`", capabilities=(PTRACE,)),
    User("D", "B with `CAP_DAC_READ_SEARCH`", capabilities=(READ,)),
    User("E", "B with `CAP_NET_ADMIN`", capabilities=(NET,)),
    User("F", "B with `CAP_SYS_PTRACE` and `CAP_DAC_READ_SEARCH`", capabilities=(PTRACE, READ)),
    User("G", "uWSGI's user and group, which also started uWSGI", name=SERVER),
    User("H", "uWSGI's user and group; root started uWSGI, with `uid` and `gid`", name=SERVER, started_by_root=True),
    User("I", "root", name="root"),
)
