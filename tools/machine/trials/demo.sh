#!/bin/bash
# In a root, without a boot: the README's quick start, as a user of a Debian that has nothing else.
. "$(dirname "$0")/common.sh"
port=$((20000 + RANDOM % 10000))

running() { find /proc -maxdepth 1 -user visitor -exec readlink '{}/exe' ';' 2>/dev/null; }
export -f running
export port packages

packages=$(grep -Po 'A fresh Debian or Ubuntu[^`]*`apt-get install \K[^`]*' /srv/source/README.md)
expect "the README names packages: $packages" 0 '[[ $packages =~ ^[a-z0-9.+\ -]+$ ]]'
expect "they can be installed" 0 'DEBIAN_FRONTEND=noninteractive apt-get -qq -y install $packages'
expect "git clone" 0 'as_visitor "git clone --quiet /srv/source.git uwsgi-headroom"'

mkfifo -m 666 /tmp/keys
as_visitor "cd uwsgi-headroom && script -qefc 'make demo PORT=$port' /dev/null </tmp/keys" >/run/said &
exec 3>/tmp/keys
expect "make demo prints the address of its page" 600 'grep -q "http://127.0.0.1:$port/" /run/said'
expect "its page answers" 30 'get $port / | grep -qi "<!doctype html>"'
expect "it counts requests" 30 '[ $(counted $port) -gt 20 ]'
expect "they go on" 30 "[ \$(counted $port) -gt $(counted $port) ]"
for name in Prometheus Alertmanager; do
    expect "$name runs, and its address is printed" 30 "grep -qa '$name  *http://' /run/said && running | grep -q ${name,}"
done
expect "nothing is left out" 0 '! grep "Going on without" /run/said'
printf '\003' >&3
expect "nothing runs after Ctrl-C" 30 '! running | grep .'
rm /tmp/keys
expect "no file is left in /tmp" 0 '! ls -A /tmp | grep .'
