#!/bin/bash
# uWSGI in a container of podman, with cgroups of version 2; the exporter on the host, and in containers beside it.
. "$(dirname "$0")/common.sh"

# A root without an image: the machine's programs, read-only. in_container NAME OPTION... -- COMMAND...
mkdir -p /srv/base/{usr,opt,mnt,proc,sys,dev,run,tmp,srv,var} /run/shop
cp -a /bin /lib* /sbin /etc /srv/base
chown www-data /run/shop
cat >/usr/local/bin/in_container <<'SH'
#!/bin/bash
name=$1
shift
while [ "$1" != -- ]; do
    options+=("$1")
    shift
done
shift
exec podman run --quiet --name "$name" --replace --user 33:33 --cap-drop all --security-opt no-new-privileges --read-only \
    -v /usr:/usr:ro -v /opt:/opt:ro -v /mnt:/mnt:ro -v /run/shop:/run/shop "${options[@]}" --rootfs /srv/base "$@"
SH
chmod +x /usr/local/bin/in_container
# beside OPTION...: what an exporter says in a container with these options
beside() {
    in_container sidecar "$@" -- /opt/uwsgi-headroom/bin/uwsgi-headroom check --seconds 10 --format json /run/shop/stats |
        tee /run/said | python3 "$here/look.py" 2>&1
}
export -f beside
of_beside() { echo "beside $1 | tee /dev/stderr | grep -Eq '$2'"; }

in_container shop -d --network none --memory 200m --cpus 0.5 -- /usr/bin/uwsgi --plugin python3 --master --processes 2 \
    --threads 4 --wsgi-file /mnt/app.py --http-socket 127.0.0.1:8000 --stats /run/shop/stats --die-on-term
client="nsenter --net=/proc/$(podman inspect -f '{{.State.Pid}}' shop)/ns/net"
expect "uWSGI answers in its container" 60 "$client curl -sf 127.0.0.1:8000/"
$client bash -c 'while :; do ask /sleep?3000 || sleep 0.2; done' &

expect "on the host: everything" 240 "$(says '^knows busy cpu queue waits')"
expect "on the host: the quota of the container" 60 "$(says '^cpus 0.5 quota')"
expect "on the host: the memory limit of the container" 60 "$(says '^memory cgroup')"
pod="--pid container:shop --network container:shop"
expect "in a pod: threads, queue and waits" 240 "$(of_beside "$pod" '^knows busy queue waits')"
expect "in a pod: why the limits are unknown" 60 "$(of_beside "$pod" '^unknown limits .*cgroup is not visible')"
host="$pod --cgroupns host -v /sys/fs/cgroup:/sys/fs/cgroup:ro"
expect "with the cgroups of the host: the quota" 60 "$(of_beside "$host" '^cpus 0.5 quota')"
expect "with the cgroups of the host: the memory limit" 60 "$(of_beside "$host" '^memory cgroup')"
expect "without the PID namespace: why nothing of processes" 60 "$(of_beside '--network container:shop' \
    '^unknown processes .*PID namespace')"
expect "without the network namespace: waits" 240 "$(of_beside '--network none --pid container:shop' '^knows busy.* waits')"

in_container exporter -d $pod -- /opt/uwsgi-headroom/bin/uwsgi-headroom --stats shop=/run/shop/stats
expect "an exporter with a read-only root serves metrics" 60 \
    "$client curl -s 127.0.0.1:9238/metrics | grep -q '^uwsgi_up{server=\"shop\"} 1'"
$client bash -c 'while sleep 6; do ask /grow?400 20; done' &
expect "a worker that was killed for its memory" 240 "$(says '^out_of_memory .*memory limit of the cgroup')"
stop_load
podman rm -f --time 2 --depend shop >/dev/null
expect "no container is left" 0 '! podman ps -aq | grep .'
