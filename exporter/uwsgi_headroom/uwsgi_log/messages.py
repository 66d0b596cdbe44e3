"""The messages of uWSGI's log that are known: how each begins, what it means, and what proves it.

The texts are those of uWSGI 2.0.18 to 2.0.31; the comments name the files of its source. A pattern is as much of the
beginning of a line, behind the date that uWSGI may write before it, as tells the message from others. It takes time in
proportion to the line: it has no repetition inside a repetition. This module imports nothing of the package, because
findings are made of its words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from signal import Signals
from typing import Literal, NamedTuple

Counter = Literal["respawns", "harakiris", "exceptions", "read_errors", "write_errors", "cache_full", "uncalled"]
Proof = Literal["pid_gone", Counter, "request_line", "queue_full", "no_application"]
"""What proves a message, in the 5 s before and after it.

pid_gone: the process that it names was a worker's, and is gone. A counter of uWSGI's has grown, by one for each line;
uncalled: requests were counted for which uWSGI called no application. request_line: the numbers in the line of a
request are those of a worker. queue_full: a listen queue was at its limit. no_application: a worker accepts requests
and has no application loaded.
"""

Role = Literal["rejected", "failed", "setting", "known", "event"]
"""What becomes of a message. rejected: requests that no application saw; failed: something that uWSGI could not do;
setting: an option that has no effect. Each of these has a finding of its own. known: another finding quotes the log.
event: it is worth a line in the journal."""


class Message(NamedTuple):
    """One known message. says: what uWSGI reports, as a clause; harm: why that matters; change: what to do;
    proof: None if nothing can prove it."""

    code: str
    role: Role
    proof: Proof | None
    says: str
    patterns: tuple[bytes, ...]
    harm: str
    change: str


_TABLE = r"""
# Requests that uWSGI refuses: proto/uwsgi.c, http.c, scgi.c and base.c, core/protocol.c, core/uwsgi.c.
http_on_uwsgi_socket rejected -: clients speak HTTP to a socket of the uwsgi protocol
  == invalid request block size: <letters> \(max <n>\)\.\.\.skip
  !! uWSGI takes the letters of GET or POST for a size, and closes the connection without a response.
  >> Let the web server speak uwsgi (`uwsgi_pass`), or let uWSGI serve HTTP (`http-socket`).
head_too_large rejected -: uWSGI refuses requests with headers larger than `buffer-size`
  == invalid (?:request block size: <n>|(?:HTTPS?|SCGI) request size) \(max <limit>\)\.\.\.skip
  !! <uncounted>
  >> Raise `buffer-size` ({limit}) above the size of the largest headers (32768 usually suffices).
variable_too_large rejected -: uWSGI drops request variables that do not fit into `buffer-size`
  == not enough buffer space to | not enough space in wsgi_req http proto_parser_buf
  == unable to add UWSGI_APPID to the uwsgi buffer | \[WARNING\] unable to add
  !! The application gets the request without one of its headers, or does not get the request at all.
  >> Raise `buffer-size` above the size of the largest headers (32768 usually suffices).
too_many_variables rejected uncalled: uWSGI refuses requests that have more variables than `max-vars` allows
  == max vec size reached
  !! <unanswered>
  >> Raise `max-vars`.
body_too_large rejected uncalled: uWSGI refuses requests with a body larger than `limit-post`
  == Invalid \(too big\) CONTENT_LENGTH\. skip\.
  !! <unanswered>
  >> Raise `limit-post`, or refuse such bodies in the web server, which can respond with status 413.
bad_packet rejected uncalled: uWSGI refuses requests that do not follow the uwsgi protocol
  == invalid uwsgi request \(current strsize: <n>\) | invalid uwsgi array\. skip | uwsgi key cannot be null\. skip
  !! <unanswered>
  >> Let the web server speak the socket's protocol: `uwsgi_pass`, or `proxy_pass` for `http-socket`.
bad_http rejected -: uWSGI refuses requests that are not HTTP == invalid HTTP request$
  !! <uncounted>
  >> Check the client: it may speak TLS, uwsgi or PROXY (`enable-proxy-protocol`) in place of HTTP.
tls_on_uwsgi_socket rejected uncalled: clients speak TLS to a socket of the uwsgi protocol
  == -- unavailable modifier requested: 22 --
  !! uWSGI takes the first byte of TLS for the modifier 22, and closes the connection without a response.
  >> Let the web server speak uwsgi without TLS (`uwsgi_pass`), or let uWSGI serve TLS (`https`).
modifier_unavailable rejected uncalled: no plugin serves the requests that the web server passes on
  == -- unavailable modifier requested: <limit> --
  !! <unanswered>
  >> Load the plugin of the application's language, or correct `uwsgi_modifier1` (now {limit}).
no_python_application rejected uncalled: uWSGI has no Python application for requests
  == --- no python application found
  !! uWSGI itself answers these requests with status 500.
  >> If this began with a deploy, roll it back. With `mount`, compare its paths with the requests'.
empty_request rejected uncalled: uWSGI gets requests without any variables == Empty python request\. skip\.
  !! The client gets an error, and the application does not see the request.
  >> Include `uwsgi_params` in the web server's `location` block that passes requests to uWSGI.
static_refused rejected -: uWSGI refuses files outside of `static-map` == \[uwsgi-fileserve\] security error:
  !! Clients get status 404. >> If links lead there, set `static-safe` to their directory.
bad_response rejected -: the application returns bodies that are not bytes
  == \[ERROR\] Unhandled object from iterator | invalid (?:Pump|Web3) response
  !! uWSGI leaves out the parts of the response that are not bytes.
  >> Return bytes from the application, not text or other objects.
body_in_memory setting -: the application reads each large request body in a single call
  == \[uwsgi-warning\] you are using read(?:line)?\(\) on request body
  !! The whole body of each such request is held in memory.
  >> Limit the size of bodies in the web server, and read them in pieces or set `post-buffering`.
# Clients: core/writer.c, core/reader.c, core/uwsgi.c, proto/http.c, plugins/python.
body_timeout known exceptions: clients send their request bodies too slowly for `socket-timeout`
  == \[uwsgi-body-read\] Timeout reading
body_aborted event -: clients disconnect while they send a request body == \[uwsgi-body-read\] Error reading
head_aborted event -: clients disconnect while they send request headers
  == uwsgi_proto_https?_parser\(\) -> client closed connection
client_left known write_errors: a process writes to a closed connection, a client's or its own
  == SIGPIPE: writing to a closed pipe/socket/fd
write_error known write_errors: responses cannot be written to clients
  == uwsgi_response_[a-z_]{1,40}_do\(\):? (?!TIMEOUT)[A-Z][^\[]{1,60}\[core/writer\.c line | OSError: write error$
  == IOError: write error$
write_timeout known write_errors: clients do not read their responses within `socket-timeout`
  == uwsgi_response_[a-z_]{1,40}_do\(\) TIMEOUT !!! | uwsgi_simple_write\(\) TIMEOUT !!!
# Ends of workers: core/master.c, core/master_checks.c, core/master_utils.c, core/uwsgi.c.
killed_by_signal known pid_gone: {worker} was killed by {signal}
  == DAMN ! worker <worker> \(pid:? <pid>\) (?:died, |MISTERIOUSLY )killed by signal <signal>\b
worker_died known pid_gone: {worker} exited without a signal == DAMN ! worker <worker> \(pid:? <pid>\) died :\(
  >> Find out what exits: `sys.exit()` or `os._exit()` in a request, or a library.
segmentation_fault known pid_gone: a process crashed with signal 11 (SIGSEGV)
  == !!! uWSGI process <pid> got Segmentation Fault !!!
floating_point_exception known pid_gone: a process crashed with signal 8 (SIGFPE)
  == !!! uWSGI process <pid> got Floating Point Exception !!!
harakiri event harakiris: {worker} was ended by `harakiri` == \*\*\* HARAKIRI ON WORKER <worker> \(pid:? <pid>
harakiri_skipped event -: `harakiri` spares {worker}, because the listen queue is below `harakiri-queue-threshold`
  == HARAKIRI: Skipping harakiri on worker <worker>
harakiri_other failed -: uWSGI killed a mule, a spooler, a gateway or a cron job that took too long
  == \*\*\* HARAKIRI ON (?:MULE|THE SPOOLER|GATEWAY|CRON) !! The work of this process is lost.
  >> Raise `mule-harakiri`, `spooler-harakiri` or the cron job's limit, or let the process do less.
respawning_too_fast known respawns: workers end as soon as they start
  == worker respawning too fast !!!
mercy_kill failed pid_gone: {worker} did not end within `worker-reload-mercy` and was killed
  == worker <worker> \(pid:? <pid>\) is taking too much time to die
  !! The requests of this worker are lost.
  >> Raise `worker-reload-mercy` above the duration of the longest request, or give it a timeout.
mercy_kill_other event -: a mule or a spooler did not end in time and was killed
  == mule <n> \(pid:? <pid>\) is taking too much time to die
  == spooler <n> \(pid:? <pid>\) is taking too much time to die
exception_respawn known pid_gone: {worker} ended by an exception of `reload-on-exception`
  == \.\.\. monitored exception detected, respawning worker <worker> \(pid:? <pid>
inconsistent_worker failed pid_gone: the state of {worker} was inconsistent, so uWSGI replaced all workers together
  == !!! inconsistent state reported by worker <worker> \(pid:? <pid> !! Every request in service is lost.
  >> The line before this message names the plugin that asked for this restart.
evil_reload failed pid_gone: {worker} was killed at the limit of `evil-reload-on-rss`
  == \*\*\* EVIL RELOAD ON WORKER <worker> RSS: <n> \(pid: <pid>
  !! The requests of this worker are lost.
  >> Set `reload-on-rss` to a lower limit: it lets a worker complete its requests first.
evil_reload_as failed pid_gone: {worker} was killed at the limit of `evil-reload-on-as`
  == \*\*\* EVIL RELOAD ON WORKER <worker> ADDRESS SPACE: <n> \(pid: <pid>
  !! The requests of this worker are lost. Its address space is much larger than the memory that it uses.
  >> Remove `evil-reload-on-as`, or raise it far above what a new worker takes.
lifetime_reached event -: {worker} reached `max-worker-lifetime` == worker <worker> lifetime reached
worker_finished event -: a worker finished its work and ended == \.\.\.The work of process <pid> is done\. Seeya!
deadlock_recovered event -: a process ended while it held one of uWSGI's locks, which uWSGI recovered
  == \[deadlock-detector\] a process holding a robust mutex died
  == \[deadlock-detector\] pid <pid> was holding lock
# A start that fails: core/master.c, core/uwsgi.c, plugins/python/pyloader.c.
application_not_loaded known no_application: the application could not be loaded
  == unable to load app <n> \(mountpoint='
no_application_loaded known no_application: uWSGI started without an application
  == \*\*\* no app loaded\.
no_callable known no_application: the application's file has no callable of that name
  == unable to find "application" callable in file | "application" must be a callable object in file
  >> Set `callable` to the application's name in its file, or correct the name at the end of `module`.
failed_in_worker known pid_gone: {worker} could not load its application and ended
  == OOPS ! failed loading app in worker <worker> \(pid:? <pid>
need_app_ends event -: uWSGI exits, because `need-app` is set and no application could be loaded
  == need-app requested
  >> Correct what the traceback above this message in the log says.
too_many_applications setting -: more applications are configured than `max-apps`
  == ERROR: you cannot load more than <n> apps | FATAL ERROR: you cannot load more than <n> apps
  !! The applications beyond this limit are not served. >> Raise `max-apps`.
# Starts, reloads and pauses: core/uwsgi.c, core/master.c, core/master_checks.c.
started event -: uWSGI started == \*\*\* Starting uWSGI \d
master_reloaded event -: uWSGI's master was reloaded == gracefully \(RE\)spawned uWSGI master process
worker_spawned event -: {worker} was started
  == Respawned uWSGI worker <worker> \(new pid: <pid>\)
  == spawned uWSGI worker <worker> (?:\(and the only\) )?\(pid:? <pid>
reload_began event -: a graceful reload began == \.\.\.gracefully killing workers\.\.\.
brutal_reload failed -: all workers were killed at once, for a brutal reload == \.\.\.brutally killing workers\.\.\.
  !! Every request in service is lost. SIGTERM causes such a reload unless `die-on-term` is set.
  >> Set `die-on-term`, so that SIGTERM stops uWSGI, and send SIGHUP to reload uWSGI.
stop_began event -: uWSGI was stopped == SIGINT/SIG(?:TERM|QUIT) received\.\.\.killing workers
stop_gracefully event -: a graceful stop began == graceful shutdown triggered
ended event -: uWSGI ended == goodbye to uWSGI\. | uWSGI: GAME OVER
worker_buried event -: {worker} ended for the reload == worker <worker> buried after <n> seconds
chain_reload_began event -: a chain reload began == chain reload starting
chain_reload_waits event -: the chain reload waits until {worker} accepts requests
  == chain is still waiting for worker <worker>\.\.\.
chain_reload_ended event -: the chain reload is complete == chain reloading complete
file_touched event -: a file of `touch-reload` or of a similar option was touched
  == \*\*\* [^*]{1,300} has been touched\.\.\. (?:grace|workers reload|chain reload|mules reload|spoolers)
requests_awaited event -: {worker} finishes its requests before it ends
  == waiting for <n> running requests on worker <worker> \(pid:? <pid>
paused event -: the workers were paused == \*\*\* PAUSE \(press start to resume
resumed event -: the workers were resumed == \*\*\* \(SIGTSTP received\) resuming workers
idle_cheaped event -: `idle` ended the workers == workers have been inactive for more than \d
# Queues that are full: core/master.c, core/cache.c, core/mule.c, core/signal.c, core/async.c, plugins.
listen_queue_full event queue_full: a listen queue is full
  == \*\*\* uWSGI listen queue of socket "[^"]{0,200}" \(fd: <n>\) full
cache_full failed cache_full: a cache of uWSGI is full == \*\*\* DANGER cache "[^"]{0,200}" is FULL
  !! Items that the application adds are not stored.
  >> Raise `items` of the cache, set `purge_lru=1`, or let its items expire.
cache_not_stored failed -: an item could not be stored in a cache of uWSGI
  == \[cache-error\] unable to store | \[cache\] unable to store item
  !! The item is too large for the cache's blocks, or the cache is full.
  >> Raise `blocks` or `blocksize` of the cache.
mule_queue_full failed -: messages for mules are lost, because their queue is full
  == \*\*\* MULE MSG QUEUE IS FULL
  !! More messages come than the mules handle, or they come in bursts.
  >> Hand this work to a spooler, or to a `farm` of more mules; for bursts, raise `mule-msg-size`.
signal_queue_full failed -: uWSGI's own signals cannot be delivered
  == \*\*\* SIGNAL QUEUE IS FULL | could not deliver signal <n> to
  !! Timers, cron jobs and signals from the application are skipped.
  >> Let signal handlers do less, have a mule handle the signals, or raise `signal-bufsize`.
async_queue_full failed -: all async cores are in use == \[DANGER\] async queue is full !!!
  !! Requests wait in the listen queue. >> Raise `async` (or `gevent`).
no_more_workers event -: cheaper mode cannot add workers, because all of them run already
  == \[busyness\] [^\n]{1,120} already started maximum number of workers
daemon_throttled failed -: an attached daemon ends at each start == \[uwsgi-daemons\] throttling
  !! What needs this program fails. uWSGI waits before each start.
  >> Run the command of `attach-daemon` by hand, and correct why it ends.
spooler_refuses failed -: the spooler rejects tasks, or cannot run them
  == \[uwsgi-spooler\] args buffer is limited to 64k
  == \[uwsgi-spooler\] (?:no spooler available|unable to find spooler|error generating)
  == unable to find the spooler function
  !! Tasks of the application are lost, or are not run.
  >> Load the spooler function's module with `spooler-import`, and pass large values in `body`.
spooler_unwritable failed -: workers cannot write tasks into the directory of `spooler`
  == open\("[^"]{1,300}"\): Permission denied \[core/spooler\.c
  !! Tasks of the application are lost. >> Let uWSGI's user (`uid`) write to the directory of `spooler`.
helper_died failed -: a mule ended and was restarted == OOOPS mule <n> \(pid:? <pid>\) crippled
  !! The work of this process is lost.
  >> Read the lines before this message: a traceback, or a signal.
helper_ended event -: a spooler, a mule or a gateway ended
  == mule <n> \([^)]{1,80}\) annihilated | gateway <n> \([^)]{1,80}\) annihilated | spooler \(pid:? <pid>\) annihilated
  == OOOPS the spooler is no more
vassal_refused known -: the Emperor in tyrant mode refuses a vassal, because root owns its file
  == \[emperor-tyrant\] invalid permissions for vassal <name>$
# What the machine refuses: core/utils.c, core/socket.c, core/master_utils.c, and Python's own errors.
out_of_memory failed -: a process could not get memory
  == !!! tried memory allocation of <n> bytes !!! | unable to allocate <n> bytes \(
  == fork\(\): Cannot allocate memory \[ | malloc\(\): Cannot allocate memory \[ | mmap\(\): Cannot allocate memory \[
  == OSError: \[Errno 12\] Cannot allocate memory | MemoryError(?::|$)
  !! The request, or the start of the worker, failed.
  >> Raise the limit that was reached (`limit-as`, the cgroup's, the host's), or run fewer workers.
fork_failed failed -: uWSGI cannot start a process == fork\(\): (?!Cannot allocate)[A-Z][^\[]{1,60} \[core/
  !! Until the process starts, uWSGI serves fewer requests at once.
  >> <raise_limit>
threads_not_started failed -: a process cannot start a thread
  == pthread_create\(\): | unable to start offload thread | RuntimeError: can't start new thread$
  !! The process serves with fewer threads, or the request that needs a new thread fails.
  >> <raise_limit>
descriptors_out failed -: a process has no file descriptor left
  == OSError: \[Errno 2[34]\] Too many open files | accept\(\): Too many open files
  == socket\(\): Too many open files \[ | open\("[^"]{1,300}"\): Too many open files \[
  !! Requests that open a file or a connection fail.
  >> Raise `max-fd`, and look for descriptors that the application does not close.
ports_used_up failed -: the application cannot open a connection, because no local port is left for it
  == OSError: \[Errno 99\] Cannot assign requested address
  !! Requests that need this connection fail.
  >> Keep connections open: a closed one keeps its port for a minute (`ss -s`, timewait).
postgres_full failed -: PostgreSQL has no connection left
  == psycopg2?\.OperationalError: (?:[^\n]{1,200}: )?FATAL:  (?:sorry, too many|remaining connection)
  !! Requests that need one fail. >> Let workers keep fewer connections, or put PgBouncer in front.
sqlite_locked failed -: a SQLite database is locked == sqlite3\.OperationalError: database is locked
  !! Requests that write to it fail. >> Keep write transactions short, and set `PRAGMA journal_mode=WAL`.
body_not_buffered failed read_errors: uWSGI cannot buffer request bodies, because the disk with `TMPDIR` is full
  == uwsgi_postbuffer_do_in_disk\(\)/[a-z_]{1,20}\(\):? No space left on device \[
  !! The application never gets these uploads, and their clients get an error.
  >> Free up space on the disk with `TMPDIR` (or `/tmp`): `post-buffering` keeps larger bodies there.
disk_full failed -: a disk is full
  == OSError: \[Errno 28\] No space left on device | open\("[^"]{1,300}"\): No space left on device \[
  !! Files that the application writes, and log lines, cannot be saved.
  >> Free up disk space: the log grows unless `log-maxsize` is set.
bind_failed failed -: uWSGI cannot bind a socket
  == bind\(\): [A-Z][^\[]{1,60} \[core/socket\.c line
  == probably another instance of uWSGI is running | unable to create server socket on:
  !! uWSGI does not start, or exits at a reload.
  >> Check for another program at this address, and whether uWSGI may write to its directory.
queue_above_somaxconn setting -: `listen` is above `net.core.somaxconn`, so uWSGI does not start
  == Listen queue size is greater than the system max
  !! A running uWSGI goes on, but its next start fails.
  >> Raise `net.core.somaxconn` (`sysctl net.core.somaxconn` prints it) before you restart uWSGI.
directory_missing setting -: uWSGI cannot enter the directory of `chdir` == chdir\(\): [A-Z][^\[]{1,60} \[core/
  !! The application is not found. >> Correct `chdir`, or the rights of uWSGI's user.
home_wrong setting -: Python does not find its standard library, so uWSGI does not start
  == ModuleNotFoundError: No module named 'encodings' | !!! Python Home is not a directory
  !! uWSGI ends before it can serve. >> Correct `home` (`virtualenv`), or make the virtual environment there again.
# Options that have no effect or cannot work: core/init.c, core/uwsgi.c, core/plugins.c, core/config.c.
plugin_missing setting -: a plugin of the configuration cannot be loaded
  == !!! UNABLE to load uWSGI plugin: | unable to load plugin "
  !! Nothing that needs this plugin works. >> Install the plugin's package, or correct `plugins` and `plugins-dir`.
no_request_plugin setting -: no plugin for any language is loaded == no request plugin is loaded
  !! No request can be served. >> Load the plugin of the application's language: `plugins = python3`.
processes_limited setting -: the host permits fewer workers ({limit}) than `processes` says
  == !!! number of workers adjusted to <limit> due to system limits !!!
  !! Capacity is smaller than configured.
  >> <raise_limit>
files_below_cores setting -: the limit of open files is below the number of async cores
  == - your current max open files limit is <n>, this is lower
  !! Requests fail before all async cores are in use. >> Raise `max-fd` above twice the number of async cores.
unknown_option setting -: an option of the configuration does not exist, so `strict` ends uWSGI
  == \[strict-mode\] unknown config directive:
  !! A running uWSGI goes on, but its next start fails. >> Correct the option: uWSGI's log names it.
threads_off setting -: Python's threads are off
  == \*\*\* Python threads support is disabled
  == !!! Running gevent without threads IS NOT recommended
  !! Threads of the application, such as those of an error reporter, do not run.
  >> Set `enable-threads`.
no_master setting -: uWSGI runs without its master
  == \*\*\* WARNING: you are running uWSGI without its master
  !! A worker that ends is not replaced, and there is no graceful reload. >> Set `master`.
affinity_failed setting -: `cpu-affinity` cannot be applied
  == sched_setaffinity\(\): | unable to initialize cpu affinity
  !! Workers run on any CPU.
  >> Remove `cpu-affinity`: it uses CPUs from number 0 on, and uWSGI may not use all of these.
harakiri_without_buffering event -: `harakiri` also counts the time in which a slow client sends its request body
  ==  \*\*\* WARNING: you have enabled harakiri without post buffering
  == \*\*\* WARNING: you have enabled harakiri without post buffering
emperor_lost event -: uWSGI's Emperor has exited
  == lost communication with the Emperor | !!! Emperor died !!!
asgi_application known exceptions: the application speaks ASGI, and uWSGI does not
  == TypeError: [\w.<>]{1,80}\(\) missing \d required [a-z ]{1,30}: (?:'receive' and )?'send'$
traceback known exceptions: the application raised an exception == Traceback \(most recent call last\):
# The line of each request, core/logging.c: uwsgi_log.scan finds it by its end.
status_5xx known request_line: responses have status 500 to 599
status_4xx known -: responses have status 400, 401, 403, 404, 405 or 429
status_3xx known -: responses redirect, with status 301, 302, 303, 307 or 308
"""
"""A message: its code, role and proof (`-` for none), and what it says. `==` has its patterns, `!!` the harm, and `>>`
what to do about it."""

_METHODS = (b"GET", b"POST", b"HEAD", b"PUT", b"PATCH", b"OPTIONS", b"DELETE", b"CONNECT", b"TRACE", b"PRI", b"PROXY")
"""How HTTP and the PROXY protocol begin: uWSGI takes their bytes 2 and 3 for a size."""

_PARTS = {
    "<worker>": r"(?P<worker>\d{1,6})",
    "<pid>": r"(?P<pid>\d{1,10})",
    "<signal>": r"(?P<signal>\d{1,2})",
    "<limit>": r"(?P<limit>\d{1,10})",
    "<n>": r"\d{1,20}",
    "<name>": r"(?P<place>[\w./+-]{1,100})",
    "<letters>": f"(?:{'|'.join(str(int.from_bytes(name[1:3], 'little')) for name in _METHODS)})",
    "<unanswered>": "The application never sees these requests, and uWSGI sends no response: nginx then responds with "
    "status 502.",
    "<uncounted>": "The application never sees these requests, and uWSGI does not count them. Clients get an error, or "
    "no response.",
    "<raise_limit>": "Raise the limit of processes (`ulimit -u`, `TasksMax` of the unit, `pids.max` of the container).",
}
"""By its name in the table: a part of a pattern, or a sentence of several messages."""


def _parse(table: str) -> Iterator[Message]:
    table = re.sub(r"<\w+>", lambda name: _PARTS[name[0]], re.sub(r"(?m)^#.*\n", "", table))
    for entry in re.split(r"\n(?=\w)", table.strip()):
        head, *parts = re.split(r"\s+(?=(?:==|!!|>>) )", entry)
        names, _, says = head.partition(": ")
        code, role, proof = names.split()
        harm, change = (" ".join(part[3:] for part in parts if part.startswith(mark)) for mark in ("!!", ">>"))
        patterns = tuple(text.encode() for part in parts if part.startswith("==") for text in part[3:].split(" | "))
        yield Message._make((code, role, None if proof == "-" else proof, says, patterns, harm, change))


MESSAGES: tuple[Message, ...] = tuple(_parse(_TABLE))
"""In the order of the table. The code is the label `message` of `uwsgi_log_messages_total`, and never changes."""

BY_CODE: Mapping[str, Message] = {message.code: message for message in MESSAGES}

ENDS_START = (
    *("bind_failed", "home_wrong", "directory_missing", "plugin_missing", "no_request_plugin", "queue_above_somaxconn"),
    *("unknown_option", "no_callable", "application_not_loaded", "no_application_loaded"),
)
"""Why uWSGI does not start, the most telling first."""

SIGNALS: Mapping[int, str] = {
    **dict.fromkeys((1, 2, 15), "Another program, or a person, sent this signal."),
    4: "Native code was built for another CPU, or is damaged.",
    6: "Native code called abort(): check the line before this message in uWSGI's log.",
    7: "A mapped file was truncated, or its disk is full.",
    8: "Native code divided by zero.",
    9: "The kernel sends SIGKILL if memory runs out (`dmesg`), uWSGI for `harakiri`, or an administrator.",
    11: "Native code crashed: `gdb` with a core dump, or Python's `faulthandler`, shows which extension.",
    24: "The limit of CPU time was reached.",
    25: "The limit of file sizes was reached.",
    31: "A system call filter (seccomp) forbids a system call of this process.",
}
"""By number, on Linux: what that mostly means."""


def name_signal(number: int) -> str:
    """Name a signal: `11 (SIGSEGV)`."""
    return f"{number} ({Signals(number).name})" if number in set(Signals) else str(number)


def describe(code: str, worker: int | None = None, signal: int | None = None, limit: int | None = None) -> str:
    """Say what a message reports, as a clause."""
    return BY_CODE[code].says.format(
        worker=f"worker {worker}" if worker else "a worker",
        signal=f"signal {name_signal(signal)}" if signal else "a signal",
        limit=limit if limit is not None else "unknown",
    )


def advise(code: str, limit: int | None = None) -> str:
    """Say what to do about a message; empty if nothing."""
    known = rf" (\g<1>{limit})" if limit is not None else ""
    return re.sub(r" \((now )?\{limit\}\)", known, BY_CODE[code].change)


HEAD = 4
"""Bytes at the beginning of a line by which its patterns are found: each begins with so many plain bytes."""


def _head(pattern: bytes) -> bytes:
    """The plain bytes with which a pattern begins."""
    return re.sub(rb"\\([^A-Za-z0-9])", rb"\1", pattern[: 2 * HEAD])[:HEAD]


@cache
def index() -> Mapping[bytes, tuple[tuple[Message, re.Pattern[bytes]], ...]]:
    """The compiled patterns by the first bytes of the lines that they match."""
    by_head: dict[bytes, list[tuple[Message, re.Pattern[bytes]]]] = {}
    for message in MESSAGES:
        for pattern in message.patterns:
            by_head.setdefault(_head(pattern), []).append((message, re.compile(pattern)))
    return {head: tuple(rows) for head, rows in by_head.items()}
