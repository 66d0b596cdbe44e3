#!/bin/bash
# In a root, without a boot: the README's quick start, as a user of a Debian that has nothing else.
. "$(dirname "$0")/common.sh"
port=$((20000 + RANDOM % 10000))

# as_visitor COMMAND: as the ordinary user, in a shell of a login; get PATH: what the demo answers
as_visitor() { runuser -u visitor -- env HOME=/home/visitor bash -c "cd; $1"; }
get() { exec 4<>"/dev/tcp/127.0.0.1/$port" && printf 'GET %s HTTP/1.0\r\n\r\n' "$1" >&4 && cat <&4; }
counted() { get /metrics | awk '/^uwsgi_worker_requests_total/ {n += $2} END {print n + 0}'; }
running() { find /proc -maxdepth 1 -user visitor -exec readlink '{}/exe' ';' 2>/dev/null; }
export -f as_visitor get counted running
export port packages

packages=$(grep -Po 'On a fresh Debian or Ubuntu[^`]*`apt-get install \K[^`]*' /srv/source/README.md)
expect "the README names packages: $packages" 0 '[[ $packages =~ ^[a-z0-9.+\ -]+$ ]]'
expect "they can be installed" 0 'apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y install $packages'
expect "git clone" 0 'as_visitor "git clone --quiet /srv/source.git uwsgi-headroom"'

mkfifo -m 666 /tmp/keys
as_visitor "cd uwsgi-headroom && script -qefc 'make demo PORT=$port' /dev/null </tmp/keys" >/root/said &
exec 3>/tmp/keys
expect "make demo prints the address of its page" 600 'grep -q "http://127.0.0.1:$port/" /root/said'
expect "its page answers" 30 'get / | grep -qi "<!doctype html>"'
expect "it counts requests" 30 '[ $(counted) -gt 20 ]'
expect "they go on" 30 "[ \$(counted) -gt $(counted) ]"
for name in Prometheus Alertmanager; do
    expect "$name runs, and its address is printed" 30 "grep -qa '$name  *http://' /root/said && running | grep -q ${name,}"
done
expect "nothing is left out" 0 '! grep "Going on without" /root/said'
printf '\003' >&3
expect "nothing runs after Ctrl-C" 30 '! running | grep .'
rm /tmp/keys
expect "no file is left in /tmp" 0 '! ls -A /tmp | grep .'
