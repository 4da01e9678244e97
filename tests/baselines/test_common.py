"""What holds for all seven methods alike."""

import warnings
from contextlib import contextmanager

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import adjusted_rand_score

from manyview import AMGL, KCTD, RMKMC, SCMV3DT, SEC, CoRegSC, MultiNMF, as_views
from manyview.datasets import make_views, read_views

ITERATIVE = {
    "CoRegSC": CoRegSC,
    "AMGL": AMGL,
    "RMKMC": RMKMC,
    "MultiNMF": lambda k, **options: MultiNMF(k, negative="shift", **options),
    "KCTD": KCTD,
    "KCTD, L-BFGS": lambda k, **options: KCTD(k, solver="lbfgs", **options),
    "SCMV3DT": SCMV3DT,
}
DETERMINISTIC = {
    "SEC": SEC,
    "SEC, rotation": lambda k, **options: SEC(k, assign="rotation", **options),
    "CoRegSC": CoRegSC,
    "CoRegSC, pairwise": lambda k, **options: CoRegSC(k, form="pairwise", **options),
    "AMGL": AMGL,
    "AMGL, unit rows": lambda k, **options: AMGL(k, unit_embedding=True, **options),
    "SCMV3DT": SCMV3DT,
}


@pytest.fixture(scope="module")
def views():
    # hard enough that k-means ends differently from seed to seed
    return make_views(n_samples=80, n_clusters=6, noise=3.0, random_state=0).views


@contextmanager
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def interrupting(after):
    """A progress bar that is interrupted after some steps."""

    class Bar:
        def __init__(self, *args, **options):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

        def step(self, done, word):
            if done == after:
                raise KeyboardInterrupt

    return Bar


@pytest.mark.parametrize("make", ITERATIVE.values(), ids=ITERATIVE)
class TestInterrupt:
    def test_keeps_what_was_reached(self, make, views, monkeypatch):
        monkeypatch.setattr("manyview.base.ProgressBar", interrupting(after=2))
        with pytest.warns(ConvergenceWarning, match="interrupted: .* of 2 whole iterations"):
            model = make(6, random_state=0).fit(views)
        assert model.n_iter_ == len(model.objective_) == 2
        assert np.unique(model.labels_).size == 6

    def test_before_the_end_of_the_first_iteration_leaves_an_earlier_fit(
        self, make, views, monkeypatch
    ):
        with quiet():
            model = make(6, random_state=0).fit(views)
        labels = model.labels_.copy()
        module = type(model).__module__

        def interrupt(*args, **options):
            raise KeyboardInterrupt

        monkeypatch.setattr(f"{module}.scaled_arrays", interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.fit(views)
        np.testing.assert_array_equal(model.labels_, labels)


@pytest.mark.parametrize("make", DETERMINISTIC.values(), ids=DETERMINISTIC)
class TestRelabelled:
    def test_as_a_fit_with_that_seed(self, make, views):
        with quiet():
            first = make(6, random_state=0).fit(views)
            fitted = [make(6, random_state=seed).fit(views).labels_ for seed in range(4)]
        for seed, labels in enumerate(fitted):
            np.testing.assert_array_equal(first.relabelled(seed), labels)
        np.testing.assert_array_equal(first.labels_, fitted[0])

    def test_needs_a_fit(self, make, views):
        with pytest.raises(NotFittedError):
            make(6).relabelled(0)


@pytest.mark.parametrize("make", [CoRegSC, AMGL, RMKMC, MultiNMF, KCTD, SCMV3DT])
@pytest.mark.parametrize("method", ["predict", "transform"])
def test_what_cannot_tell_of_other_samples_says_so(make, method):
    assert not hasattr(make(2), method)
    assert not hasattr(make, method)
    with pytest.raises(AttributeError, match=rf"{make.__name__} has no {method}: .* MMC or SEC"):
        getattr(make(2), method)


@pytest.mark.parametrize("make", [SEC, CoRegSC, AMGL, KCTD, SCMV3DT])
def test_a_fit_that_fails_at_its_labels_leaves_an_earlier_one(make, views, monkeypatch):
    with quiet():
        model = make(6, random_state=0).fit(views)
    before = {name: value for name, value in vars(model).items() if name.endswith("_")}

    def fail(*args, **options):
        raise MemoryError

    monkeypatch.setattr("sklearn.cluster.KMeans.fit_predict", fail)
    with pytest.raises(MemoryError), quiet():
        model.fit(views.take(range(50)))
    after = {name: value for name, value in vars(model).items() if name.endswith("_")}
    assert all(after[name] is before[name] for name in before)


@pytest.mark.parametrize("make", [SEC, *ITERATIVE.values()], ids=["SEC", *ITERATIVE])
def test_samples_that_lack_a_view_are_refused_and_only_they(make, views):
    present = np.ones((80, len(views)), dtype=bool)
    with quiet():
        labels = make(6, random_state=0).fit_predict(views)
        same = make(6, random_state=0).fit_predict(as_views(views, present=present))
    np.testing.assert_array_equal(same, labels)
    present[:2, 0] = False
    with pytest.raises(ValueError, match="needs every sample in every view; 2 samples lack one"):
        make(6).fit(as_views(views, present=present))


@pytest.mark.data
@pytest.mark.parametrize("make", [SEC, AMGL])
@pytest.mark.parametrize("name", ["ngs", "webkb203"])
def test_counts_give_the_same_dense_or_sparse(make, name, data_dir):
    dataset = read_views(data_dir / f"{name}.npz")
    k = np.unique(dataset.y).size
    dense = [X.toarray() if sp.issparse(X) else np.asarray(X) for X in dataset.views]
    labels = [
        make(k, random_state=0).fit(views).labels_
        for views in (dense, [sp.csr_array(X) for X in dense])
    ]
    assert adjusted_rand_score(*labels) > 0.99
