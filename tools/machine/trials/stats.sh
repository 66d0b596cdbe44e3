#!/bin/bash
# What `discover` prints, followed to the letter: Debian's own uWSGI, units with and without RuntimeDirectory, an Emperor
# of two users; then a reboot. After each step the application answers, and at the end its stats.
. "$(dirname "$0")/common.sh"
useradd --system --user-group uwsgi-headroom 2>/dev/null
names="debian shop bare blue green"

discover() { uwsgi-headroom discover --user uwsgi-headroom; }
export -f discover

# follow NAME: does what `discover` prints about one server
follow() {
    discover >/tmp/said 2>&1
    sed -n "/^$1:/,/^\S*:/p" /tmp/said
    python3 - "$1" <<'PYTHON' >/tmp/steps
import re, sys
blocks = re.split(r"\n(?=\S)", open("/tmp/said").read())
block = next((each for each in blocks if each.startswith(sys.argv[1] + ":")), "")
for step in re.split(r"\n  (?=\d\. )", block)[1:]:
    head, *lines = step.splitlines()
    code = [line[4:] for line in lines if line.startswith("    ")]
    if added := re.search(r"dd at the end of (/\S+?)[,:;]", head):
        print(f"cat >>{added[1]} <<'LINES'\n" + "\n".join(code) + "\nLINES")
    elif code:
        print("\n".join(code))
PYTHON
    bash -e /tmp/steps
}

if ! [ -e /var/lib/booted ]; then
    touch /var/lib/booted
    mkdir -p /srv/debian /etc/vassals && cp "$here/app.py" /srv/debian/
    printf '%s\n' '[uwsgi]' 'plugin = python3' 'processes = 2' 'wsgi-file = /srv/debian/app.py' \
        'http-socket = 127.0.0.1:8001' >/etc/uwsgi/apps-available/debian.ini
    ln -s ../apps-available/debian.ini /etc/uwsgi/apps-enabled/
    service uwsgi restart
    app shop "http-socket = 127.0.0.1:8002"
    app bare "http-socket = 127.0.0.1:8003"
    sed -i /RuntimeDirectory/d /etc/systemd/system/bare.service
    for name in blue green; do
        useradd --system --user-group $name
        printf '%s\n' '[uwsgi]' 'plugin = python3' 'master = true' "uid = $name" "gid = $name" \
            'wsgi-file = /srv/debian/app.py' "http-socket = 127.0.0.1:$([ $name = blue ] && echo 8004 || echo 8005)" \
            >/etc/vassals/$name.ini
    done
    app emperor
    sed -i -e 's,^ExecStart=.*,ExecStart=/usr/bin/uwsgi --emperor /etc/vassals --die-on-term,' -e /User/d \
        /etc/systemd/system/emperor.service
    systemctl daemon-reload
    systemctl enable -q shop bare emperor
    systemctl start shop bare emperor
    port=8001
    for name in $names; do
        expect "$name answers" 60 "curl -sf 127.0.0.1:$port/"
        follow $name
        sed 's/^/    /' /tmp/steps
        expect "$name answers after the steps" 60 "curl -sf 127.0.0.1:$port/"
        expect "$name has stats" 120 "discover | grep -q '^$name: uWSGI 2'"
        port=$((port + 1))
    done
    systemctl reboot --force
    exit
fi
port=8001
for name in $names; do
    expect "$name answers after a reboot" 90 "curl -sf 127.0.0.1:$port/"
    expect "$name has stats after a reboot" 120 "discover | grep -q '^$name: uWSGI 2'"
    port=$((port + 1))
done
