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
from manyview.mmc.initial import LabelInitialisation
from manyview.mmc.objective import default_rank


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


@pytest.mark.parametrize("order", [None, 1])
def test_initialisation_only_gives_the_initial_labels_of_mmc(order, monkeypatch):
    begun, real = [], LabelInitialisation.begin

    def heard(self, engine, *args):
        first = real(self, engine, *args)
        begun.append(engine.gather("labels").copy())
        return first

    monkeypatch.setattr(LabelInitialisation, "begin", heard)
    fitted(3, order=order, random_state=4)
    initial = variants.InitialisationOnly(3, random_state=4, order=order).fit(made().views)
    assert np.array_equal(initial.labels_, begun[0])


@pytest.mark.parametrize("variant", [variants.ScaledGamma, variants.ScaledRank])
def test_a_default_times_one_is_the_default(variant):
    one = variant(3, random_state=0, times=1.0).fit(made().views)
    assert np.array_equal(one.objective_, fitted(3, random_state=0).objective_)


def test_the_rank_is_not_below_the_number_of_clusters():
    small = variants.ScaledRank(3, random_state=0, times=0.01).fit(made().views)
    assert default_rank(3, 3, None) > 3
    assert np.array_equal(small.objective_, fitted(3, rank=3, random_state=0).objective_)


def test_a_lower_order_from_the_full_order_initialisation():
    initial = variants.InitialisationOnly(3, random_state=0).fit(made().views)
    lower = variants.FromFullInitialisation(3, random_state=0, order=1).fit(made().views)
    given = fitted(3, order=1, init=initial.labels_, random_state=0)
    assert np.array_equal(lower.objective_, given.objective_)


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


def test_no_variant_of_an_order_is_the_full_one():
    names = {n: [method.name for method in ablation.variants(n)] for n in (1, 2, 3)}
    assert not any("order" in name for name in names[1])
    assert "order 1" in names[2]
    assert "order 2" not in names[2]
    assert "order 2, full-order initialisation" in names[3]


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
    assert texts[0].count("|---|") == 3
    assert "| order 2 | - | " in texts[0]
    held_out = texts[0].split("held out in 1 random splits:")[1].split("Clusters that appear")[0]
    *sets, mean = [line.split(" | ") for line in held_out.splitlines() if line.startswith("| ")][1:]
    assert mean[0] == "| mean"
    for column in (5, 6):  # as they are printed, with a digit
        expected = np.mean([float(row[column].split()[0]) for row in sets])
        assert float(mean[column]) == pytest.approx(expected, abs=0.11)
    assert "order 2 is the full order of two views: 2 views" in texts[0]


@pytest.mark.usefixtures("few_sets_of_products")
def test_a_failure_is_a_dash_with_its_reason(monkeypatch):
    bad = Method("half the rank", variants.ScaledRank, {"times": "half"})
    monkeypatch.setattr(ablation, "ALWAYS", (*ablation.ALWAYS[:2], bad))
    text = ablation.ablation(ablation.Harness(), [made(2)], repeats=1, n_samples=60)
    assert "| half the rank | - | - | - |" in text
    assert "- half the rank on 2 views: TypeError: " in text


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
    text = tables.gain_table(runs, [tables.INITIALISATION, "MMC"], {"a": 3, "b": 3})
    assert "| MMC | 52.0 | 50.0 | +1.02 (+0.04 to +2.00) | 1 / 1 / 0 |" in text
