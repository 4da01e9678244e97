import base64
import hashlib
import json
import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from manyview import AMGL, MMC, __version__
from manyview.datasets import make_views
from manyview.report import write_report
from manyview.report.page import described_sessions, seeds_of, spans

SIX_MB = 6_000_000


def test_the_page_holds_the_table_and_every_figure(plain_page, seen):
    page = seen(plain_page.read_text(encoding="utf-8"))
    for title in (
        "ACC",
        "NMI geom.",
        "NMI arith.",
        "NMI max",
        "ARI",
        "Published",
        "CPU s",
        "Failed",
    ):
        assert title in page.text
    assert "† tuned with labels" in page.text
    charts = json.loads(page.data)
    assert set(charts) == {"spread-acc-0", "spread-nmi-0", "time-0", "convergence-0", "map-0"}
    assert len(page.all("div", **{"class": "plot"})) == 6
    for text in (
        "Clusters found by MMC",
        "arts",
        "law",
        "of 8 kept",
        "seeds",
        "0 to 2",
        "Tuned with labels",
    ):
        assert text in page.text


def test_the_page_is_small_and_refers_to_nothing_outside(plain_page, seen):
    source = plain_page.read_text(encoding="utf-8")
    assert len(source.encode()) < SIX_MB
    page = seen(source)
    for _, attributes in page.elements:
        for name in ("src", "href", "action", "srcset", "data"):
            assert attributes.get(name, "#").startswith(("#", "data:"))
    assert "@import" not in source.partition("</style>")[0]


def test_only_the_scripts_of_the_page_may_run(plain_page, seen):
    source = plain_page.read_text(encoding="utf-8")
    (meta,) = seen(source).all("meta", **{"http-equiv": "Content-Security-Policy"})
    policy = meta["content"]
    assert "default-src 'none'" in policy
    assert "'unsafe-eval'" not in policy
    script_policy = re.search(r"script-src ([^;]*);", policy)[1]
    hashes = {
        f"'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}'"
        for code in re.findall(r"<script>(.*?)</script>", source, flags=re.DOTALL)
    }
    assert set(script_policy.split()) == hashes
    assert len(hashes) == 4


def test_headings_come_in_order_and_landmarks_are_there(plain_page, seen):
    page = seen(plain_page.read_text(encoding="utf-8"))
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    for landmark in ("header", "nav", "main"):
        assert len(page.all(landmark)) == 1
    assert page.all("a", href="#main")
    tables = page.all("table")
    assert len(page.all("caption")) == len(tables) == 2
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_names_are_text_wherever_they_stand(nasty_page, plain_page, seen):
    page = seen(nasty_page.read_text(encoding="utf-8"))
    plain = seen(plain_page.read_text(encoding="utf-8"))
    assert len(page.all("script")) == len(plain.all("script")) == 5
    assert not page.all("img")
    assert not page.all("b")
    for name in ("<script>alert(1)</script>", "</script>", "{{7*7}}", "<b>bold</b>"):
        assert name in page.text


def test_names_are_text_in_the_figures_too(nasty_page, seen):
    page = seen(nasty_page.read_text(encoding="utf-8"))
    assert "<" not in page.data
    charts = json.loads(page.data)

    def texts(value):
        if isinstance(value, dict):
            value = [*value.keys(), *value.values()]
        if isinstance(value, list):
            return [text for part in value for text in texts(part)]
        return [value] if isinstance(value, str) else []

    found = texts(charts)
    assert not any("<" in text for text in found)
    assert any(text.startswith("&lt;script&gt;") for text in found)


def test_given_models_are_shown_and_not_fitted_again(tmp_path, plain, runs_of, monkeypatch, seen):
    model = MMC(4, random_state=5).fit(plain.views)
    monkeypatch.setattr("manyview.report.page.fitted", lambda dataset: pytest.fail("fitted"))
    path = write_report(tmp_path / "r.html", runs_of(plain), [plain], models={"plain": model})
    text = seen(path.read_text(encoding="utf-8")).text
    assert "random_state=5" in text
    assert "of 90 samples" not in text


def test_a_subset_of_the_samples_is_reported(tmp_path, runs_of, seen):
    large = make_views(5001, 3, (2, 2), random_state=0)
    model = MMC(3, init=large.y, max_iter=1, tol=1.0, random_state=0).fit(large.views)
    path = write_report(tmp_path / "r.html", runs_of(large), [large], models={large.name: model})
    assert "5000 of 5001 samples are drawn" in seen(path.read_text(encoding="utf-8")).text


def test_a_fit_that_fails_is_reported_and_the_rest_stands(
    tmp_path, plain, runs_of, monkeypatch, seen
):
    def fail(dataset):
        raise ValueError("cannot <b>fit</b>")

    monkeypatch.setattr("manyview.report.page.fitted", fail)
    path = write_report(tmp_path / "r.html", runs_of(plain), [plain])
    text = seen(path.read_text(encoding="utf-8")).text
    assert "MMC could not be fitted: cannot <b>fit</b>" in text
    assert "Methods on plain" in text


def test_runs_of_other_data_are_reported(tmp_path, plain, runs_of, seen):
    runs = runs_of(plain, fingerprint="0" * 16)
    path = write_report(tmp_path / "r.html", runs, [plain])
    assert "fingerprints differ" in seen(path.read_text(encoding="utf-8")).text


def test_data_sets_of_which_only_runs_are_known_have_their_table(tmp_path, plain, runs_of, seen):
    path = write_report(tmp_path / "r.html", runs_of(plain), [])
    text = seen(path.read_text(encoding="utf-8")).text
    assert "Methods on plain" in text
    assert "not its samples" in text


def test_runs_that_chose_a_setting_are_left_out(tmp_path, plain, runs_of):
    runs = runs_of(plain, methods=("SEC",), protocol="selection")
    with pytest.raises(ValueError, match="runs"):
        write_report(tmp_path / "r.html", runs, [])


def test_a_comparison_without_a_run_that_succeeded_is_a_page(tmp_path, plain, runs_of, seen):
    runs = runs_of(plain, methods=("SEC",), scores={}, error="too slow", objective=())
    path = write_report(tmp_path / "r.html", runs, [])
    assert "too slow" in seen(path.read_text(encoding="utf-8")).text


def test_what_is_missing_or_does_not_fit_is_named(tmp_path, plain, runs_of):
    path, runs = tmp_path / "r.html", runs_of(plain)
    with pytest.raises(ValueError, match="runs"):
        write_report(path, [], [plain])
    with pytest.raises(TypeError, match="datasets"):
        write_report(path, runs, plain)
    with pytest.raises(ValueError, match="plain"):
        write_report(path, runs, [replace(plain, y=None)])
    with pytest.raises(ValueError, match="other"):
        write_report(path, runs, [replace(plain, name="other")])
    with pytest.raises(ValueError, match="plain"):
        write_report(path, runs, [plain, plain])
    model = MMC(3, random_state=0).fit(plain.views.take(slice(60)))
    with pytest.raises(ValueError, match="60 samples"):
        write_report(path, runs, [plain], models={"plain": model})
    with pytest.raises(ValueError, match="else"):
        write_report(path, runs, [plain], models={"else": model})
    assert not path.exists()


def test_a_model_that_is_none_is_rejected(tmp_path, plain, runs_of):
    runs = runs_of(plain)
    for model, kind, message in (
        (AMGL(3), TypeError, "expected a fitted MMC"),
        (MMC(3), NotFittedError, "not fitted yet"),
    ):
        with pytest.raises(kind, match=message):
            write_report(tmp_path / "page.html", runs, [plain], models={plain.name: model})
    with pytest.raises(FileNotFoundError, match=r"no folder .*none to write page\.html in"):
        write_report(tmp_path / "none" / "page.html", runs, [plain])


def test_where_it_cannot_be_written_no_fit_is_begun(tmp_path, plain, runs_of, monkeypatch):
    monkeypatch.setattr("manyview.report.page.fitted", lambda dataset: pytest.fail("fitted"))
    with pytest.raises(FileNotFoundError):
        write_report(tmp_path / "no" / "r.html", runs_of(plain), [plain])
    (tmp_path / "file").touch()
    with pytest.raises(FileNotFoundError, match="no folder"):
        write_report(tmp_path / "file" / "r.html", runs_of(plain), [plain])
    with pytest.raises(IsADirectoryError):
        write_report(tmp_path, runs_of(plain), [plain])


def test_a_failure_leaves_what_was_there(tmp_path, plain, runs_of, monkeypatch):
    path = tmp_path / "r.html"
    path.write_text("before")

    def stop(dataset):
        raise KeyboardInterrupt

    monkeypatch.setattr("manyview.report.page.fitted", stop)
    with pytest.raises(KeyboardInterrupt):
        write_report(path, runs_of(plain), [plain])
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.slow
def test_many_large_sets_stay_within_the_size(tmp_path, runs_of):
    made = make_views(6000, 3, (6, 5), random_state=0)
    model = MMC(3, random_state=0).fit(made.views)
    ids = np.array([f"{at:>08} of a long name" for at in range(6000)])
    sets = [replace(made, name=f"set {at}", sample_ids=ids) for at in range(12)]
    runs = [run for dataset in sets for run in runs_of(dataset, seeds=20)]
    models = {dataset.name: model for dataset in sets}
    path = write_report(tmp_path / "r.html", runs, sets, models=models)
    assert path.stat().st_size < SIX_MB


@given(st.sets(st.integers(0, 60), min_size=1))
def test_spans_tell_every_number_and_no_other(numbers):
    told = set()
    for part in spans(numbers).split(", "):
        first, _, last = part.partition(" to ")
        told |= set(range(int(first), int(last or first) + 1))
    assert told == numbers


def test_seeds_are_reported_by_data_set(plain, runs_of):
    runs = runs_of(plain) + runs_of(plain, data="other", seeds=1)
    assert seeds_of(runs) == [("plain", "0 to 2"), ("other", "0")]


def test_without_sessions_this_process_is_reported_as_such(plain, runs_of):
    ((title, facts),) = described_sessions(runs_of(plain), None)
    assert title == "The process that wrote this page"
    assert ("manyview", __version__) in facts


def test_only_sessions_with_runs_are_reported(plain, runs_of):
    sessions = [{"manyview": "0.1", "libraries": {"numpy": "2"}}, {"manyview": "0.2"}]
    runs = [replace(run, session=0) for run in runs_of(plain)]
    ((title, facts),) = described_sessions(runs, sessions)
    assert title == "Session 1: 6 runs"
    assert facts == [("manyview", "0.1"), ("libraries", "numpy 2")]
