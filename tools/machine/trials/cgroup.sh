#!/bin/bash
# Quotas, limits and kills of cgroups of version 2, each provoked in a unit.
. "$(dirname "$0")/common.sh"
says() { echo "uwsgi-headroom check --seconds 20 --all /run/shop/stats | tr -s ' \\n' ' ' | tee /dev/stderr | grep -Eq '$1'"; }

expect "the machine has cgroups of version 2" 0 '[ "$(stat -fc %T /sys/fs/cgroup)" = cgroup2fs ]'
app shop "http-socket = 127.0.0.1:8000" "stats = /run/shop/stats" "memory-report = true"

systemctl start shop
expect "shop answers" 60 'curl -sf 127.0.0.1:8000/'
load 127.0.0.1:8000/sleep?20 2
expect "healthy: OK" 60 "$(says ' OK ')"
stop_load

printf '[Service]\nCPUQuota=50%%\n' >/etc/systemd/system/shop.service.d/limit.conf
systemctl daemon-reload; systemctl restart shop
load 127.0.0.1:8000/burn?1000 4
expect "a quota of the unit, used up, and the unit by name" 180 "$(says 'quota.*shop\.service|shop\.service.*quota')"
stop_load

printf '[Service]\nSlice=web.slice\n' >/etc/systemd/system/shop.service.d/limit.conf
printf '[Slice]\nCPUQuota=50%%\n' >/etc/systemd/system/web.slice
systemctl daemon-reload; systemctl restart shop
load 127.0.0.1:8000/burn?1000 4
expect "a quota of the slice above it, by name" 180 "$(says 'web\.slice')"
stop_load

printf '[Service]\nMemoryMax=150M\nOOMPolicy=continue\n' >/etc/systemd/system/shop.service.d/limit.conf
systemctl daemon-reload; systemctl restart shop
expect "shop answers again" 60 'curl -sf 127.0.0.1:8000/'
(sleep 8; curl -s 127.0.0.1:8000/grow?400 >/dev/null) &
load 127.0.0.1:8000/sleep?20 2
expect "a worker that was killed for its memory" 180 "curl -s --max-time 20 127.0.0.1:8000/grow?400 & $(says 'memory')"
stop_load
