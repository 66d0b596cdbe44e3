# Sourced by each trial, which runs as root in the booted machine. A line "ok - ..." or "not ok - ..." is a result.
export PATH=/opt/uwsgi-headroom/bin:$PATH HOME=/root LANG=C.UTF-8
export here=$(dirname "$0")

# expect SENTENCE SECONDS COMMAND: the command succeeds within so many seconds
expect() {
    local end=$((SECONDS + $2)) said
    until said=$(bash -c "$3" 2>&1); do
        if ((SECONDS > end)); then
            echo "not ok - $1: $3"
            echo "$said" | tail -n 25 | sed 's/^/  /'
            return 1
        fi
        sleep 1
    done
    echo "ok - $1"
}

# app NAME [LINE...]: an application of Debian's uWSGI in a unit of its own, as www-data; the lines are of its ini
app() {
    local name=$1
    shift
    mkdir -p "/srv/$name"
    cp "$here/app.py" "/srv/$name/app.py"
    printf '%s\n' '[uwsgi]' 'plugin = python3' 'master = true' 'processes = 2' 'threads = 4' \
        "wsgi-file = /srv/$name/app.py" "$@" >"/etc/$name.ini"
    mkdir -p "/etc/systemd/system/$name.service.d"
    cat >"/etc/systemd/system/$name.service" <<UNIT
[Service]
User=www-data
RuntimeDirectory=$name
ExecStart=/usr/bin/uwsgi --ini /etc/$name.ini --die-on-term
ExecReload=/bin/kill -HUP \$MAINPID
[Install]
WantedBy=multi-user.target
UNIT
    systemctl daemon-reload
}

# ask PATH [SECONDS]: one request to shop; starts no program, as that takes an emulator long
ask() {
    { printf 'GET %s HTTP/1.0\r\n\r\n' "$1" >&3 && read -r -t "${2:-60}" <&3; } 2>/dev/null 3<>/dev/tcp/127.0.0.1/8000
}

# load PATH CLIENTS [PAUSE]: so many clients, each with one request at a time, until stop_load
load() {
    for _ in $(seq "$2"); do
        while :; do ask "$1" && [ -z "$3" ] || sleep "${3:-0.2}"; done &
    done
}

# stop_load: ends the clients
stop_load() {
    kill $(jobs -p) 2>/dev/null
    wait 2>/dev/null
}

# look [COMMAND...]: what check says about shop, as lines (look.py); the command, such as setpriv, runs it
look() {
    "$@" /opt/uwsgi-headroom/bin/uwsgi-headroom check --seconds "${seconds:-10}" --format json /run/shop/stats |
        tee /run/said | python3 "$here/look.py" 2>&1
}
export -f look ask

# says PATTERN: a command that succeeds if a line of look matches
says() { echo "look | tee /dev/stderr | grep -Eq '$1'"; }
