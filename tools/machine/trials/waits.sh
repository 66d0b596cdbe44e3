#!/bin/bash
# What threads wait for, as the application makes them: each wait alone, by the system calls of this architecture.
. "$(dirname "$0")/common.sh"

# mostly STATES PERCENT: this part of the busy threads is in these states
mostly() {
    look | tee /dev/stderr | awk -v "least=$2" "\$1 == \"waits\" && \$2 ~ /^($1)\$/ {n += \$3} END {exit n < least}"
}
export -f mostly

backend
head -c 40000 /dev/zero >/tmp/body

app shop "http-socket = 127.0.0.1:8000" "stats = /run/shop/stats" "enable-threads = true"
systemctl start shop
expect "shop answers" 60 'ask /'
while read -r path state least; do
    if [ "$path" = "/read?0" ]; then
        for _ in 1 2 3 4 5 6; do
            while :; do curl -s -o /dev/null --limit-rate 4k --data-binary @/tmp/body -H Expect: "127.0.0.1:8000$path"; done &
        done
    else
        load "$path" 6
    fi
    expect "$path: at least $least % of the busy threads are in $state" 120 "mostly '$state' $least"
    stop_load
    sleep 12
done <<ROWS
/sleep?2000 sleep 80
/lock?2000 lock|sleep 80
/read?0 client 80
/ask?1 backend 80
/poll?1 backend 80
/pipe?1 pipe|child 80
/burn?2000 interpreter_lock|cpu|cpu_wait 80
/burn?2000 interpreter_lock 25
ROWS
expect "lines of code of the threads that sleep" 180 \
    "ask /sleep?20000 & uwsgi-headroom check --code --all --seconds 10 /run/shop/stats | grep -q 'app.py'"
stop_load
