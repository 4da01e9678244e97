import json
import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from manyview import MMC, as_views
from manyview.datasets import make_views
from manyview.mmc.membership import Lazy
from manyview.report import write_fit_report

SIX_MB = 6_000_000


def _page(path, seen):
    return seen(path.read_text(encoding="utf-8"))


def _sections(page):
    return [found["aria-labelledby"] for found in page.all("section")]


def test_the_page_has_every_part(fit_page, seen):
    page = _page(fit_page, seen)
    assert _sections(page) == ["clusters", "map", "listed", "profile", "views", "preparation"]
    for text in ("Mean confidence", "high (", "Across views", "Added", "samples scaled to unit"):
        assert text in page.text
    for anchor in _sections(page):
        assert page.all("a", href=f"#{anchor}")
        assert page.all("h2", id=anchor)


def test_the_map_tells_each_sample_its_confidence_and_runner_up(tmp_path, plain, seen):
    model = MMC(3, random_state=0).fit(plain.views)
    path = write_fit_report(tmp_path / "r.html", model, plain.views)
    page = _page(path, seen)
    told = json.loads(page.data)
    rows = [int(name) for name in told["sample"]]
    assert sorted(rows) == list(range(90))
    assert told["cluster"] == model.labels_[rows].tolist()
    np.testing.assert_allclose(told["confidence"], model.confidence_[rows], atol=0.0051)
    others = model.membership_[rows].copy()
    others[np.arange(90), model.labels_[rows]] = -1
    assert told["runner"] == others.argmax(axis=1).tolist()
    assert told["class"] is None
    assert len(page.all("use")) == 90


def test_classes_are_shown_if_there_are_any(tmp_path, plain, fit_page, seen):
    model = MMC(3, random_state=0).fit(plain.views)
    by_dataset = _page(write_fit_report(tmp_path / "a.html", model, plain), seen)
    names = plain.class_names[plain.y]
    by_names = _page(write_fit_report(tmp_path / "b.html", model, plain.views, names), seen)
    for page in (by_dataset, by_names):
        assert "classes" in _sections(page)
        assert "sport" in page.text
        assert len(page.all("use")) == 2 * 90
        assert set(json.loads(page.data)["class"]) == {"arts", "law", "sport"}
    assert "classes" not in _page(fit_page, seen).text.lower()


def test_the_choice_of_the_number_of_clusters_is_shown(tmp_path, seen):
    views, _ = make_views(120, 3, (8, 6), random_state=0)
    model = MMC("auto", random_state=0).fit(views)
    page = _page(write_fit_report(tmp_path / "r.html", model, views), seen)
    assert "choice" in _sections(page)
    assert model.choice_.summary in page.text
    assert len(page.all("polyline")) == 1
    assert len(page.all("circle", **{"class": "recommended"})) == 1


def test_missing_views_unknown_cells_and_notes_are_told(tmp_path, plain, seen):
    arrays = [np.array(array) for array in plain.views.arrays]
    arrays[0][:9, 0] = np.nan
    present = np.ones((90, 2), dtype=bool)
    present[:7, 1] = False
    views = as_views(dict(zip(("text", "image"), arrays, strict=True)), present=present)
    data = replace(plain, views=views, y=None, notes=("text.csv: separator ';'",))
    model = MMC(3, random_state=0).fit(views)
    path = write_fit_report(tmp_path / "r.html", model, data, remarks=["too <few>"])
    page = _page(path, seen)
    assert "missing in 7 samples" in page.text
    assert "1.2 % of the cells are unknown" in page.text
    assert "separator ';'" in page.text
    assert "too <few>" in page.text


def test_without_memberships_the_rest_is_shown(tmp_path, plain, seen):
    model = MMC(3, random_state=0).fit(plain.views)
    model._memberships, model._view_weights = Lazy.of(None), Lazy.of(None)
    page = _page(write_fit_report(tmp_path / "r.html", model, plain.views), seen)
    assert "listed" not in _sections(page)
    assert "interrupted" in page.text
    assert len(page.all("use")) == 90


@pytest.mark.parametrize("n_clusters", [1, 2, 30])
def test_any_number_of_clusters_and_a_single_view_have_a_page(tmp_path, n_clusters, seen):
    views, _ = make_views(90, 3, (8,), random_state=0)
    model = MMC(n_clusters, max_iter=1, tol=1.0, random_state=0).fit(views)
    page = _page(write_fit_report(tmp_path / "r.html", model, views), seen)
    assert len(page.all("details")) >= n_clusters
    assert "across views" not in page.text.lower()


def test_names_are_text_wherever_they_stand(nasty_fit_page, fit_page, seen):
    page = _page(nasty_fit_page, seen)
    assert len(page.all("script")) == len(_page(fit_page, seen).all("script")) == 3
    assert not page.all("img")
    assert not page.all("b")
    assert "<" not in page.data
    for name in ("<script>alert(1)</script>", "</script>", "{{7*7}}", "<b>bold</b>"):
        assert name in page.text


def test_headings_come_in_order_and_names_are_unique(nasty_fit_page, seen):
    page = _page(nasty_fit_page, seen)
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert len(page.all("caption")) == len(page.all("table"))


def test_nothing_outside_the_page_is_referred_to(fit_page, seen):
    for _, attributes in _page(fit_page, seen).elements:
        for name in ("src", "href", "action", "srcset", "data"):
            assert attributes.get(name, "#").startswith(("#", "data:"))


def test_many_samples_stay_within_the_size(tmp_path, seen):
    large = make_views(20_000, 3, (2, 2), random_state=0)
    ids = np.array([f"{at:>08} of a very long name of a sample" for at in range(20_000)])
    model = MMC(3, init=large.y, indicator="discrete", max_iter=1, tol=1.0, random_state=0)
    data = replace(large, sample_ids=ids)
    path = write_fit_report(tmp_path / "r.html", model.fit(large.views), data)
    assert path.stat().st_size < SIX_MB
    page = _page(path, seen)
    assert "5000 of 20000 samples are drawn" in page.text
    assert len(page.all("use")) == 2 * 5000


def test_what_does_not_fit_is_rejected_and_nothing_written(tmp_path, plain):
    path = tmp_path / "r.html"
    path.write_text("before")
    model = MMC(3, random_state=0)
    with pytest.raises(NotFittedError):
        write_fit_report(path, model, plain)
    with pytest.raises(TypeError, match="fitted MMC"):
        write_fit_report(path, "model", plain)
    model.fit(plain.views.take(slice(60)))
    with pytest.raises(ValueError, match="60 samples"):
        write_fit_report(path, model, plain)
    with pytest.raises(ValueError, match="labels"):
        write_fit_report(path, model, plain.views.take(slice(60)), plain.y)
    with pytest.raises(FileNotFoundError):
        write_fit_report(tmp_path / "no" / "r.html", model, plain.views.take(slice(60)))
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
