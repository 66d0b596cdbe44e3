"""The messages of uWSGI's log that are known: how each begins, what it means, and what must agree before it counts.

The texts are those of uWSGI 2.0.18 to 2.0.31; the comments name the files of its source. A pattern is anchored at the
beginning of a line, behind the date that uWSGI may write before it, and takes time in proportion to the line: it has no
repetition inside a repetition. Only the named groups leave a line: numbers of a worker, a process, a signal or a limit.
Nothing of a request can be in them.

The application writes to the same file and can write any of these lines. So a line alone proves nothing: `agrees` names
the counter or the fact that must agree with it (`uwsgi_log.agreement`). This module imports nothing of the package,
because findings are made of its words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Literal, NamedTuple

Agrees = Literal[
    "ended",
    "worker_gone",
    "respawns",
    "harakiris",
    "exceptions",
    "write_errors",
    "requests",
    "cache_full",
    "queue_full",
    "no_application",
    "instant",
    "uncalled",
    "unaccounted",
]
"""What agrees with a message, in the 5 s before and after it.

ended: the process that it names was a worker's, and is gone. worker_gone: any worker's process is gone. respawns,
harakiris, exceptions, write_errors, requests, cache_full: this counter of uWSGI's has grown. queue_full: a listen queue
was at its limit. no_application: a worker accepts requests and has no application loaded. instant: requests were
counted that took no time. uncalled: more requests were counted than applications were called. unaccounted: as many
connections were accepted as requests were counted and messages written (TCP only: the kernel does not count those of
UNIX sockets).
"""

Role = Literal["rejected", "failed", "setting", "known", "event"]
"""What becomes of a message. rejected: requests that no application saw; failed: something that uWSGI could not do;
setting: an option that has no effect or cannot work. Each of these has a finding of its own. known: another finding
judges the same by better figures, and only quotes the log. event: it is worth a line in the journal, no finding."""


class Message(NamedTuple):
    """One known message. says: what uWSGI reports, as a clause; harm: why that matters; change: what to do, in the
    imperative; agrees: None if no fact can agree with it."""

    code: str
    patterns: tuple[bytes, ...]
    role: Role
    says: str
    harm: str = ""
    change: str = ""
    agrees: Agrees | None = None


_WORKER = rb"worker (?P<worker>\d{1,6}) "
_PID = rb"\(pid:? (?P<pid>\d{1,10})"
_LOST_HEAD = (
    "The application never sees these requests, and uWSGI does not count them. Clients get an error, or no response."
)
_NO_CALL = (
    "The application never sees these requests. uWSGI counts each of them, but sends no response: nginx then responds "
    "with status 502."
)
_NO_ANSWER = "The client gets an error, and the application does not see the request."
_SMALLER = "Until the process starts, uWSGI serves fewer requests at once."

MESSAGES: tuple[Message, ...] = (
    # Requests that uWSGI refuses: proto/uwsgi.c, http.c, scgi.c and base.c, core/protocol.c, core/uwsgi.c.
    Message(
        "head_too_large",
        (
            rb"invalid request block size: \d{1,10} \(max (?P<limit>\d{1,10})\)\.\.\.skip",
            rb"invalid (?:HTTPS?|SCGI) request size \(max (?P<limit>\d{1,10})\)\.\.\.skip",
        ),
        "rejected",
        "uWSGI refuses requests with headers larger than `buffer-size`",
        _LOST_HEAD,
        "Raise `buffer-size` ({limit}) above the size of the largest request headers, including cookies: 32768 is "
        "usually enough. Then find out which cookie or URL grows.",
        "unaccounted",
    ),
    Message(
        "variable_too_large",
        (
            rb"not enough buffer space to ",
            rb"not enough space in wsgi_req http proto_parser_buf",
            rb"unable to add UWSGI_APPID to the uwsgi buffer",
            rb"\[WARNING\] unable to add ",
        ),
        "rejected",
        "uWSGI drops request variables that do not fit into `buffer-size`",
        "The application gets the request without one of its headers, or does not get the request at all.",
        "Raise `buffer-size` above the size of the largest request headers, including cookies: 32768 is usually "
        "enough.",
    ),
    Message(
        "too_many_variables",
        (rb"max vec size reached",),
        "rejected",
        "uWSGI refuses requests that have more variables than `max-vars` allows",
        _NO_CALL,
        "Raise `max-vars`.",
        "uncalled",
    ),
    Message(
        "body_too_large",
        (rb"Invalid \(too big\) CONTENT_LENGTH\. skip\.",),
        "rejected",
        "uWSGI refuses requests with a body larger than `limit-post`",
        _NO_CALL,
        "Raise `limit-post`, or refuse such bodies in the web server, which can respond with status 413.",
        "uncalled",
    ),
    Message(
        "bad_packet",
        (
            rb"invalid uwsgi request \(current strsize: \d{1,10}\)",
            rb"invalid uwsgi array\. skip",
            rb"uwsgi key cannot be null\. skip",
        ),
        "rejected",
        "uWSGI refuses requests that do not follow the uwsgi protocol",
        _NO_CALL,
        "Check that the web server speaks the protocol of the socket: `uwsgi_pass` for `socket`, `proxy_pass` for "
        "`http-socket`.",
        "uncalled",
    ),
    Message(
        "bad_http",
        (rb"invalid HTTP request$",),
        "rejected",
        "uWSGI refuses requests that are not HTTP",
        _LOST_HEAD,
        "Check what connects to the `http-socket`: a health check that connects without sending a request also causes "
        "this message.",
        "unaccounted",
    ),
    Message(
        "modifier_unavailable",
        (rb"-- unavailable modifier requested: (?P<limit>\d{1,3}) --",),
        "rejected",
        "no plugin serves the requests that the web server passes on",
        "uWSGI counts each of these requests, but sends an empty response: nginx then responds with status 502.",
        "Load the plugin of the application's language (`plugins = python3`), or correct the value of "
        "`uwsgi_modifier1` that the web server sends (now {limit}).",
        "instant",
    ),
    Message(
        "no_python_application",
        (rb"--- no python application found, check your startup logs for errors ---",),
        "known",
        "uWSGI has no Python application for requests",
        agrees="no_application",
    ),
    Message(
        "empty_request",
        (rb"Empty python request\. skip\.",),
        "rejected",
        "uWSGI gets requests without any variables",
        _NO_ANSWER,
        "Include `uwsgi_params` in the web server's `location` block that passes requests to uWSGI.",
        "instant",
    ),
    Message(
        "bad_response",
        (rb"\[ERROR\] Unhandled object from iterator", rb"invalid Pump response", rb"invalid Web3 response"),
        "rejected",
        "the application returns bodies that are not bytes",
        "uWSGI leaves out the parts of the response that are not bytes.",
        "Return bytes from the application, not text or other objects.",
    ),
    Message(
        "body_in_memory",
        (rb"\[uwsgi-warning\] you are using read(?:line)?\(\) on request body allocating over than",),
        "setting",
        "the application reads each large request body in a single call",
        "The whole body of each such request is held in memory.",
        "Limit the size of bodies in the web server, and either read request bodies in pieces or set `post-buffering`.",
    ),
    # Clients: core/writer.c, core/reader.c, core/uwsgi.c, proto/http.c, plugins/python.
    Message("body_timeout", (rb"\[uwsgi-body-read\] Timeout reading ",), "event", "request bodies arrive too slowly"),
    Message(
        "body_aborted",
        (rb"\[uwsgi-body-read\] Error reading ",),
        "event",
        "clients disconnect while they send a request body",
    ),
    Message(
        "head_aborted",
        (rb"uwsgi_proto_https?_parser\(\) -> client closed connection",),
        "event",
        "clients disconnect while they send request headers",
    ),
    Message(
        "client_left",
        (rb"SIGPIPE: writing to a closed pipe/socket/fd",),
        "known",
        "clients close the connection before they get the response",
        agrees="write_errors",
    ),
    Message(
        "write_error",
        (
            rb"uwsgi_response_[a-z_]{1,40}_do\(\):? (?!TIMEOUT)[A-Z][^\[]{1,60}\[core/writer\.c line",
            rb"OSError: write error$",
            rb"IOError: write error$",
        ),
        "known",
        "responses cannot be written to clients",
        agrees="write_errors",
    ),
    Message(
        "write_timeout",
        (rb"uwsgi_response_[a-z_]{1,40}_do\(\) TIMEOUT !!!", rb"uwsgi_simple_write\(\) TIMEOUT !!!"),
        "known",
        "clients do not read their responses within `socket-timeout`",
        agrees="write_errors",
    ),
    # Ends of workers: core/master.c, core/master_checks.c, core/master_utils.c, core/uwsgi.c.
    Message(
        "killed_by_signal",
        (rb"DAMN ! " + _WORKER + _PID + rb"\) (?:died, |MISTERIOUSLY )killed by signal (?P<signal>\d{1,2}) ",),
        "known",
        "{worker} was killed by {signal}",
        agrees="ended",
    ),
    Message(
        "worker_died",
        (rb"DAMN ! " + _WORKER + _PID + rb"\) died :\( ",),
        "known",
        "{worker} died",
        agrees="ended",
    ),
    Message(
        "segmentation_fault",
        (rb"!!! uWSGI process (?P<pid>\d{1,10}) got Segmentation Fault !!!",),
        "known",
        "a process crashed with signal 11 (SIGSEGV)",
        agrees="ended",
    ),
    Message(
        "floating_point_exception",
        (rb"!!! uWSGI process (?P<pid>\d{1,10}) got Floating Point Exception !!!",),
        "known",
        "a process crashed with signal 8 (SIGFPE)",
        agrees="ended",
    ),
    Message(
        "harakiri",
        (rb"\*\*\* HARAKIRI ON WORKER (?P<worker>\d{1,6}) " + _PID,),
        "known",
        "{worker} was ended by `harakiri`",
        agrees="harakiris",
    ),
    Message(
        "harakiri_skipped",
        (rb"HARAKIRI: Skipping harakiri on " + _WORKER[:-1],),
        "event",
        "`harakiri` spares {worker}, because the listen queue is below `harakiri-queue-threshold`",
    ),
    Message(
        "harakiri_other",
        (rb"\*\*\* HARAKIRI ON (?:MULE|THE SPOOLER|GATEWAY|CRON) ?",),
        "failed",
        "uWSGI killed a mule, a spooler, a gateway or a cron job that took too long",
        "The work of this process is lost.",
        "Raise `mule-harakiri`, `spooler-harakiri` or the limit of the cron job, or let the process do less at once.",
    ),
    Message(
        "respawning_too_fast",
        (rb"worker respawning too fast !!! i have to sleep a bit",),
        "known",
        "workers end as soon as they start",
        agrees="respawns",
    ),
    Message(
        "mercy_kill",
        (_WORKER + _PID + rb"\) is taking too much time to die\.\.\.NO MERCY",),
        "failed",
        "{worker} did not end within `worker-reload-mercy` and was killed",
        "The requests that this worker was serving are lost.",
        "Raise `worker-reload-mercy` above the duration of your longest request, or give that request a timeout.",
        "ended",
    ),
    Message(
        "mercy_kill_other",
        (
            rb"mule \d{1,6} " + _PID + rb"\) is taking too much time to die\.\.\.NO MERCY",
            rb"spooler \d{1,6} " + _PID + rb"\) is taking too much time to die\.\.\.NO MERCY",
        ),
        "event",
        "a mule or a spooler did not end in time and was killed",
    ),
    Message(
        "exception_respawn",
        (rb"\.\.\. monitored exception detected, respawning " + _WORKER + _PID,),
        "known",
        "{worker} ended by an exception of `reload-on-exception`",
        agrees="ended",
    ),
    Message(
        "inconsistent_worker",
        (rb"!!! inconsistent state reported by " + _WORKER + _PID,),
        "failed",
        "the state of {worker} was inconsistent, so uWSGI replaced all workers together",
        "Every request in service is lost.",
        "In uWSGI's log, the line before this message names the plugin that asked for this restart.",
        "ended",
    ),
    Message(
        "evil_reload",
        (rb"\*\*\* EVIL RELOAD ON WORKER (?P<worker>\d{1,6}) (?:RSS|ADDRESS SPACE): ",),
        "failed",
        "{worker} was killed at the limit of `evil-reload-on-rss` or `evil-reload-on-as`",
        "The requests that this worker was serving are lost.",
        "Set `reload-on-rss` to a lower limit: uWSGI then lets a worker complete its requests before it ends the "
        "worker.",
        "worker_gone",
    ),
    Message(
        "lifetime_reached",
        (_WORKER + rb"lifetime reached, it was running for",),
        "event",
        "{worker} reached `max-worker-lifetime`",
        agrees="worker_gone",
    ),
    Message(
        "worker_finished",
        (rb"\.\.\.The work of process (?P<pid>\d{1,10}) is done\. Seeya!",),
        "event",
        "a worker finished its work and ended",
        agrees="ended",
    ),
    Message(
        "deadlock_recovered",
        (
            rb"\[deadlock-detector\] a process holding a robust mutex died\. recovering",
            rb"\[deadlock-detector\] pid (?P<pid>\d{1,10}) was holding lock",
        ),
        "event",
        "a process ended while it held one of uWSGI's locks, which uWSGI recovered",
        agrees="worker_gone",
    ),
    # A start that fails: core/master.c, core/uwsgi.c, plugins/python/pyloader.c.
    Message(
        "application_not_loaded",
        (rb"unable to load app \d{1,6} \(mountpoint='",),
        "known",
        "the application could not be loaded",
        agrees="no_application",
    ),
    Message(
        "no_application_loaded",
        (rb"\*\*\* no app loaded\. (?:GAME OVER|going in full dynamic mode)",),
        "known",
        "uWSGI started without an application",
        agrees="no_application",
    ),
    Message(
        "no_callable",
        (rb'unable to find "application" callable in file', rb'"application" must be a callable object in file'),
        "known",
        "the application's file has no callable of that name",
        change="Set `callable` to the name that the application has in its file (without this option, uWSGI looks for "
        "`application`), or correct the name after the colon in `module`.",
        agrees="no_application",
    ),
    Message(
        "failed_in_worker",
        (rb"OOPS ! failed loading app in " + _WORKER + _PID,),
        "known",
        "{worker} could not load its application and ended",
        agrees="ended",
    ),
    Message(
        "need_app_ends",
        (rb"need-app requested, destroying the instance",),
        "event",
        "uWSGI exits, because `need-app` is set and no application could be loaded",
        change="Find out why the application could not be loaded: in uWSGI's log, the traceback is above this message.",
    ),
    Message(
        "too_many_applications",
        (
            rb"ERROR: you cannot load more than \d{1,6} apps in a worker",
            rb"FATAL ERROR: you cannot load more than \d{1,6} apps in a worker",
        ),
        "setting",
        "more applications are configured than `max-apps`",
        "The applications beyond this limit are not served.",
        "Raise `max-apps`.",
    ),
    # Starts, reloads and pauses: core/uwsgi.c, core/master.c, core/master_checks.c.
    Message("started", (rb"\*\*\* Starting uWSGI \d",), "event", "uWSGI started"),
    Message(
        "master_reloaded", (rb"gracefully \(RE\)spawned uWSGI master process ",), "event", "uWSGI's master was reloaded"
    ),
    Message(
        "worker_spawned",
        (
            rb"Respawned uWSGI " + _WORKER + rb"\(new pid: (?P<pid>\d{1,10})\)",
            rb"spawned uWSGI " + _WORKER + rb"(?:\(and the only\) )?" + _PID,
        ),
        "event",
        "{worker} was started",
    ),
    Message("reload_began", (rb"\.\.\.gracefully killing workers\.\.\.",), "event", "a graceful reload began"),
    Message(
        "brutal_reload",
        (rb"\.\.\.brutally killing workers\.\.\.",),
        "failed",
        "all workers were killed at once, for a brutal reload",
        "Every request in service is lost. SIGTERM causes such a reload unless `die-on-term` is set.",
        "Set `die-on-term`, so that SIGTERM stops uWSGI, and send SIGHUP to reload uWSGI.",
        "worker_gone",
    ),
    Message("stop_began", (rb"SIGINT/SIG(?:TERM|QUIT) received\.\.\.killing workers",), "event", "uWSGI was stopped"),
    Message("stop_gracefully", (rb"graceful shutdown triggered",), "event", "a graceful stop began"),
    Message("ended", (rb"goodbye to uWSGI\.", rb"uWSGI: GAME OVER"), "event", "uWSGI ended"),
    Message("worker_buried", (_WORKER + rb"buried after \d{1,10} seconds",), "event", "{worker} ended for the reload"),
    Message("chain_reload_began", (rb"chain reload starting",), "event", "a chain reload began"),
    Message(
        "chain_reload_waits",
        (rb"chain is still waiting for worker (?P<worker>\d{1,6})\.\.\.",),
        "event",
        "the chain reload waits until {worker} accepts requests",
    ),
    Message("chain_reload_ended", (rb"chain reloading complete",), "event", "the chain reload is complete"),
    Message(
        "file_touched",
        (rb"\*\*\* [^*]{1,300} has been touched\.\.\. (?:grace|workers reload|chain reload|mules reload|spoolers)",),
        "event",
        "a file of `touch-reload` or of a similar option was touched",
    ),
    Message(
        "requests_awaited",
        (rb"waiting for \d{1,6} running requests on " + _WORKER + _PID,),
        "event",
        "{worker} finishes its requests before it ends",
    ),
    Message("paused", (rb"\*\*\* PAUSE \(press start to resume",), "event", "the workers were paused"),
    Message("resumed", (rb"\*\*\* \(SIGTSTP received\) resuming workers \*\*\*",), "event", "the workers were resumed"),
    Message("idle_cheaped", (rb"workers have been inactive for more than \d",), "event", "`idle` ended the workers"),
    # Queues that are full: core/master.c, core/cache.c, core/mule.c, core/signal.c, core/async.c, plugins.
    Message(
        "listen_queue_full",  # TCP only: uWSGI sees no queue of a UNIX socket
        (rb'\*\*\* uWSGI listen queue of socket "[^"]{0,200}" \(fd: \d{1,6}\) full !!!',),
        "known",
        "a listen queue is full",
        agrees="queue_full",
    ),
    Message(
        "cache_full",
        (rb'\*\*\* DANGER cache "[^"]{0,200}" is FULL !!! \*\*\*',),
        "failed",
        "a cache of uWSGI is full",
        "Items that the application adds are not stored.",
        "Raise `items` of the cache, set `purge_lru=1`, or let its items expire.",
        "cache_full",
    ),
    Message(
        "cache_not_stored",
        (rb"\[cache-error\] unable to store ", rb"\[cache\] unable to store item "),
        "failed",
        "an item could not be stored in a cache of uWSGI",
        "The item is too large for the cache's blocks, or the cache is full.",
        "Raise `blocks` or `blocksize` of the cache.",
    ),
    Message(
        "mule_queue_full",
        (rb"\*\*\* MULE MSG QUEUE IS FULL",),
        "failed",
        "the queue of messages for mules is full",
        "Messages are lost, or their senders wait.",
        "Add `mules`, or raise `mule-msg-size`.",
    ),
    Message(
        "signal_queue_full",
        (rb"\*\*\* SIGNAL QUEUE IS FULL", rb"could not deliver signal \d{1,3} to "),
        "failed",
        "uWSGI's own signals cannot be delivered",
        "Timers, cron jobs and signals from the application are skipped.",
        "Let signal handlers do less, have a mule handle the signals, or raise `signal-bufsize`.",
    ),
    Message(
        "async_queue_full",
        (rb"\[DANGER\] async queue is full !!!",),
        "failed",
        "all async cores are in use",
        "Requests wait in the listen queue.",
        "Raise `async` (or `gevent`).",
    ),
    Message(
        "no_more_workers",
        (rb"\[busyness\] [^\n]{1,120} (?:already started|are already started) maximum number of workers",),
        "known",
        "cheaper mode cannot add workers, because all of them run already",
    ),
    Message(
        "spooler_refuses",
        (
            rb"\[uwsgi-spooler\] args buffer is limited to 64k",
            rb"\[uwsgi-spooler\] (?:no spooler available|unable to find spooler|error generating)",
            rb"unable to find the spooler function",
        ),
        "failed",
        "the spooler rejects tasks, or cannot run them",
        "Tasks of the application are lost, or are not run.",
        "Load the module of the spooler function with `spooler-import`, and pass large values in the argument `body`.",
    ),
    Message(
        "helper_died",
        (
            rb"OOOPS the spooler is no more",
            rb"OOOPS mule \d{1,6} " + _PID + rb"\) crippled",
        ),
        "failed",
        "a spooler or a mule ended and was restarted",
        "The work of this process is lost.",
        "Check the lines before this message in uWSGI's log for a traceback or a signal.",
    ),
    Message(
        "helper_ended",
        (
            rb"mule \d{1,6} \([^)]{1,80}\) annihilated",
            rb"gateway \d{1,6} \([^)]{1,80}\) annihilated",
            rb"spooler " + _PID + rb"\) annihilated",
        ),
        "event",
        "a spooler, a mule or a gateway ended",
    ),
    # What the machine refuses: core/utils.c, core/socket.c, core/master_utils.c, and Python's own errors.
    Message(
        "out_of_memory",
        (
            rb"!!! tried memory allocation of \d{1,20} bytes !!!",
            rb"unable to allocate \d{1,20} bytes \(",
            rb"fork\(\): Cannot allocate memory \[",
            rb"malloc\(\): Cannot allocate memory \[",
            rb"mmap\(\): Cannot allocate memory \[",
            rb"OSError: \[Errno 12\] Cannot allocate memory",
            rb"MemoryError(?::|$)",
        ),
        "failed",
        "a process could not get memory",
        "The request, or the start of the worker, failed.",
        "Find out which limit was reached, and raise it: `limit-as` (of each process), the limit of the cgroup, or the "
        "memory of the host. Fewer workers need less memory.",
    ),
    Message(
        "fork_failed",
        (rb"fork\(\): (?!Cannot allocate)[A-Z][^\[]{1,60} \[core/",),
        "failed",
        "uWSGI cannot start a process",
        _SMALLER,
        "Raise the limit of processes (`ulimit -u`, `TasksMax` of the unit, `pids.max` of the container).",
    ),
    Message(
        "threads_not_started",
        (rb"pthread_create\(\): ", rb"unable to start offload thread", rb"RuntimeError: can't start new thread$"),
        "failed",
        "a process cannot start a thread",
        "The process serves with fewer threads, or the request that needs a new thread fails.",
        "Raise the limit of processes (`ulimit -u`, `TasksMax` of the unit, `pids.max` of the container).",
    ),
    Message(
        "descriptors_out",
        (
            rb"OSError: \[Errno 2[34]\] Too many open files",
            rb"accept\(\): Too many open files",
            rb"socket\(\): Too many open files \[",
            rb'open\("[^"]{1,300}"\): Too many open files \[',
        ),
        "failed",
        "a process has no file descriptor left",
        "Requests that open a file or a connection fail.",
        "Raise `max-fd`, and look for descriptors that the application does not close.",
    ),
    Message(
        "disk_full",
        (
            rb"OSError: \[Errno 28\] No space left on device",
            rb"uwsgi_postbuffer_do_in_disk\(\)/[a-z_]{1,20}\(\):? No space left on device \[",
            rb'open\("[^"]{1,300}"\): No space left on device \[',
        ),
        "failed",
        "a disk is full",
        "Uploads, log lines, and files that the application writes cannot be saved.",
        "Free up disk space: uploads are buffered in `TMPDIR`, and the log grows without limit unless `log-maxsize` is "
        "set.",
    ),
    Message(
        "bind_failed",
        (
            rb"bind\(\): [A-Z][^\[]{1,60} \[core/socket\.c line",
            rb"probably another instance of uWSGI is running on the same address",
            rb"unable to create server socket on: ",
        ),
        "failed",
        "uWSGI cannot bind a socket",
        "uWSGI does not start, or exits at a reload.",
        "Check whether another program uses the socket's address, and whether uWSGI's user may write to the socket's "
        "directory.",
    ),
    Message(
        "queue_above_somaxconn",
        (rb"Listen queue size is greater than the system max net\.core\.somaxconn",),
        "setting",
        "`listen` is above `net.core.somaxconn`, so uWSGI does not start",
        "A uWSGI that is already running goes on, but its next start fails.",
        "Raise `net.core.somaxconn` (`sysctl net.core.somaxconn` prints it) before you restart uWSGI.",
    ),
    Message(
        "directory_missing",
        (rb"chdir\(\): [A-Z][^\[]{1,60} \[core/",),
        "setting",
        "uWSGI cannot enter the directory of `chdir`",
        "The application is not found.",
        "Correct `chdir`, or the rights of uWSGI's user.",
    ),
    # Options that have no effect or cannot work: core/init.c, core/uwsgi.c, core/plugins.c, core/config.c.
    Message(
        "plugin_missing",
        (rb"!!! UNABLE to load uWSGI plugin: ", rb'unable to load plugin "'),
        "setting",
        "a plugin of the configuration cannot be loaded",
        "Nothing that needs this plugin works.",
        "Install the plugin's package, or correct `plugins` and `plugins-dir`.",
    ),
    Message(
        "no_request_plugin",
        (rb"no request plugin is loaded, you will not be able to manage requests",),
        "setting",
        "no plugin for any language is loaded",
        "No request can be served.",
        "Load the plugin of the application's language: `plugins = python3`.",
    ),
    Message(
        "processes_limited",
        (rb"!!! number of workers adjusted to (?P<limit>\d{1,6}) due to system limits !!!",),
        "setting",
        "fewer workers run ({limit}) than `processes` says, because the host permits no more processes",
        "Capacity is smaller than configured.",
        "Raise the limit of processes (`ulimit -u`, `TasksMax` of the unit, `pids.max` of the container).",
    ),
    Message(
        "files_below_cores",
        (rb"- your current max open files limit is \d{1,10}, this is lower than requested async cores",),
        "setting",
        "the limit of open files is below the number of async cores",
        "Requests fail before all async cores are in use.",
        "Raise `max-fd` above twice the number of async cores.",
    ),
    Message(
        "unknown_option",
        (rb"\[strict-mode\] unknown config directive: ",),
        "setting",
        "an option of the configuration does not exist, so `strict` ends uWSGI",
        "A uWSGI that is already running goes on, but its next start fails.",
        "Correct the option: uWSGI's log names it.",
    ),
    Message(
        "threads_off",
        (
            rb"\*\*\* Python threads support is disabled\. You can enable it with --enable-threads",
            rb"!!! Running gevent without threads IS NOT recommended",
        ),
        "setting",
        "Python's threads are off",
        "Threads that the application starts, such as those of an error reporter, a metrics library or a pool, do not "
        "run.",
        "Set `enable-threads`.",
    ),
    Message(
        "no_master",
        (rb"\*\*\* WARNING: you are running uWSGI without its master process manager",),
        "setting",
        "uWSGI runs without its master",
        "A worker that ends is not replaced, and there is no graceful reload.",
        "Set `master`.",
    ),
    Message(
        "affinity_failed",
        (rb"sched_setaffinity\(\): ", rb"unable to initialize cpu affinity"),
        "setting",
        "`cpu-affinity` cannot be applied",
        "Workers run on any CPU.",
        "Remove `cpu-affinity`: it assigns workers to CPUs from number 0 on, but this host or container does not let "
        "uWSGI use all of these.",
    ),
    Message(
        "harakiri_without_buffering",
        (
            rb" \*\*\* WARNING: you have enabled harakiri without post buffering",
            rb"\*\*\* WARNING: you have enabled harakiri without post buffering",
        ),
        "event",
        "`harakiri` also counts the time in which a slow client sends its request body",
    ),
    Message(
        "emperor_lost",
        (rb"lost communication with the Emperor, goodbye", rb"!!! Emperor died !!!"),
        "event",
        "uWSGI's Emperor has exited",
    ),
    Message(
        "traceback",
        (rb"Traceback \(most recent call last\):",),
        "known",
        "the application raised an exception",
        agrees="exceptions",
    ),
    # The line of each request, core/logging.c, by its end: `uwsgi_log.scan`.
    Message(
        "status_5xx",
        (),
        "known",
        "the application sends responses with a status from 500 to 599",
        agrees="requests",
    ),
)
"""In the order of this module. The code is the label `message` of `uwsgi_log_messages_total`, and never changes."""

BY_CODE: Mapping[str, Message] = {message.code: message for message in MESSAGES}

SIGNALS: Mapping[int, tuple[str, str]] = {
    1: ("SIGHUP", "Another program, or a person, sent this signal."),
    2: ("SIGINT", "Another program, or a person, sent this signal."),
    4: ("SIGILL", "Native code was built for another CPU, or is damaged."),
    6: ("SIGABRT", "Native code called abort(): check the line before this message in uWSGI's log."),
    7: ("SIGBUS", "A mapped file was truncated, or its disk is full."),
    8: ("SIGFPE", "Native code divided by zero."),
    9: (
        "SIGKILL",
        "SIGKILL comes from the kernel when memory runs out (`dmesg` shows this), from uWSGI for `harakiri`, or from "
        "an administrator.",
    ),
    11: (
        "SIGSEGV",
        "Native code crashed, usually an extension module: a core dump and `gdb`, or Python's `faulthandler`, show "
        "which one.",
    ),
    15: ("SIGTERM", "Another program, or a person, sent this signal."),
    24: ("SIGXCPU", "The limit of CPU time was reached."),
    25: ("SIGXFSZ", "The limit of file sizes was reached."),
    31: ("SIGSYS", "A system call filter (seccomp) forbids a system call of this process."),
}
"""By number, on Linux: the name, and what that mostly means."""


def name_signal(number: int) -> str:
    """Name a signal: `11 (SIGSEGV)`."""
    known = SIGNALS.get(number)
    return f"{number} ({known[0]})" if known else str(number)


def describe(code: str, worker: int | None = None, signal: int | None = None, limit: int | None = None) -> str:
    """Say what a message reports, as a clause."""
    return BY_CODE[code].says.format(
        worker=f"worker {worker}" if worker else "a worker",
        signal=f"signal {name_signal(signal)}" if signal else "a signal",
        limit=limit if limit is not None else "unknown",
    )


def advise(code: str, limit: int | None = None) -> str:
    """Say what to do about a message; empty if nothing."""
    return (
        BY_CODE[code]
        .change.replace(" ({limit})", "" if limit is None else f" ({limit})")
        .replace(" (now {limit})", "" if limit is None else f" (now {limit})")
    )


HEAD = 4
"""Bytes at the beginning of a line by which the patterns that may match it are found. Every pattern begins with that
many plain bytes: finding a line then takes a tenth of the time of trying the patterns."""


def _head(pattern: bytes) -> bytes:
    """The plain bytes with which a pattern begins."""
    return re.sub(rb"\\([^A-Za-z0-9])", rb"\1", pattern[: 2 * HEAD])[:HEAD]


@cache
def index() -> Mapping[bytes, tuple[tuple[Message, re.Pattern[bytes]], ...]]:
    """The compiled patterns by the first bytes of the lines that they match. Compiling takes 50 ms, once."""
    by_head: dict[bytes, list[tuple[Message, re.Pattern[bytes]]]] = {}
    for message in MESSAGES:
        for pattern in message.patterns:
            by_head.setdefault(_head(pattern), []).append((message, re.compile(pattern)))
    return {head: tuple(rows) for head, rows in by_head.items()}
