# Sourced by each trial, which runs as root in the booted machine. A line "ok - ..." or "not ok - ..." is a result.
export PATH=/opt/uwsgi-headroom/bin:$PATH HOME=/root LANG=C.UTF-8
export here=$(dirname "$0")
echo # the BIOS has left its line unended

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

# ask PATH [SECONDS], get PORT PATH: one request to shop; what a port answers. They start no program of their own, as that
# takes an emulator long, and there is no curl in a bare root.
ask() {
    { printf 'GET %s HTTP/1.0\r\n\r\n' "$1" >&3 && read -r -t "${2:-60}" <&3; } 2>/dev/null 3<>/dev/tcp/127.0.0.1/8000
}
get() { { printf 'GET %s HTTP/1.0\r\n\r\n' "$2" >&3 && cat <&3; } 3<>"/dev/tcp/127.0.0.1/$1"; }

# counted PORT: the requests that an exporter has counted
counted() { get "$1" /metrics | awk '/^uwsgi_worker_requests_total/ {n += $2} END {print n + 0}'; }

# as_visitor COMMAND: as the ordinary user of a bare root
as_visitor() { runuser -u visitor -- env HOME=/home/visitor bash -c "cd; $1"; }

# load PATH CLIENTS [PAUSE]: so many clients, each with one request at a time, until stop_load
load() {
    for _ in $(seq "$2"); do
        while :; do ask "$1" && [ -z "$3" ] || sleep "${3:-0.2}"; done &
    done
}

# backend: one that answers each line at port 7000 after 400 ms
backend() {
    cat >/usr/local/bin/backend <<'PY'
#!/usr/bin/python3
import socketserver, time
class Answer(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            time.sleep(0.4)
            self.wfile.write(line)
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
Server(("127.0.0.1", 7000), Answer).serve_forever()
PY
    chmod +x /usr/local/bin/backend
    systemd-run --quiet --unit=backend /usr/local/bin/backend
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
export -f look ask get counted as_visitor

# says PATTERN: a command that succeeds if a line of look matches
says() { echo "look | tee /dev/stderr | grep -Eq '$1'"; }
