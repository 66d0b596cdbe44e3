"""What `discover` prints is read as a person reads it."""

from __future__ import annotations

from tools.stats_trial import trial

PRINTED = """\
blog: uWSGI 2.0.31, 2 workers
  master 80 of user blog, /etc/blog.ini, in /srv
  unix:///run/uwsgi/app/blog/stats

shop: no stats server (master 81 of user shop, /etc/shop.ini, in /)

  1. Make a directory for the stats socket, now and at each
  boot:

    echo 'd /run/uwsgi/app/shop 2750 shop shop -' > /etc/tmpfiles.d/shop.conf
    systemd-tmpfiles --create shop.conf

  2. Add at the end of /etc/shop.ini; its Emperor reloads it:

    if-dir = /run/uwsgi/app/shop
      stats = /run/uwsgi/app/shop/stats

    endif =

  3. Reload uWSGI:
     systemctl reload shop
  4. See that your application still answers, then run `discover` again: it lists
  the stats server of shop.

  Tried: user shop can bind a socket there.
  Note: nothing.

other: no stats server (master 82 of user shop)
  No steps are proposed: its configuration file is not known.

To watch them all:
  uwsgi-headroom --stats blog=unix:///run/uwsgi/app/blog/stats \\
    --stats 'cart 2=/run/cart'
"""


def test_steps_are_commands_lines_of_a_file_or_advice() -> None:
    """Lines are indented by four; headings go on with less; what follows the last step belongs to none."""
    blog, shop, other = trial.blocks(PRINTED)
    make, add, reload, look = shop.steps
    assert (blog.name, blog.steps, shop.name, other.name, other.steps) == ("blog", (), "shop", "other", ())
    assert make.lines.splitlines() == [
        "echo 'd /run/uwsgi/app/shop 2750 shop shop -' > /etc/tmpfiles.d/shop.conf",
        "systemd-tmpfiles --create shop.conf",
    ]
    assert not make.file
    assert add.file == "/etc/shop.ini"
    assert add.lines == "if-dir = /run/uwsgi/app/shop\n  stats = /run/uwsgi/app/shop/stats\n\nendif ="
    assert (reload.lines, reload.reloads, add.reloads) == ("systemctl reload shop", True, False)
    assert look.heading.endswith("it lists the stats server of shop.")
    assert not look.lines


def test_the_command_that_watches_is_read_over_its_lines() -> None:
    """Its addresses are those that are tried afterwards."""
    assert trial.stats_addresses(PRINTED) == {"blog": "unix:///run/uwsgi/app/blog/stats", "cart 2": "/run/cart"}
    assert trial.watch_command(PRINTED)[:2] == ["uwsgi-headroom", "--stats"]
    assert trial.watch_command("No uWSGI master runs here.") == []
