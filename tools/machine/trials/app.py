"""`/sleep?50` sleeps for so many milliseconds, `/burn?50` computes, `/grow?50` takes so many megabytes for good."""

import time
from typing import Any

KEPT: list[bytearray] = []


def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    amount = int(environ.get("QUERY_STRING") or 0)
    match environ["PATH_INFO"]:
        case "/sleep":
            time.sleep(amount / 1000)
        case "/burn":
            end = time.thread_time() + amount / 1000
            while time.thread_time() < end:
                pass
        case "/grow":
            KEPT.append(bytearray(b"x" * (amount << 20)))
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"ok"]
