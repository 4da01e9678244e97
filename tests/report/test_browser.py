"""The report page in headless Chromium."""

import shutil
import time
from dataclasses import replace

import pytest

from manyview import MMC
from manyview.report import write_report
from manyview.report.text import MISSING

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: pip install 'manyview[test]'"
)

pytestmark = pytest.mark.slow

PHONE = {"width": 375, "height": 800}


@pytest.fixture(scope="module")
def browser():
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.skip("no chromium here: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


class Opened:
    """A page with what it said and what it asked for."""

    def __init__(self, browser, path, **options):
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.said, self.asked = [], []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.said.append(dialog.message), dialog.dismiss()))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-drawn]", timeout=30_000)


@pytest.fixture
def opened(browser):
    contexts = []

    def open_page(path, **options):
        made = Opened(browser, path, **options)
        contexts.append(made.context)
        return made

    yield open_page
    for context in contexts:
        context.close()


def _column(page, at):
    return page.locator("table.results tbody tr").evaluate_all(
        "(rows, at) => rows.map(row => row.cells[at].textContent)", at
    )


def _hovered(page, plot, at=0):
    """Move onto a point of a figure and return what is shown."""
    point = page.locator(f"#{plot} .scatterlayer .point").nth(at)
    point.scroll_into_view_if_needed()
    box = point.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=3)
    shown = page.locator(f"#{plot} .hoverlayer .hovertext").first
    shown.wait_for(timeout=5000)
    lines = shown.locator("tspan.line").all_text_contents()
    return " ".join(lines) or shown.text_content()


def test_the_page_says_nothing_and_asks_for_nothing(opened, plain_page):
    found = opened(plain_page)
    assert found.said == []
    assert found.asked == [plain_page.as_uri()]
    assert found.page.locator(".plot .main-svg").count() >= 6


def test_names_run_no_script_and_are_shown_as_they_are(opened, nasty_page):
    found = opened(nasty_page)
    assert found.said == []
    assert found.asked == [nasty_page.as_uri()]
    assert found.page.title() == "<script>alert(1)</script>"
    ticks = found.page.locator("#spread-acc-0 .ytick").all_text_contents()
    assert "<b>bold</b>" in ticks
    assert "{{7*7}} †" in ticks
    said = _hovered(found.page, "map-0-class")
    assert "<b>bold</b>" in said
    assert any(name in said for name in ("<script>alert(1)</script>", "</script>", "{{7*7}}"))


def test_iterations_are_counted_once(opened, plain_page):
    page = opened(plain_page).page
    ticks = page.locator("[id^=convergence] .xtick").all_text_contents()
    assert len(ticks) > 2
    assert len(set(ticks)) == len(ticks)


@pytest.mark.parametrize("width", [1000, 1150, 1250, 1400])
def test_names_of_clusters_are_shown_whole(opened, plain_page, width):
    page = opened(plain_page, viewport={"width": width, "height": 900}).page
    plot = page.locator("[id^=map] .main-svg").first.bounding_box()
    names = page.locator("[id^=map]").first.locator(".annotation-text")
    assert names.count() > 1
    for box in (names.nth(at).bounding_box() for at in range(names.count())):
        assert plot["x"] <= box["x"]
        assert box["x"] + box["width"] <= plot["x"] + plot["width"]


def test_a_click_on_a_title_sorts_and_another_turns_the_order(opened, plain_page):
    page = opened(plain_page).page
    before = _column(page, 3)
    button = page.locator("table.results thead button", has_text="ACC")
    header = page.locator("table.results thead th").nth(3)

    def numbers():
        return [
            float(text.replace("best:", "").strip(" ★").split()[0]) for text in _column(page, 3)
        ]

    button.click()
    assert header.get_attribute("aria-sort") == "descending"
    assert numbers() == sorted(numbers(), reverse=True)
    assert _column(page, 3) != before
    button.click()
    assert header.get_attribute("aria-sort") == "ascending"
    assert numbers() == sorted(numbers())
    assert page.locator("table.results [aria-sort]").count() == 1


def test_the_keyboard_sorts(opened, plain_page):
    page = opened(plain_page).page
    before = _column(page, 0)
    button = page.locator("table.results thead button", has_text="Method")
    button.focus()
    page.keyboard.press("Enter")
    assert _column(page, 0) != before
    assert [name[:3] for name in _column(page, 0)] == sorted(name[:3] for name in _column(page, 0))
    page.keyboard.press("Space")
    header = page.locator("table.results thead th").first
    assert header.get_attribute("aria-sort") == "descending"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_cells_without_a_figure_stand_last_in_either_order(opened, nasty_page):
    page = opened(nasty_page).page
    button = page.locator("table.results thead button", has_text="ACC")
    for _ in range(2):
        button.click()
        assert _column(page, 3)[-1] == MISSING


def test_the_first_stop_of_the_keyboard_skips_to_the_results(opened, plain_page):
    page = opened(plain_page).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_hovering_shows_a_sample(opened, plain_page):
    said = _hovered(opened(plain_page).page, "map-0-cluster", at=4)
    assert "sample " in said
    assert "class " in said
    assert "cluster " in said


@pytest.mark.parametrize("which", ["plain_page", "nasty_page"])
def test_a_phone_needs_no_scrolling_sideways(opened, request, which):
    page = opened(request.getfixturevalue(which), viewport=PHONE).page
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    scroll = page.locator(".scroll").first
    assert scroll.evaluate("node => node.scrollWidth > node.clientWidth")


def wait_until(page, condition, arg=None, seconds=30.0):
    # wait_for_function evaluates text inside the page, which its policy refuses
    end = time.monotonic() + seconds
    while not page.evaluate(condition, arg):
        assert time.monotonic() < end, condition
        page.wait_for_timeout(50)


def test_figures_follow_the_width(opened, plain_page):
    page = opened(plain_page, viewport={"width": 1200, "height": 800}).page
    page.set_viewport_size(PHONE)
    wait_until(
        page,
        "() => [...document.querySelectorAll('.plot .main-svg')].every(s => s.clientWidth <= 375)",
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_dark_mode_changes_page_and_figures(opened, plain_page):
    def looks(page):
        return page.evaluate(
            "[getComputedStyle(document.body).backgroundColor,"
            " getComputedStyle(document.querySelector('#spread-acc-0 .ytick text')).fill]"
        )

    light = looks(opened(plain_page, color_scheme="light").page)
    page = opened(plain_page, color_scheme="dark").page
    dark = looks(page)
    assert light[0] != dark[0]
    assert light[1] != dark[1]
    page.emulate_media(color_scheme="light")
    wait_until(
        page,
        "wanted => wanted === getComputedStyle("
        " document.querySelector('#spread-acc-0 .ytick text')).fill",
        light[1],
    )
    assert looks(page) == light


# The page of a fit

NARROW = {"width": 390, "height": 844}


def _contrast(page, selector):
    """Return the contrast ratio of the text of an element and the page behind it."""
    return page.evaluate(
        """selector => {
          const light = (text) => {
            const parts = text.match(/[\\d.]+/g).slice(0, 3).map((part) => {
              const c = part / 255;
              return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
            });
            return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
          };
          const own = light(getComputedStyle(document.querySelector(selector)).color);
          const behind = light(getComputedStyle(document.body).backgroundColor);
          return (Math.max(own, behind) + 0.05) / (Math.min(own, behind) + 0.05);
        }""",
        selector,
    )


@pytest.mark.parametrize("which", ["fit_page", "nasty_fit_page"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_fit_is_readable_on_a_phone(opened, request, which, scheme):
    path = request.getfixturevalue(which)
    found = opened(path, viewport=NARROW, color_scheme=scheme)
    assert found.said == []
    assert found.asked == [path.as_uri()]
    assert found.page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    assert found.page.evaluate("document.documentElement.scrollHeight") < 6000
    for selector in ("p", "a", ".lead", ".up", ".down", ".kept", ".spread"):
        assert _contrast(found.page, selector) >= 4.5, selector


def test_a_comparison_on_a_phone_is_not_endless(opened, plain_page):
    page = opened(plain_page, viewport=NARROW).page
    assert page.evaluate("document.documentElement.scrollHeight") < 6000
    products = page.locator(".words").first
    assert not products.is_visible()
    page.locator("details.fold summary", has_text="Cluster").first.click()
    box = products.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= NARROW["width"]


def test_several_data_sets_are_folded_on_a_phone(opened, tmp_path, plain, runs_of):
    sets = [replace(plain, name=f"set {at}") for at in range(4)]
    runs = [run for dataset in sets for run in runs_of(dataset)]
    model = MMC(3, random_state=0).fit(plain.views)
    models = {dataset.name: model for dataset in sets}
    path = write_report(tmp_path / "r.html", runs, sets, models=models)
    page = opened(path, viewport=NARROW).page
    assert page.evaluate("document.documentElement.scrollHeight") < 6000
    assert page.locator("#map-3-cluster").is_hidden()
    page.locator("[aria-labelledby=found] summary", has_text="set 3").click()
    page.locator("#map-3-cluster .main-svg").first.wait_for(timeout=5000)
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]


def test_long_parts_are_open_on_a_wide_screen(opened, fit_page):
    page = opened(fit_page, viewport={"width": 1280, "height": 800}).page
    assert page.locator("details.fold:not([open])").count() == 0
    page.set_viewport_size(NARROW)
    wait_until(page, "() => !document.querySelector('details.fold[open]')")


def test_pointing_at_the_map_shows_a_sample(opened, fit_page):
    page = opened(fit_page).page
    page.locator(".map use").nth(5).hover()
    told = page.locator(".map output").inner_text()
    assert "sample " in told
    assert "confidence 0." in told
    assert "runner-up: cluster " in told
    page.mouse.move(2, 2)
    assert not page.locator(".map output").is_visible()


def test_the_keyboard_moves_over_the_map(opened, fit_page):
    page = opened(fit_page).page
    page.locator(".map").focus()
    told = page.locator(".map output")
    shown = []
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowDown", "ArrowUp", "End"):
        page.keyboard.press(key)
        shown.append(told.inner_text().splitlines())
    assert shown[0][0] != shown[1][0]
    clusters = [lines[1].split(",")[0] for lines in shown]
    assert clusters == [f"cluster {k}" for k in (0, 0, 1, 2, 1, 2)]
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    page.keyboard.press("Escape")
    assert not told.is_visible()


def test_all_of_a_fit_is_reached_by_tab(opened, fit_page):
    page = opened(fit_page).page
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate("document.activeElement.className || document.activeElement.tagName")
        )
    assert {"skip", "map", "A", "SUMMARY", "scroll"} <= reached


def test_names_in_a_fit_run_no_script(opened, nasty_fit_page):
    found = opened(nasty_fit_page)
    assert found.page.title() == "<script>alert(1)</script>"
    found.page.locator(".map").first.focus()
    found.page.keyboard.press("Home")
    assert "<b>bold</b>" in found.page.locator(".map output").first.inner_text()
    assert found.said == []
