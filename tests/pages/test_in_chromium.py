"""Every kind of page, opened in a browser: nothing is asked of a network, and everybody can use it."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.chromium import opened

pytestmark = pytest.mark.slow

KINDS = ("export", "wrong", "check", "verify", "lint", "fix", "flat", "set", "coverage", "models", "targets", "profile")
REPORTS = KINDS[:7]
FOCUSED = "(at => at.id || at.getAttribute('role') || at.tagName)(document.activeElement)"
LOOKING = (Path(__file__).parent / "looking_at_pages.js").read_text()


# How far the last column of a table is outside of it: where a window has no room, the table scrolls sideways.
BEYOND = """() => [...document.querySelectorAll(".rows .head")].map((head) =>
    head.lastElementChild.getBoundingClientRect().right - head.getBoundingClientRect().right)"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_page_opens_asks_no_network_and_can_be_read(running, pages, kind, scheme):
    with opened(running, pages[kind], width=1000 if scheme == "dark" else 1280, scheme=scheme) as found:
        assert found.page.evaluate(LOOKING) == []
        assert all(each < 1 for each in found.page.evaluate(BEYOND))
        assert (found.errors, found.requests) == ([], [])


@pytest.mark.parametrize("kind", KINDS)
def test_a_narrow_page_is_no_wider_than_its_window_and_its_rows_have_room(running, pages, kind):
    with opened(running, pages[kind], width=360, height=740) as found:
        assert found.page.evaluate("document.documentElement.scrollWidth") <= 360
        assert all(each < 1 for each in found.page.evaluate(BEYOND))
        assert found.errors == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_keyboard_reaches_everything(running, pages, kind):
    with opened(running, pages[kind]) as found:
        of_kind = {"find", "treeitem", "panel", "zoom-in"} if kind in REPORTS else {"INPUT"}
        wanted = {"theme", "BUTTON", "region"} if kind == "set" else {"theme", "table"} | of_kind
        seen = []
        while not wanted <= set(seen) and len(seen) < 80:
            found.page.keyboard.press("Tab")
            seen.append(found.page.evaluate(FOCUSED))
        assert seen[0] == "A"  # to the content
        assert wanted <= set(seen)
        assert found.errors == []


def test_a_flame_graph_enlarges_what_is_selected_and_the_table_changes_its_rows(running, pages):
    with opened(running, pages["profile"]) as found:
        page = found.page
        frame = page.locator('#flame-runtime button[aria-label^="blocks:"]')
        before = frame.bounding_box()["width"]
        frame.focus()
        page.keyboard.press("Enter")
        assert frame.bounding_box()["width"] > before
        assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith("blocks:")
        assert "ms" in page.locator("#said").inner_text()
        page.keyboard.press("Enter")
        assert abs(frame.bounding_box()["width"] - before) < 1
        page.locator('#flame-runtime button[tabindex="0"]').focus()
        page.keyboard.press("ArrowDown")
        assert page.evaluate("document.activeElement.getAttribute('tabindex')") == "-1"
        page.keyboard.press("ArrowUp")
        assert page.evaluate("document.activeElement.getAttribute('tabindex')") == "0"
        page.locator("#by button", has_text="By operator").click()
        assert "Gemm" in page.locator("#rows").inner_text()
        assert page.locator('#by [aria-pressed="true"]').inner_text() == "By operator"
        assert (found.errors, found.requests) == ([], [])


def test_a_part_of_a_set_is_chosen_by_keys_and_by_its_address(running, pages):
    with opened(running, pages["set"]) as found:
        page = found.page
        page.locator("#views button", has_text="net").focus()
        page.keyboard.press("Enter")
        page.locator('[role="treeitem"]').first.wait_for()
        assert page.evaluate("location.hash") == "#part=net"
        assert page.locator("nav").inner_text().startswith("Picture")
        page.locator("#find").fill("gelu")
        page.keyboard.press("Enter")
        assert "aten::gelu" in page.locator("#panel").inner_text()
        assert page.evaluate(LOOKING) == []
        page.reload()
        page.locator('[role="treeitem"]').first.wait_for()
        page.locator("#views button").first.click()
        assert page.locator("#parts").is_visible() and page.locator('[role="treeitem"]').count() == 0
        page.locator("#parts button", has_text="head").click()
        page.locator('[role="treeitem"]').first.wait_for()
        assert page.evaluate("location.hash") == "#part=head"
        assert (found.errors, found.requests) == ([], [])


def test_the_picture_unfolds_by_keys_and_shows_what_is_known(running, pages):
    with opened(running, pages["export"]) as found:
        page = found.page
        page.locator("#fold").click()
        page.locator('[role="treeitem"][tabindex="0"]').focus()
        label = "document.activeElement.getAttribute('aria-label')"
        assert page.evaluate(label).startswith("module blocks Sequential")
        boxes = page.locator('[role="treeitem"]').count()
        page.keyboard.press("ArrowRight")
        assert page.locator('[role="treeitem"]').count() == boxes + 2
        assert page.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        assert "Block" in page.locator("#panel").inner_text()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        panel = page.locator("#panel").inner_text()
        assert "aten::layer_norm" in panel and "LayerNormalization" in panel and "self.norm(x)" in panel
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowLeft")
        assert page.evaluate(label).startswith("module 0 Block")
        assert found.errors == []


def test_what_is_searched_for_is_unfolded(running, pages):
    with opened(running, pages["export"]) as found:
        found.page.locator("#fold").click()
        found.page.locator("#find").fill("blocks.1 gelu")
        found.page.keyboard.press("Enter")
        assert found.page.locator(".box.chosen").get_attribute("aria-label").startswith("operator gelu")
        assert "aten::gelu" in found.page.locator("#panel").inner_text()


def test_the_first_operator_that_differs_is_marked(running, pages):
    with opened(running, pages["wrong"]) as found:
        assert "differs first" in found.page.locator(".box.differs").text_content()
        assert "The first operator that differs" in found.page.locator("#panel").inner_text()
        assert found.page.locator("circle.dot.wrong").count() == 10  # two outputs, five runs
        assert found.page.locator("h1").inner_text() == "The model does not agree with PyTorch"


def test_an_operator_without_a_route_is_marked(running, pages):
    with opened(running, pages["check"]) as found:
        assert "no route" in found.page.locator(".box.differs").first.text_content()
        assert "aten::linalg_eigvals" in found.page.locator("#operators").inner_text()


def test_thousands_of_nodes_in_one_module_are_folded(running, pages):
    with opened(running, pages["flat"]) as found:
        assert found.page.locator('[role="treeitem"]').count() < 100
        found.page.locator("#find").fill("relu_2999")
        found.page.keyboard.press("Enter")
        assert found.page.locator(".box.chosen").get_attribute("aria-label") == "operator Relu, relu_2999"


def test_a_table_of_ten_thousand_rows_holds_those_in_sight(running, pages):
    with opened(running, pages["coverage"]) as found:
        page = found.page
        rows = page.locator('#rows .row[role="row"]')
        assert page.locator('#rows [role="table"]').get_attribute("aria-rowcount") == "10001"
        assert rows.count() < 60
        page.locator("#tools input").fill("op_7777")
        assert rows.count() == 1
        rows.first.focus()
        page.keyboard.press("Enter")
        assert "op_7777 </script><b>differs</b>" in page.locator("#detail").inner_text()
        page.locator("#detail summary").click()
        assert "y = Relu(x)" in page.locator("#detail").inner_text()
        page.locator("#tools input").fill("")
        page.locator("#tools button").click()  # only differences
        assert page.locator("#tools .tally").inner_text().startswith("715 of")
        assert found.errors == []


def test_light_and_dark_are_switched(running, pages):
    with opened(running, pages["export"], scheme="dark") as found:
        ground = "getComputedStyle(document.body).backgroundColor"
        dark = found.page.evaluate(ground)
        found.page.locator("#theme").click()
        assert found.page.evaluate(ground) != dark
        assert found.page.locator("#theme").get_attribute("aria-pressed") == "false"


def test_without_the_library_the_tables_are_there(running, pages, tmp_path, monkeypatch):
    from opbridge.pages import rendering
    from opbridge.reports.report import Report

    monkeypatch.setattr(rendering, "has_layout", lambda: False)
    rendering._environment.cache_clear()
    try:
        page = pages["export"].read_text()
        import base64
        import json
        import re
        import zlib

        held = re.search(r'id="data">([^<]*)<', page)
        document = json.loads(zlib.decompress(base64.b64decode(held[1])))
        path = tmp_path / "without.html"
        path.write_text(Report("export", "x").page_of(document))
    finally:
        rendering._environment.cache_clear()
    with opened(running, path) as found:
        assert "opbridge.pages.vendor" in found.page.locator("#picture").inner_text()
        assert found.page.locator("#calls .row").count() > 10
        assert found.errors == []
