"""The page's predictions of other settings in a real browser."""

import re

import msgspec
import pytest
from msgspec.structs import replace
from playwright.sync_api import Route as Intercepted

from tests.support import predicted_settings
from tests.support.browser import Tab, tab

pytestmark = pytest.mark.integration

MINUS = "\N{MINUS SIGN}"
SPACE = "\N{NO-BREAK SPACE}"


@pytest.fixture(scope="module")
def panel(chromium, port):
    """A page with the predictions of the whole grid; they were asked for once, for the exporter's own choice."""
    with tab(chromium, port, width=1280) as shown:
        (asked,) = opened(shown, predicted_settings.document())
        assert asked.endswith("/what-if")
        assert shown.page.locator(".settings [aria-pressed=true]").get_attribute("class") == "best"
        yield shown
        assert shown.problems == []


def opened(shown: Tab, answer: msgspec.Struct | None = None) -> list[str]:
    """Opens the panel; the exporter answers with this document, or else with its own. Returns the URLs asked for."""
    asked: list[str] = []

    def fulfill(route: Intercepted) -> None:
        asked.append(route.request.url)
        if answer is None:
            route.continue_()
        else:
            route.fulfill(body=msgspec.json.encode(answer))

    shown.page.route("**/what-if*", fulfill)
    shown.open("/")
    shown.page.get_by_role("heading", name="What if").click()
    shown.page.get_by_role("button", name="Predict again").wait_for()
    return asked


def cells(shown: Tab) -> dict[str, list[str]]:
    script = """[...document.querySelectorAll(".settings button")].map((each) => each.getAttribute("aria-label"))"""
    parts = [label.split(": at most ") for label in shown.page.evaluate(script)]
    return {setting: rest.split("; ")[2:] for setting, rest in parts}


def test_a_folded_panel_asks_nothing(chromium, port):
    with tab(chromium, port, width=1280) as shown:
        asked: list[str] = []
        shown.page.on("request", lambda request: asked.append(request.url))
        shown.open("/")
        shown.page.evaluate("globalThis.first = heard")
        shown.until("heard !== first")
        assert any("/events" in url for url in asked)
        assert not any("what-if" in url for url in asked)


def test_the_grid(panel):
    """A cell says what is predicted, beside the present setting, and what stands out."""
    signs = cells(panel)
    assert signs["4x8"] == ["now", "below 1.5x"]
    assert signs["6x4"] == ["best"]
    assert signs["2x4"] == ["below peak"]
    assert signs["8x16"] == ["memory"]
    cell = panel.page.get_by_role("button", name="6x4: at most 480/s")
    assert cell.inner_text().replace(SPACE, " ").split("\n") == ["480/s +50 %", f"67 ms {MINUS}17 %", "★ best"]
    assert panel.page.get_by_role("rowheader", name="6 processes").count() == 1
    assert panel.page.get_by_role("columnheader", name="4 threads").count() == 1
    panel.page.get_by_role("button", name="8x16:").focus()
    panel.page.keyboard.press("Enter")
    detail = panel.text(".detail").replace(SPACE, " ")
    assert "8x16: 8 processes with 16 threads each, 128 in all" in detail
    assert "At most 640/s (+100 % compared with the present setting). First limit: all interpreters." in detail
    assert "4 more workers do not fit." in detail
    assert "Error of the model: The model has a response time of 69 ms, 8 % below the 75 ms observed." in detail
    table = panel.page.locator("table.figures")
    rows = [row.inner_text().split("\t") for row in table.locator("tr").all()]
    assert rows[0][1:] == ["1x (240/s)", "now", "1.5x (360/s)", "now"]
    assert ["Mean time, with the queue", "63 ms", "81 ms", "71 ms", "overload"] in rows
    assert any(row[0] == "Threads in use" for row in rows)
    panel.page.get_by_role("button", name="4x8:").click()
    assert "compared with the present" not in panel.text(".detail")
    tables = "[...document.querySelectorAll('.prediction table')]"
    for width in (360, 900, 1280):
        panel.page.set_viewport_size({"width": width, "height": 800})
        assert panel.overflow() <= 0
        cut = panel.page.evaluate(f"{tables}.map((each) => each.offsetWidth > each.parentNode.clientWidth)")
        assert cut == [False, False]


def test_a_peak_that_was_cut_off(chromium, port):
    """No setting is best and none has a time: more was asked for than was completed. Overloads remain."""
    with tab(chromium, port, width=1280) as shown:
        opened(shown, predicted_settings.cut_off())
        text = shown.text(".prediction").replace(SPACE, " ")
        assert "240/s were completed at today's peak, and more was asked for, so times are not known." in text
        assert "Which setting is best is not known" in text
        signs = cells(shown)
        assert "best" not in [sign for each in signs.values() for sign in each]
        assert signs["2x4"] == ["below peak"]
        cell = shown.page.get_by_role("button", name="6x4: at most 480/s, +50")
        assert cell.inner_text().replace(SPACE, " ").split("\n") == ["480/s +50 %", "time not known"]
        cell.click()
        assert "Mean time" not in shown.text(".detail")
        assert shown.problems == []


def test_no_setting_is_better_by_more_than_the_error(chromium, port):
    with tab(chromium, port, width=1280) as shown:
        # At 1.5 times the peak, the present setting is overloaded: then any other is better. Here it is not.
        known = predicted_settings.document(error=0.9)
        calm = tuple(replace(each, loads=each.loads[:1]) for each in (*known.predictions,))
        opened(shown, replace(known, predictions=calm))
        shown.page.locator(".settings").wait_for()
        assert "No setting is better than 4x8" in shown.text(".prediction")
        assert "best" in cells(shown)["4x8"]


def test_a_refusal(chromium, port):
    with tab(chromium, port, width=1280) as shown:
        asked = opened(shown)
        again = shown.page.get_by_role("button", name="Predict again")
        again.wait_for()
        said = shown.text("details .controls [role=status]")
        assert re.fullmatch(r"[A-Z].+\.", said)
        assert not said.startswith("The exporter")
        with shown.page.expect_response(lambda answer: "what-if" in answer.url):
            again.click()
        assert len(asked) == 2
        assert shown.page.locator(".settings").count() == 0
        assert shown.problems == []


def test_a_closed_panel_asks_no_more(chromium, port):
    """Closing the panel ends the request, and what comes later is not shown."""
    with tab(chromium, port, width=1280) as shown:
        held: list[Intercepted] = []

        def hold(route):
            held.append(route)

        shown.page.route("**/what-if*", hold)
        shown.open("/")
        heading = shown.page.get_by_role("heading", name="What if")
        with shown.page.expect_event("requestfailed", lambda request: "what-if" in request.url):
            heading.click()
            shown.page.get_by_text("Predicting").wait_for()
            heading.click()
        assert len(held) == 1
