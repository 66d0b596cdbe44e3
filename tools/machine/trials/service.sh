#!/bin/bash
# The unit of deploy/systemd: its sandbox, readiness, rights, history, reload, socket, watchdog and journal.
. "$(dirname "$0")/common.sh"
unit=uwsgi-headroom metrics="curl -s --max-time 60 127.0.0.1:9238/metrics"
cp /srv/source/deploy/systemd/uwsgi-headroom.{service,socket} /etc/systemd/system/
printf 'servers:\n  - stats: /run/shop/*.stats\n' >/etc/uwsgi-headroom.yml
app shop "http-socket = 127.0.0.1:8000" "stats = /run/shop/shop.stats" "chmod-socket = 660"
systemctl start shop
expect "shop answers" 60 'curl -sf 127.0.0.1:8000/'
is() { echo "systemctl show -p $1 --value $unit | grep -Eqx '$2'"; }

expect "systemd-analyze verify says nothing" 0 "! systemd-analyze verify $unit.service $unit.socket 2>&1 | grep ."
expect "the exposure is at most 2.0" 0 \
    "systemd-analyze security --no-pager $unit.service | grep -Eq 'Overall exposure level.*: [01]\.[0-9]'"
systemctl start $unit
expect "start returns when it is ready" 0 "$(is ActiveState active)"
expect "the status names the server" 90 "$(is StatusText '1 server watched')"
expect "shop is up" 90 "$metrics | grep -q '^uwsgi_up{server=\"shop\"} 1'"
expect "the listen queue is known" 90 "$metrics | grep -q '^uwsgi_listen_queue_length.* 0'"
expect "it runs as a user of its own" 0 "! ps -o user= -p \$(systemctl show -p MainPID --value $unit) | grep -E 'root|www-data'"
expect "no waits without the right" 0 "! $metrics | grep -q ^uwsgi_wait_observed"
older=$(printf '6.2\n%s\n' "$(uname -r)" | sort -VC || echo '!')
expect "open files without the right, from Linux 6.2 on" 0 "$older $metrics | grep ^uwsgi_worker_open_fds"
install -D -m 644 /srv/source/deploy/systemd/waits.conf /etc/systemd/system/$unit.service.d/waits.conf
systemctl daemon-reload; systemctl restart $unit || journalctl -u $unit -o short-monotonic | tail -n 25
expect "waits.conf shows what threads wait for" 90 "$metrics | grep -q ^uwsgi_wait_observed"
expect "and open files" 90 "$metrics | grep -q ^uwsgi_worker_open_fds"

for _ in $(seq 10); do curl -s 127.0.0.1:8000/ >/dev/null; done
sleep 3
expect "ten requests are counted" 60 "$metrics | awk '/^uwsgi_worker_requests_total/ {n += \$2} END {exit n < 10}'"
pid=$(systemctl show -p MainPID --value $unit)
printf 'servers:\n  - stats: /run/shop/*.stats\n  - gone=/nowhere\n' >/etc/uwsgi-headroom.yml; systemctl reload $unit
expect "a reload watches the new server too" 90 "$(is StatusText '2 servers watched, 1 cannot be read')"
echo 'nonsense: 1' >>/etc/uwsgi-headroom.yml; systemctl reload $unit
expect "a broken file is reported" 90 "$(is StatusText '.*uwsgi-headroom.yml:4: unknown key.*')"
expect "reloads keep the process" 0 "$(is MainPID "$pid")"
printf 'servers:\n  - stats: /run/shop/*.stats\n' >/etc/uwsgi-headroom.yml; systemctl restart $unit
expect "the history goes on after a restart" 90 \
    "curl -s 127.0.0.1:9238/api/v2/servers/shop | python3 -c 'import json, sys; sys.exit(not json.load(sys.stdin)[\"kept_history\"][\"since\"])'"

systemctl stop $unit; systemctl start $unit.socket
expect "only the socket is there" 0 "$(is ActiveState inactive)"
expect "the first request starts it" 90 "$metrics | grep -q ^uwsgi_up"
systemctl --no-block restart $unit
expect "a restart refuses no scrape" 0 "for i in \$(seq 20); do $metrics -f -o /dev/null || exit 1; done"

expect "it is active before it is stopped" 60 "$(is ActiveState active)"
kill -STOP "$(systemctl show -p MainPID --value $unit)"
expect "the watchdog restarts one that was stopped" 180 "$(is NRestarts '[1-9].*') && $metrics | grep -q ^uwsgi_up"
expect "the journal has its lines and no traceback" 0 \
    "journalctl -u $unit -o cat | grep -q level=info && ! journalctl -u $unit -o cat | grep -v -i watchdog | grep -q ^Traceback"
