import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from benchmarks import ablation, variants
from benchmarks import ablation_tables as tables
from manyview import MMC
from manyview.datasets import Dataset, make_views
from manyview.experiment import Method, ResultsFile, Run
from manyview.metrics import clustering_accuracy


@pytest.fixture
def few_sets_of_products(monkeypatch):
    monkeypatch.setattr(ablation, "PRODUCT_CLUSTERS", (2,))
    monkeypatch.setattr(ablation, "SIGN_DIMENSIONS", (5,))


def made(n_views=3, **options):
    options = {"separation": 1.5, "random_state": 0, **options}
    views, y = make_views(90, 3, (6, 5, 7)[:n_views], **options)
    return Dataset(views, y, name=f"{n_views} views")


def fitted(*args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return MMC(*args, **({"normalize": "rows"} | options)).fit(made().views)


def test_without_other_graphs_the_labels_follow_from_one_graph():
    dataset = made(separation=6.0)
    for part in variants.PARTS:
        labels = variants.Without(3, random_state=0, part=part).fit(dataset.views).labels_
        assert clustering_accuracy(dataset.y, labels) > 0.9
    settings = MMC._graph_settings
    assert len(settings.graphs) > 1  # the class keeps its own


def test_held_out_samples_are_the_last():
    views = made().views
    predicted = variants.Predicted(2, random_state=0, n_all=3, n_first=60).fit(views).labels_
    model = MMC(3, random_state=0).fit(views.take(slice(60)))
    assert np.array_equal(predicted, model.predict(views.take(slice(60, None))))
    kept = variants.FittedToAll(2, random_state=0, n_all=3, n_first=60).fit(views).labels_
    assert np.array_equal(kept, fitted(3, random_state=0).labels_[60:])


def test_training_samples_are_the_first():
    views = made().views
    options = {"random_state": 0, "n_all": 3, "n_first": 60}
    alone = variants.FirstFitted(2, **options).fit(views).labels_
    assert np.array_equal(alone, MMC(3, random_state=0).fit(views.take(slice(60))).labels_)
    beside = variants.FirstFittedToAll(2, **options).fit(views).labels_
    assert np.array_equal(beside, fitted(3, random_state=0).labels_[:60])


def test_the_classifier_is_trained_on_the_initial_labels():
    apart = made(separation=9.0)
    labels = variants.PredictedByRidge(2, random_state=0, n_all=3, n_first=60).fit(apart.views)
    assert clustering_accuracy(apart.y[60:], labels.labels_) > 0.9


@pytest.mark.usefixtures("few_sets_of_products")
def test_all_tables_and_no_run_done_twice(tmp_path):
    path = tmp_path / "runs.jsonl"
    datasets = [made(2), made(3)]
    texts, counts = [], []
    for _ in range(2):
        with ResultsFile(path) as results:
            harness = ablation.Harness(results=results)
            texts.append(ablation.ablation(harness, datasets, repeats=1, n_samples=60))
            counts.append(len(results.runs))
    assert texts[0] == texts[1]
    assert counts[0] == counts[1]
    assert texts[0].count("|---|") == 4
    held_out = texts[0].split("held out in 1 random splits:")[1].split("Clusters that appear")[0]
    *sets, mean = [line.split(" | ") for line in held_out.splitlines() if line.startswith("| ")][1:]
    assert mean[0] == "| mean"
    for column in (5, 6):  # as they are printed, with a digit
        expected = np.mean([float(row[column].split()[0]) for row in sets])
        assert float(mean[column]) == pytest.approx(expected, abs=0.11)


@pytest.mark.usefixtures("few_sets_of_products")
def test_a_failure_is_a_dash_with_its_reason(monkeypatch):
    bad = Method("without nothing", variants.Without, {"part": "nothing"})
    monkeypatch.setattr(ablation, "ALWAYS", (*ablation.ALWAYS[:2], bad))
    text = ablation.ablation(ablation.Harness(), [made(2)], repeats=1, n_samples=60)
    assert "| without nothing | - | - | - | - |" in text
    assert "- without nothing on 2 views: KeyError: " in text


def test_a_gain_is_the_variant_less_the_initialisation():
    runs = [
        Run(method, data, seed, "default", {}, scores={tables.NMI: score})
        for seed in (0, 1)
        for method, data, score in (
            (tables.INITIALISATION, "a", 0.5),
            ("MMC", "a", 0.52),
            (tables.INITIALISATION, "b", 0.5),
            ("MMC", "b", 0.5004),
        )
    ]
    names = [tables.INITIALISATION, "MMC"]
    text = tables.gain_table(runs, names)
    assert "| MMC | 51.0 (2) | +1.02 (+0.04 to +2.00) | 1 / 1 / 0 | - |" in text
    assert "| MultiViewSpectral | 50.0 (2) | - | - | -1.02 (-2.00 to -0.04) |" in text
    assert "| a | 50.0 | 52.0 |" in tables.set_table(runs, names, ["a", "b"])
