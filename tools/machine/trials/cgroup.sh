#!/bin/bash
# Quotas, limits, kills, weights and pressure of cgroups of version 2, each provoked: the findings of version 1, and names.
. "$(dirname "$0")/common.sh"
export seconds=20

# limit LINES [LINES OF THE SLICE ABOVE]: shop with these lines in its unit
limit() {
    printf '[Service]\nSlice=%s\n%b' "${2:+web.slice}" "$1" >/etc/systemd/system/shop.service.d/limit.conf
    printf '[Slice]\n%b' "$2" >/etc/systemd/system/web.slice
    systemctl daemon-reload
    systemctl restart shop
    expect "shop answers with: $1 $2" 60 'ask /'
}

expect "the machine has cgroups of version 2" 0 '[ "$(stat -fc %T /sys/fs/cgroup)" = cgroup2fs ]'
app shop "http-socket = 127.0.0.1:8000" "stats = /run/shop/stats" "memory-report = true"
limit ''
load /sleep?20 2
expect "healthy: OK" 60 "$(says '^status ok')"
stop_load

limit 'CPUQuota=50%\n'
load /burn?1000 4
expect "a quota of the unit is used up, and named" 120 "$(says '^cpu_(bound|throttled) .*/system.slice/shop.service')"
stop_load
limit '' 'CPUQuota=50%\n'
load /burn?1000 4
expect "a quota of the slice above it, by name" 120 "$(says '^cpu_(bound|throttled) .*/web.slice( |$)')"
stop_load
limit 'CPUQuota=50%\n'
load /burn?200 1 0.5
expect "a quota that is not used up on average stops requests" 120 "$(says '^cpu_throttled .*/system.slice/shop.service')"
stop_load

for part in 'MemoryMax=150M\nOOMPolicy=continue\n|' 'OOMPolicy=continue\n|MemoryMax=150M\n'; do
    limit "${part%|*}" "${part#*|}"
    expect "its limit is what is left of memory" 60 "$(says '^memory cgroup')"
    load /grow?400 1 6
    load /sleep?20 2
    expect "a worker that was killed for its memory" 240 "$(says '^out_of_memory .*memory limit of the cgroup')"
    stop_load
done

limit 'MemoryHigh=90M\n'
load /grow?5 2
expect "processes wait above memory.high" 180 "$(says '^memory_stalls ')"
stop_load

limit 'CPUWeight=1\n'
systemctl set-property --runtime trial.service CPUWeight=10000 # check and the clients run
systemd-run --quiet --unit=hog bash -c 'for _ in 1 2 3 4; do while :; do :; done & done; wait'
load /burn?200 4
expect "a neighbour of a higher weight takes the CPUs" 180 "$(says '^cpu_(wait|bound|used_by_others) ')"
systemctl stop hog
stop_load
