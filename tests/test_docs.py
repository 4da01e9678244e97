"""The documentation pages: complete API list, valid links."""

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
    "manyview.scverse",
]


def named_in(section: str) -> list[str]:
    """Return the names in the first column of the tables of a section."""
    rows = re.findall(r"^\| (`[^|]+`) \|", section, flags=re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


def sections_of_api() -> dict[str, str]:
    """Return the text under each heading of the API page."""
    _, *parts = re.split(r"^## ", API.read_text("utf-8"), flags=re.MULTILINE)
    return {title.strip("`"): text for title, _, text in (part.partition("\n") for part in parts)}


def test_api_page_lists_every_package_and_no_other():
    assert sorted(set(sections_of_api()) - {"Other names"}) == PACKAGES


@pytest.mark.parametrize("package", PACKAGES)
def test_api_page_lists_every_public_name_and_no_other(package):
    listed = named_in(sections_of_api().get(package, ""))
    assert sorted(listed) == sorted(importlib.import_module(package).__all__)


def test_other_names_of_the_api_page_exist():
    for name in named_in(sections_of_api()["Other names"]):
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
def test_links_resolve(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose_of(page)):
        if re.match(r"[a-z]+:", target):
            continue  # an external link; tests do not use the network
        path, _, anchor = target.partition("#")
        to = (page.parent / path).resolve() if path else page
        assert to.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors_of(to), f"{page.name} links to {target}"


def test_readme_links_every_page():
    first = (ROOT / "README.md").read_text("utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert f"(docs/{page.name})" in first


@pytest.mark.parametrize("folder", ["src", "benchmarks"])
def test_pages_named_in_the_source_exist(folder):
    for file in (ROOT / folder).rglob("*.py"):
        for name in re.findall(r"docs/(\w+\.md)", file.read_text("utf-8")):
            assert (ROOT / "docs" / name).exists(), f"{file} names docs/{name}"
