"""The page's panel about lines of code by itself in a real browser. Their names are text from a monitored server."""

from __future__ import annotations

import msgspec
import pytest

from tests.support.browser import Tab
from tests.web.test_page_parts_in_browser import part
from uwsgi_headroom.documents.waits import Code, CodeLine, CodeState

pytestmark = pytest.mark.integration

HOSTILE = "<img src=x onerror=alert(1)>"


def line(
    function: str, share: float, *states: CodeState, callee: str = "", addresses: tuple[str, ...] = ()
) -> CodeLine:
    return CodeLine(
        function=function,
        file="/srv/shop/orders.py" if function else "",
        line=3 if function else 0,
        callee=callee,
        samples=100 * share,
        share=share,
        per_request=share * 0.1,
        states=states,
        addresses=addresses,
    )


CODE = Code(
    why=None,
    samples=300,
    threads=1200.0,
    lines=(
        line(
            HOSTILE,
            0.6,
            CodeState(state="backend", share=0.45),
            CodeState(state="cpu", share=0.15),
            callee="psycopg2 execute",
            addresses=("10.0.0.5:5432",),
        ),
        line("", 0.3, CodeState(state="cpu_wait", share=0.3)),
    ),
    unread=0.02,
    seconds=300.0,
)


def test_the_panel_comes_and_goes(page: Tab) -> None:
    """Each line has its time, its share, what its threads do, and a bar in the colours of the wait states, as long as
    its share; while code is off there is no panel."""
    script = f"""({{ code }}) => {{
        const panel = code(), server = JSON.parse(heard);
        const shown = [null, {msgspec.json.encode(CODE).decode()},
                {msgspec.json.encode(Code(why="no right")).decode()}].map((known) => {{
            panel.now({{ ...server, code: known }});
            if (panel.node.hidden) return null;
            const rows = [...panel.node.querySelectorAll("ol > li")].map((row) => [
                row.firstChild.textContent, row.querySelector(".parts").style.width,
                [...row.querySelectorAll(".part")].map((each) =>
                    [each.style.getPropertyValue("--swatch"), each.style.getPropertyValue("--part")])]);
            return [rows, panel.node.querySelector("ol + .hint").textContent];
        }});
        return [...shown, panel.node.querySelector("img")];
    }}"""
    assert part(page, "code.js", script) == [
        None,
        [
            [
                [
                    f"{HOSTILE} (shop/orders.py:3), in psycopg2 execute 60 ms, 60 % backend 10.0.0.5:5432, CPU",
                    "100%",
                    [["var(--wait-backend)", "0.7500"], ["var(--wait-cpu)", "0.2500"]],
                ],
                ["outside of Python code 30 ms, 30 % CPU wait", "50%", [["var(--wait-cpu-wait)", "1.0000"]]],
            ],
            "8.0 % in other lines, 2.0 % not readable",
        ],
        [[], "Not known: no right."],
        None,
    ]
