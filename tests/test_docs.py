"""The pages: every public name is listed, and every link leads somewhere."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
API = ROOT / "docs" / "api.md"
PACKAGES = [
    "manyview",
    "manyview.baselines",
    "manyview.datasets",
    "manyview.exceptions",
    "manyview.experiment",
    "manyview.metrics",
    "manyview.paper",
    "manyview.plotting",
    "manyview.report",
]


def named_in(section: str) -> list[str]:
    """Return the names in the first column of the tables of a section."""
    rows = re.findall(r"^\| (`[^|]+`) \|", section, flags=re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


def sections_of_api() -> dict[str, str]:
    """Return what stands under each title of the page of names."""
    _, *parts = re.split(r"^## ", API.read_text("utf-8"), flags=re.MULTILINE)
    return {title.strip("`"): text for title, _, text in (part.partition("\n") for part in parts)}


def test_the_page_of_names_has_every_package_and_no_other():
    assert sorted(set(sections_of_api()) - {"What else you may meet"}) == PACKAGES


@pytest.mark.parametrize("package", PACKAGES)
def test_the_page_of_names_has_every_public_name_and_no_other(package):
    listed = named_in(sections_of_api().get(package, ""))
    assert sorted(listed) == sorted(importlib.import_module(package).__all__)


def test_what_else_is_listed_is_there():
    for name in named_in(sections_of_api()["What else you may meet"]):
        module, _, attribute = name.rpartition(".")
        assert attribute in importlib.import_module(module).__all__


def prose_of(page: Path) -> str:
    """Return a page without its blocks of code."""
    return re.sub(r"^( *)```.*?^\1```$", "", page.read_text("utf-8"), flags=re.M | re.S)


def anchors_of(page: Path) -> set[str]:
    """Return the anchors of a page's titles, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", prose_of(page), flags=re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", title.strip().lower()) for title in titles)
    return {title.replace(" ", "-") for title in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose_of(page)):
        if re.match(r"[a-z]+:", target):
            continue  # elsewhere; tests do not ask the network
        path, _, anchor = target.partition("#")
        to = (page.parent / path).resolve() if path else page
        assert to.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors_of(to), f"{page.name} links to {target}"


def test_every_page_is_found_from_the_first():
    first = (ROOT / "README.md").read_text("utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert f"(docs/{page.name})" in first


@pytest.mark.parametrize("folder", ["src", "benchmarks"])
def test_pages_that_the_source_names_are_there(folder):
    for file in (ROOT / folder).rglob("*.py"):
        for name in re.findall(r"docs/(\w+\.md)", file.read_text("utf-8")):
            assert (ROOT / "docs" / name).exists(), f"{file} names docs/{name}"
