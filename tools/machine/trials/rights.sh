#!/bin/bash
# What each user sees of a uWSGI of www-data under each ptrace_scope, with /proc mounted with hidepid,
# and where AppArmor confines it or the exporter.
. "$(dirname "$0")/common.sh"

# sees USER SCOPE HIDEPID [PROFILE]: prints which of busy, cpu, queue and waits are known to a user
sees() {
    local as=$1 group=www-data capabilities=
    sysctl -q kernel.yama.ptrace_scope="$2"
    mount -o "remount,hidepid=$3" /proc
    [ "$as" = root ] && group=root
    [ "$as" = capable ] && as=nobody capabilities="--inh-caps +sys_ptrace,+dac_read_search \
        --ambient-caps +sys_ptrace,+dac_read_search"
    look ${4:+aa-exec -p $4 --} setpriv --reuid $as --regid $group --clear-groups $capabilities 2>/dev/null | sed -n 's/^knows //p'
}

app shop "http-socket = 127.0.0.1:8000" "stats = /run/shop/stats" "chmod-socket = 666"
systemctl start shop
expect "shop answers" 60 'ask /'
load /sleep?3000 4
expect "requests wait" 60 "$(says '^waits sleep')"

all="busy cpu queue waits" most="busy cpu queue" least="busy queue"
rows() {
    while read -r user scope hidepid known profile; do
        seen=$(sees "$user" "$scope" "$hidepid" $profile)
        [ "$seen" = "${!known}" ] || seen=$(sees "$user" "$scope" "$hidepid" $profile) # an emulator may be too slow for one
        [ "$seen" = "${!known}" ] && echo -n "ok" || echo -n "not ok"
        echo " - $user under ptrace_scope $scope, hidepid $hidepid, $profile sees: $seen (as expected: ${!known})"
    done
}
rows <<ROWS
root 0 0 all
www-data 0 0 all
nobody 0 0 most
capable 0 0 all
root 1 0 all
www-data 1 0 most
nobody 1 0 most
capable 1 0 all
root 2 0 all
www-data 2 0 most
capable 2 0 all
root 0 2 all
www-data 0 2 all
nobody 0 1 least
nobody 0 2 least
capable 0 2 all
ROWS

confined='file, network, unix, signal, capability, mount, /** mrwlkix,'
expect "AppArmor is on" 0 'grep -q Y /sys/module/apparmor/parameters/enabled'
apparmor_parser --replace <<PROFILES
abi <abi/3.0>,
profile shop { $confined ptrace (readby, tracedby), }
profile blind { $confined }
profile tracing { $confined ptrace (read, trace), }
PROFILES
mkdir -p /etc/systemd/system/shop.service.d
printf '[Service]\nAppArmorProfile=shop\n' >/etc/systemd/system/shop.service.d/confined.conf
systemctl daemon-reload
systemctl restart shop
expect "AppArmor confines uWSGI" 60 'ask / && grep "^shop (enforce)" /proc/$(systemctl show -p MainPID --value shop)/attr/current'
rows <<ROWS
root 0 0 all
www-data 0 0 all
root 0 0 most blind
root 0 0 all tracing
root 3 0 most
capable 3 0 most
ROWS
stop_load
