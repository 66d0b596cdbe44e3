#!/bin/bash
# What each user sees of a uWSGI of www-data under each ptrace_scope: threads that are busy, and what they wait for.
. "$(dirname "$0")/common.sh"

# sees USER SCOPE: prints which of busy, cpu and waits are known to a user
sees() {
    sysctl -q kernel.yama.ptrace_scope="$2"
    local check="/opt/uwsgi-headroom/bin/uwsgi-headroom check --seconds 8 --format json /run/shop/stats"
    [ "$1" = capable ] && set -- www-data "$2" && check="setpriv --reuid nobody --regid www-data --clear-groups \
        --inh-caps +sys_ptrace,+dac_read_search --ambient-caps +sys_ptrace,+dac_read_search $check" || check="setpriv \
        --reuid $1 --regid $([ "$1" = root ] && echo root || echo www-data) --clear-groups $check"
    $check 2>/dev/null | python3 -c '
import json, sys
server = json.load(sys.stdin)
found = server.get("servers", [server])[0]
waits = found["waits"] and sum(each["threads"] for each in found["waits"]["states"] if each["state"] == "sleep")
known = {"busy": found["threads"]["busy"], "cpu": found["cpu"], "queue": found["sockets"][0]["measurable"], "waits": waits}
print(" ".join(name for name, each in known.items() if each))'
}

app shop "http-socket = 127.0.0.1:8000" "stats = /run/shop/stats" "chmod-socket = 666"
systemctl start shop
expect "shop answers" 60 'curl -sf 127.0.0.1:8000/'
load 127.0.0.1:8000/sleep?3000 4
expect "requests wait" 60 "uwsgi-headroom check --seconds 5 /run/shop/stats | grep -q 'at once for 8 threads'"

all="busy cpu queue waits" most="busy cpu queue"
while read -r user scope known; do
    seen=$(sees "$user" "$scope")
    [ "$seen" = "${!known}" ] || seen=$(sees "$user" "$scope") # a busy emulator may be too slow for one look
    case $seen in
        "${!known}") echo "ok - $user under ptrace_scope $scope sees: $seen" ;;
        *) echo "not ok - $user under ptrace_scope $scope sees: $seen (expected: ${!known})" ;;
    esac
done <<ROWS
root 0 all
www-data 0 all
nobody 0 most
capable 0 all
root 1 all
www-data 1 most
nobody 1 most
capable 1 all
root 2 all
www-data 2 most
capable 2 all
root 3 most
capable 3 most
ROWS
stop_load
