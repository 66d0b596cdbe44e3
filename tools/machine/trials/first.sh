#!/bin/bash
# The first answer about a uWSGI without stats, healthy, then sick in three ways: the program without an argument in a
# terminal, and `check` without an address, name the cause.
. "$(dirname "$0")/common.sh"
alone() { script -qec uwsgi-headroom /dev/null </dev/null; }
unnamed() { uwsgi-headroom check </dev/null; }
export -f alone unnamed

backend
app shop "http-socket = 127.0.0.1:8000" "enable-threads = true"
systemctl start shop
expect "shop answers" 60 'ask /'
while read -r path clients answer; do
    load "$path" "$clients"
    for way in alone unnamed; do
        expect "$path, $way: $answer" 300 "$way | tee /dev/stderr | tr -s '\r\n ' ' ' | grep -Eq '$answer'"
    done
    stop_load
    systemctl restart shop
done <<ROWS
/sleep?20 2 OK Headroom [0-9.]+x
/ask?1 10 the threads wait for backend at 127.0.0.1:7000
/lock?2000 10 the threads wait for a lock of the application
/sleep?2000 10 threads are (busy|in use)
ROWS
