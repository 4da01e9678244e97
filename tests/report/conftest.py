from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from manyview import MMC
from manyview.datasets import Dataset, make_views
from manyview.experiment import Run
from manyview.metrics import score_all
from manyview.report import write_fit_report, write_report

NASTY = (
    "<script>alert(1)</script>",
    "</script>",
    "{{7*7}}",
    "<b>bold</b>",
    '"><img src=x>',
    "a & b",
)


def _named(dataset, name, view_names=None, features=None, classes=None, ids=None):
    views = dataset.views
    if view_names is not None:
        views = replace(views, names=tuple(view_names), named=True)
    if features is not None:
        views = replace(views, feature_names=tuple(np.array(part) for part in features))
    names = None if classes is None else np.array(classes)
    return Dataset(views, dataset.y, names, name, ids)


def _runs(dataset, methods=("SEC", "MMC"), seeds=3, **changes):
    """Runs whose labels are the classes with a part of them wrong, less for later methods."""
    runs = []
    for rank, method in enumerate(methods):
        for seed in range(seeds):
            rng = np.random.default_rng(10 * rank + seed)
            wrong = rng.random(len(dataset.y)) < 0.5 / (rank + 1)
            labels = np.where(wrong, rng.integers(0, 3, len(dataset.y)), dataset.y)
            run = Run(
                method,
                dataset.name,
                seed,
                "default",
                {},
                "rows",
                scores=score_all(dataset.y, labels),
                seconds=0.1 * (rank + 1),
                cpu_seconds=0.05,
                peak_bytes=200_000_000,
                n_iter=3,
                objective=(3.0, 2.0, 1.5),
            )
            runs.append(replace(run, **changes))
    return runs


@pytest.fixture(scope="session")
def named():
    return _named


@pytest.fixture(scope="session")
def runs_of():
    return _runs


@pytest.fixture(scope="session")
def plain():
    made = make_views(90, 3, (8, 6), random_state=0)
    return _named(made, "plain", ("text", "image"), classes=("arts", "law", "sport"))


@pytest.fixture(scope="session")
def nasty():
    made = make_views(90, 3, (8, 6), random_state=0)
    features = [[f"{NASTY[i % 6]}{i}" for i in range(width)] for width in (8, 6)]
    ids = np.array([NASTY[3]] * 90)
    return _named(made, NASTY[0], NASTY[1:3], features, NASTY[:3], ids)


class Seen(HTMLParser):
    """The elements and the text of a page; what scripts and styles hold is kept apart."""

    def __init__(self, source):
        super().__init__()
        self.elements, self.text, self.data, self.errors = [], "", "", 0
        self._inside = []
        self.feed(source)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self._inside.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        while self._inside and self._inside.pop()[0] != tag:
            pass

    def handle_data(self, data):
        tag, attributes = self._inside[-1] if self._inside else ("", {})
        if attributes.get("id") == "data":
            self.data += data
        elif tag not in {"script", "style"}:
            self.text += data

    def all(self, tag, **wanted):
        return [
            found
            for name, found in self.elements
            if name == tag and all(found.get(key) == value for key, value in wanted.items())
        ]


@pytest.fixture(scope="session")
def seen():
    return Seen


@pytest.fixture(scope="session")
def nasty_page(tmp_path_factory, nasty, runs_of):
    """A page in which every name tries to be more than a name."""
    runs = runs_of(nasty, methods=(NASTY[0], NASTY[3], "MMC"))
    runs += runs_of(nasty, methods=(NASTY[2],), protocol="tuned", params={NASTY[1]: NASTY[0]})
    runs += runs_of(nasty, methods=(NASTY[1],), seeds=1, scores={}, error=NASTY[0])
    path = tmp_path_factory.mktemp("nasty") / "report.html"
    return write_report(path, runs, [nasty], title=NASTY[0])


@pytest.fixture(scope="session")
def plain_page(tmp_path_factory, plain, runs_of):
    runs = runs_of(plain, methods=("SEC", "KCTD", "MMC"))
    runs += runs_of(plain, methods=("SEC",), protocol="tuned", params={"mu": 0.1})
    return write_report(tmp_path_factory.mktemp("plain") / "report.html", runs, [plain])


@pytest.fixture(scope="session")
def fit_page(tmp_path_factory, plain):
    """A page of a fit without classes."""
    path = tmp_path_factory.mktemp("fit") / "page.html"
    return write_fit_report(path, MMC(3, random_state=0).fit(plain.views), plain.views)


@pytest.fixture(scope="session")
def nasty_fit_page(tmp_path_factory, nasty):
    path = tmp_path_factory.mktemp("nasty_fit") / "page.html"
    data = replace(nasty, notes=(NASTY[4],))
    model = MMC(4, random_state=0).fit(nasty.views)
    return write_fit_report(path, model, data, title=NASTY[0], remarks=[NASTY[2]])
