"""Of a stack, the line counts that the application's developers can change."""

from __future__ import annotations

import pytest

from uwsgi_headroom.kernel.stacks.looks import Choice, choose_frame, is_application
from uwsgi_headroom.kernel.stacks.reader import Code, Frame


def frame(file: str, function: str = "function") -> Frame:
    return Frame(Code(function, file, 1, 0), 0)


@pytest.mark.parametrize(
    ("file", "is_own"),
    [
        ("/srv/shop/orders.py", True),
        ("orders.py", True),
        ("/srv/lib/orders.py", True),
        ("/srv/shop/python3.11.py", True),
        ("/srv/shop/.venv/lib/python3.11/site-packages/django/db.py", False),
        ("/usr/lib/python3/dist-packages/flask/app.py", False),
        ("/usr/lib/python3.11/threading.py", False),
        ("/usr/lib64/python3.9/json/decoder.py", False),
        ("lib/python3.12/site-packages/x.py", False),
        ("<frozen importlib._bootstrap>", False),
        ("<string>", False),
    ],
)
def test_files_of_the_application(file: str, is_own: bool) -> None:
    """Files of the standard library and of installed packages, and code without a file, are no application's."""
    assert is_application(file) == is_own


def test_the_first_frame_of_the_application() -> None:
    """The application's function that was called last counts, with the library's function that it has called."""
    orders, view = frame("/srv/shop/orders.py", "query_orders"), frame("/srv/shop/views.py", "view")
    stack = [
        frame("/usr/lib/python3.11/socket.py", "readinto"),
        frame("/v/lib/python3.11/site-packages/psycopg2/extras.py", "execute"),
        orders,
        frame("/v/lib/python3.11/site-packages/flask/app.py", "dispatch"),
        view,
    ]
    assert choose_frame(stack) == Choice(orders, "psycopg2 execute")
    assert choose_frame([frame("/usr/lib/python3.11/queue.py", "get"), view]) == Choice(view, "queue get")
    assert choose_frame(stack[2:]) == Choice(orders, "")
    assert choose_frame(stack, ("/srv/shop/v",)) == Choice(view, "flask dispatch")
    assert choose_frame(stack[:2]) == Choice(stack[0], "")
    assert choose_frame([]) is None
