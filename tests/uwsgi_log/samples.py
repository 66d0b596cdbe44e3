"""Lines of uWSGI's log, one for each pattern of a known message.

Each is a format string of uWSGI's source with its values filled in: of 2.0.31, unless a comment names another version.
`test_real_uwsgi.py` has those that a real uWSGI wrote.
"""

import re

DATE = "Wed Nov 25 18:54:16 2026 - "
"""Before all lines with `log-date`, and before some without."""

_TABLE = r"""
http_on_uwsgi_socket: invalid request block size: 21573 (max 4096)...skip
head_too_large: invalid request block size: 5000 (max 4096)...skip
head_too_large: invalid HTTP request size (max 4096)...skip
head_too_large: invalid HTTPS request size (max 4096)...skip
head_too_large: invalid SCGI request size (max 4096)...skip
variable_too_large: not enough buffer space to add HTTP_COOKIE variable, consider increasing it with the \
--buffer-size option
variable_too_large: not enough buffer space to transform the PATH_INFO variable, consider increasing it with the \
--buffer-size option
variable_too_large: not enough space in wsgi_req http proto_parser_buf to decode PATH_INFO, consider tuning it with \
--buffer-size
variable_too_large: unable to add UWSGI_APPID to the uwsgi buffer, consider increasing it
variable_too_large: [WARNING] unable to add HTTP_COOKIE=a=b to uwsgi packet, consider increasing buffer size
too_many_variables: max vec size reached. skip this header.
too_many_variables: max vec size reached for PATH_INFO + index. skip
body_too_large: Invalid (too big) CONTENT_LENGTH. skip.
bad_packet: invalid uwsgi request (current strsize: 20300). skip.
bad_packet: invalid uwsgi array. skip this var.
bad_packet: uwsgi key cannot be null. skip this request.
bad_http: <date>invalid HTTP request
tls_on_uwsgi_socket: -- unavailable modifier requested: 22 --
modifier_unavailable: -- unavailable modifier requested: 5 --
no_python_application: --- no python application found, check your startup logs for errors ---
empty_request: Empty python request. skip.
bad_response: [ERROR] Unhandled object from iterator: <object object at 0x7f> (0x7f)
bad_response: invalid Pump response (body).
bad_response: invalid Web3 response.
body_in_memory: [uwsgi-warning] you are using readline() on request body allocating over than 3 MB, that is really \
bad and can be avoided...
body_in_memory: [uwsgi-warning] you are using read() on request body allocating over than 3 MB, that is really bad \
and can be avoided...
body_timeout: [uwsgi-body-read] Timeout reading 10 bytes. Content-Length: 10 consumed: 0 left: 10
body_aborted: [uwsgi-body-read] Error reading 10 bytes. Content-Length: 10 consumed: 0 left: 10 message: Client \
closed connection
head_aborted: uwsgi_proto_http_parser() -> client closed connection
head_aborted: uwsgi_proto_https_parser() -> client closed connection
client_left: <date>SIGPIPE: writing to a closed pipe/socket/fd (probably the client disconnected) !!!
client_left: <date>SIGPIPE: writing to a closed pipe/socket/fd (probably the client disconnected) on request /?key=1 \
(ip 10.0.0.7) !!!
write_error: <date>uwsgi_response_write_body_do(): Broken pipe [core/writer.c line 341] during GET /?key=1 (10.0.0.7)
write_error: <date>uwsgi_response_sendfile_do() Connection reset by peer [core/writer.c line 655]<space>
write_error: OSError: write error
write_error: IOError: write error
write_timeout: uwsgi_response_write_body_do() TIMEOUT !!!
write_timeout: uwsgi_simple_write() TIMEOUT !!!
killed_by_signal: DAMN ! worker 2 (pid: 4711) died, killed by signal 11 :( trying respawn ...
killed_by_signal: DAMN ! worker 2 (pid: 4711) MISTERIOUSLY killed by signal 9 :( trying respawn ...
worker_died: DAMN ! worker 2 (pid: 4711) died :( trying respawn ...
segmentation_fault: !!! uWSGI process 4711 got Segmentation Fault !!!
floating_point_exception: !!! uWSGI process 4711 got Floating Point Exception !!!
harakiri: <date>*** HARAKIRI ON WORKER 2 (pid: 4711, try: 1, graceful: yes) ***
# of 2.0.18:
harakiri: <date>*** HARAKIRI ON WORKER 2 (pid: 4711, try: 1) ***
harakiri_skipped: <date>HARAKIRI: Skipping harakiri on worker 2. Listen queue is smaller than the threshold (0 < 5)
harakiri_other: *** HARAKIRI ON MULE 1 (pid: 4711) ***
harakiri_other: *** HARAKIRI ON MULE 1 HANDLING SIGNAL 7 (pid: 4711) ***
harakiri_other: *** HARAKIRI ON THE SPOOLER (pid: 4711) ***
harakiri_other: *** HARAKIRI ON CRON "true" (pid: 4711) ***
harakiri_other: *** HARAKIRI ON GATEWAY uWSGI http 1 (pid: 4711) ***
respawning_too_fast: worker respawning too fast !!! i have to sleep a bit (2 seconds)...
mercy_kill: <date>worker 2 (pid: 4711) is taking too much time to die...NO MERCY !!!
mercy_kill_other: <date>mule 1 (pid: 4711) is taking too much time to die...NO MERCY !!!
mercy_kill_other: <date>spooler 1 (pid: 4711) is taking too much time to die...NO MERCY !!!
exception_respawn: ... monitored exception detected, respawning worker 2 (pid: 4711)...
inconsistent_worker: !!! inconsistent state reported by worker 2 (pid: 4711) !!!
evil_reload: *** EVIL RELOAD ON WORKER 2 RSS: 104857600 (pid: 4711) ***
evil_reload: *** EVIL RELOAD ON WORKER 2 ADDRESS SPACE: 104857600 (pid: 4711) ***
lifetime_reached: worker 2 lifetime reached, it was running for 61 second(s)
worker_finished: ...The work of process 4711 is done. Seeya!
deadlock_recovered: [deadlock-detector] a process holding a robust mutex died. recovering...
deadlock_recovered: [deadlock-detector] pid 4711 was holding lock thunder (0x7f)
application_not_loaded: unable to load app 0 (mountpoint='') (callable not found or import error)
no_application_loaded: *** no app loaded. GAME OVER ***
no_application_loaded: *** no app loaded. going in full dynamic mode ***
no_callable: unable to find "application" callable in file app.py
no_callable: "application" must be a callable object in file app.py
failed_in_worker: OOPS ! failed loading app in worker 2 (pid 4711)
failed_in_worker: OOPS ! failed loading app in worker 2 (pid 4711) :( trying again...
need_app_ends: <date>need-app requested, destroying the instance...
too_many_applications: ERROR: you cannot load more than 64 apps in a worker
too_many_applications: FATAL ERROR: you cannot load more than 64 apps in a worker
started: *** Starting uWSGI 2.0.31 (64bit) on [Wed Nov 25 18:54:16 2026] ***
master_reloaded: gracefully (RE)spawned uWSGI master process (pid: 4711)
worker_spawned: Respawned uWSGI worker 2 (new pid: 4711)
worker_spawned: spawned uWSGI worker 2 (pid: 4711, cores: 4)
worker_spawned: spawned uWSGI worker 1 (and the only) (pid: 4711, cores: 1)
reload_began: ...gracefully killing workers...
brutal_reload: ...brutally killing workers...
stop_began: SIGINT/SIGTERM received...killing workers...
# of 2.0.18:
stop_began: SIGINT/SIGQUIT received...killing workers...
stop_gracefully: <date>graceful shutdown triggered...
ended: goodbye to uWSGI.
ended: uWSGI: GAME OVER (insert coin)
worker_buried: worker 2 buried after 1 seconds
chain_reload_began: <date>chain reload starting...
chain_reload_waits: <date>chain is still waiting for worker 2...
chain_reload_ended: <date>chain reloading complete
file_touched: <date>*** /srv/shop/reload has been touched... grace them all !!! ***
file_touched: <date>*** /srv/shop/reload has been touched... chain reload !!! ***
requests_awaited: <date>waiting for 3 running requests on worker 2 (pid: 4711)...
paused: <date>*** PAUSE (press start to resume, if you do not have a joypad send SIGTSTP) ***
resumed: <date>*** (SIGTSTP received) resuming workers ***
idle_cheaped: workers have been inactive for more than 60 seconds (100-160)
listen_queue_full: <date>*** uWSGI listen queue of socket "127.0.0.1:3031" (fd: 3) full !!! (101/100) ***
cache_full: *** DANGER cache "default" is FULL !!! ***
cache_not_stored: [cache-error] unable to store "key" in "default"
cache_not_stored: [cache] unable to store item a=b
mule_queue_full: *** MULE MSG QUEUE IS FULL: buffer size 65536 bytes (you can tune it with --mule-msg-size) ***
signal_queue_full: *** SIGNAL QUEUE IS FULL: buffer size 65536 bytes (you can tune it with --signal-bufsize) ***
signal_queue_full: could not deliver signal 7 to workers pool
async_queue_full: <date>[DANGER] async queue is full !!!
no_more_workers: [busyness] 12 requests in listen queue but we are already started maximum number of workers (4)
no_more_workers: [busyness] 30s average busyness is at 80% but we already started maximum number of workers available \
with current limits (4)
spooler_refuses: [uwsgi-spooler] args buffer is limited to 64k, use the 'body' for bigger values
spooler_refuses: [uwsgi-spooler] no spooler available
spooler_refuses: unable to find the spooler function, have you loaded it into the spooler process ?
helper_died: OOOPS mule 1 (pid: 4711) crippled...trying respawn...
helper_ended: OOOPS the spooler is no more...trying respawn...
helper_ended: mule 1 (pid: 4711) annihilated
helper_ended: gateway 1 (uWSGI http 1, pid: 4711) annihilated
helper_ended: spooler (pid: 4711) annihilated
vassal_refused: [emperor-tyrant] invalid permissions for vassal shop.ini
out_of_memory: !!! tried memory allocation of 1048576 bytes !!!
out_of_memory: unable to allocate 1048576 bytes (1MB)
out_of_memory: fork(): Cannot allocate memory [core/master_utils.c line 766]
out_of_memory: malloc(): Cannot allocate memory [core/utils.c line 1780]
out_of_memory: mmap(): Cannot allocate memory [core/utils.c line 2238]
out_of_memory: OSError: [Errno 12] Cannot allocate memory
out_of_memory: MemoryError
out_of_memory: MemoryError: Unable to allocate output buffer.
fork_failed: fork(): Resource temporarily unavailable [core/master_utils.c line 766]
threads_not_started: pthread_create(): Resource temporarily unavailable [core/loop.c line 60]
threads_not_started: unable to start offload thread 0 for worker 1 !!!
threads_not_started: RuntimeError: can't start new thread
descriptors_out: OSError: [Errno 24] Too many open files: '/srv/shop/data'
descriptors_out: accept(): Too many open files [core/socket.c line 1463]
descriptors_out: socket(): Too many open files [core/socket.c line 82]
descriptors_out: open("/dev/null"): Too many open files [core/socket.c line 1820]
ports_used_up: OSError: [Errno 99] Cannot assign requested address
body_not_buffered: <date>uwsgi_postbuffer_do_in_disk()/fwrite(): No space left on device [core/reader.c line 606] \
during POST /
disk_full: OSError: [Errno 28] No space left on device
disk_full: open("/tmp/uwsgi"): No space left on device [core/spooler.c line 286]
bind_failed: bind(): Permission denied [core/socket.c line 230]
bind_failed: probably another instance of uWSGI is running on the same address (127.0.0.1:3031).
bind_failed: unable to create server socket on: 127.0.0.1:3031
queue_above_somaxconn: Listen queue size is greater than the system max net.core.somaxconn (128).
directory_missing: chdir(): No such file or directory [core/uwsgi.c line 2637]
plugin_missing: !!! UNABLE to load uWSGI plugin: ./python3_plugin.so: cannot open shared object file !!!
plugin_missing: unable to load plugin "python3"
no_request_plugin: no request plugin is loaded, you will not be able to manage requests.
processes_limited: !!! number of workers adjusted to 3 due to system limits !!!
files_below_cores: - your current max open files limit is 1024, this is lower than requested async cores !!! -
unknown_option: [strict-mode] unknown config directive: procceses
threads_off: *** Python threads support is disabled. You can enable it with --enable-threads ***
threads_off: !!! Running gevent without threads IS NOT recommended, enable them with --enable-threads !!!
no_master: *** WARNING: you are running uWSGI without its master process manager ***
affinity_failed: sched_setaffinity(): Invalid argument [core/utils.c line 3688]
affinity_failed: unable to initialize cpu affinity !!!
harakiri_without_buffering:  *** WARNING: you have enabled harakiri without post buffering. Slow upload could be \
rejected on post-unbuffered webservers ***<space>
harakiri_without_buffering: *** WARNING: you have enabled harakiri without post buffering.
emperor_lost: <date>lost communication with the Emperor, goodbye...
emperor_lost: <date>!!! Emperor died !!!
traceback: Traceback (most recent call last):\nKeyError: 'x'
status_5xx: [pid: 4711|app: 0|req: 1/2] 10.0.0.7 () {28 vars in 316 bytes} [Wed Nov 25 18:54:16 2026] GET /?key=1 => \
generated 3 bytes in 5 msecs (HTTP/1.1 503) 2 headers in 64 bytes (1 switches on core 0)
status_5xx: [pid: 4711|app: 0|req: 1/2] 10.0.0.7 (ann) {28 vars in 316 bytes} [Wed Nov 25 18:54:16 2026] GET /a => \
generated 3 bytes in 5 msecs via sendfile() (HTTP/2.0 500) 2 headers in 64 bytes (1 switches on core 0)
status_4xx: [pid: 4711|app: -1|req: -1/2] 10.0.0.7 () {28 vars in 316 bytes} [Wed Nov 25 18:54:16 2026] GET /b => \
generated 0 bytes in 0 msecs (HTTP/1.1 404) 2 headers in 64 bytes (0 switches on core 0)
"""
"""Each line with its message. `<date>`, `<space>`: a date, and a space at the end; `\\n`: a line break. A line that
ends with a backslash goes on in the next one."""

SAMPLES: dict[str, tuple[str, ...]] = {}
for _line in re.sub(r"\\\n|^#.*\n", "", _TABLE, flags=re.MULTILINE).strip().split("\n"):
    _code, _, _text = _line.partition(": ")
    _text = _text.replace("<date>", DATE).replace("<space>", " ").replace("\\n", "\n")
    SAMPLES[_code] = (*SAMPLES.get(_code, ()), _text)
