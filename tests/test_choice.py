"""The number of clusters by the agreement of halves."""

import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from manyview import MMC, RMKMC, MultiViewSpectral, as_views, choose_n_clusters
from manyview.choice import ChoiceSettings, Stability, StableClusters, _stand_out
from manyview.datasets import make_views
from manyview.iterate import ProgressBar


def made(n_clusters=3, n_samples=150, **options):
    return make_views(n_samples, n_clusters, (8, 6), random_state=0, **options).views


def chosen(views, last=6, **options):
    options = {"n_splits": 2, "random_state": 0, **options}
    return choose_n_clusters(views, range(2, last + 1), **options)


def noise(n_samples=150):
    rng = np.random.default_rng(0)
    return [rng.standard_normal((n_samples, width)) for width in (10, 6)]


def table(agreements, errors=None):
    rows = zip(agreements, errors or [0.1] * len(agreements), strict=True)
    return tuple(
        Stability(K, agreement, 0.0, 0.0, error, agreement**3 * (1.0 - error) * np.log(K))
        for K, (agreement, error) in enumerate(rows, 2)
    )


class TestRecommendation:
    @pytest.mark.parametrize("n_clusters", [2, 3, 4, 5, 6])
    def test_clear_clusters_are_found(self, n_clusters):
        choice = chosen(made(n_clusters, 60 * n_clusters), 8)
        assert choice.n_clusters == n_clusters
        assert f"{n_clusters} clusters" in repr(choice)

    def test_of_unknown_cells(self):
        rng = np.random.default_rng(0)
        views = [np.where(rng.random(X.shape) < 0.2, np.nan, X) for X in made(separation=6.0)]
        assert chosen(views).n_clusters == 3

    @pytest.mark.parametrize("sparse", [False, True])
    def test_noise_has_no_clusters(self, sparse):
        views = noise()
        if sparse:
            views = [sp.csr_array(np.where(np.abs(view) > 1.0, view, 0.0)) for view in views]
        choice = chosen(views)
        assert (choice.n_clusters, choice.runner_up) == (None, None)
        assert "no clusters found" in repr(choice)
        assert all(row.agreement < 0.3 for row in choice.table)

    def test_coarse_and_fine_groups_are_both_named(self):
        rng = np.random.default_rng(0)
        y = rng.integers(6, size=360)
        views = []
        for width in (8, 6):
            coarse = 12.0 * rng.standard_normal((2, width))
            fine = coarse[np.arange(6) % 2] + 3.0 * rng.standard_normal((6, width))
            views.append(fine[y] + 0.3 * rng.standard_normal((360, width)))
        choice = chosen(views, 8, estimator=MMC(2, normalize="columns"))
        assert {choice.n_clusters, choice.runner_up} == {2, 6}
        assert "coarser groups: 2" in repr(choice)

    def test_the_best_local_maximum_precedes_the_next(self):
        assert _stand_out(table([0.9, 0.4, 0.6, 0.95, 0.8]), ChoiceSettings()) == (5, 2)
        assert _stand_out(table([0.9, 0.6, 0.5]), ChoiceSettings()) == (2, None)

    def test_labels_that_are_hard_to_predict_count_less(self):
        even = table([0.9, 0.5, 0.75], [0.1, 0.1, 0.1])
        harder = table([0.9, 0.5, 0.75], [0.1, 0.1, 0.6])
        assert _stand_out(even, ChoiceSettings())[0] == 4
        assert _stand_out(harder, ChoiceSettings())[0] == 2

    def test_unstable_numbers_are_not_recommended(self):
        assert _stand_out(table([0.4, 0.2, 0.45]), ChoiceSettings()) == (None, None)
        assert _stand_out(table([0.6, 0.2, 0.49]), ChoiceSettings()) == (2, None)

    def test_the_largest_number_tried_is_pointed_out(self):
        assert "try larger ones" in chosen(made(5, 300), 5).summary
        assert "try larger ones" not in chosen(made(4, 240), 5).summary


class TestInput:
    @pytest.mark.parametrize(
        ("numbers", "kind", "message"),
        [
            ([], ValueError, "n_clusters is empty"),
            ([1, 2], ValueError, "n_clusters holds 1"),
            ([0], ValueError, "n_clusters holds 0"),
            ([2, 38], ValueError, "n_clusters holds 38; expected at most 37"),
            ([2.5], TypeError, "n_clusters holds 2.5"),
            ([True, 2], TypeError, "n_clusters holds True"),
            (12, TypeError, "n_clusters=12"),
            ("auto", TypeError, "n_clusters='auto'"),
        ],
    )
    def test_bad_ranges_are_rejected(self, numbers, kind, message):
        with pytest.raises(kind, match=message):
            choose_n_clusters(noise(), numbers)

    @pytest.mark.parametrize("options", [{"n_splits": 0}, {"max_samples": 2.5}])
    def test_bad_counts_are_rejected(self, options):
        (name,) = options
        with pytest.raises(ValueError, match=name):
            chosen(noise(), **options)

    @pytest.mark.parametrize("n_jobs", [0, 1.5, "2"])
    def test_bad_numbers_of_jobs_are_rejected(self, n_jobs):
        with pytest.raises(ValueError, match=f"n_jobs={n_jobs!r}"):
            chosen(noise(), n_jobs=n_jobs)

    def test_unusable_estimators_are_rejected(self):
        with pytest.raises(ValueError, match="gamma"):
            chosen(noise(), estimator=MMC(2, gamma=-1.0))
        with pytest.raises(ValueError, match="init"):
            chosen(noise(), estimator=MMC(2, init=np.arange(150) % 2))

    def test_estimators_of_other_libraries_are_rejected(self):
        with pytest.raises(TypeError, match="estimator="):
            chosen(noise(), estimator=object())

    def test_numbers_come_in_any_order(self):
        choice = choose_n_clusters(made(), [5, 3, 3, 2], n_splits=1, random_state=0)
        assert [row.n_clusters for row in choice.table] == [2, 3, 5]

    def test_the_number_of_samples_that_take_part_is_limited(self):
        choice = chosen(made(3, 300), max_samples=120)
        assert (choice.n_samples, choice.n_clusters) == (120, 3)
        with pytest.raises(ValueError, match="at most 5"):
            chosen(made(3, 300), max_samples=20)

    def test_by_default_few_samples_are_compared_for_fewer_numbers(self):
        numbers = [row.n_clusters for row in choose_n_clusters(made(3, 23), n_splits=1).table]
        assert numbers == [2, 3, 4, 5]
        numbers = [row.n_clusters for row in choose_n_clusters(made(3, 60), n_splits=1).table]
        assert numbers == list(range(2, 13))

    def test_too_few_samples_are_rejected(self):
        assert choose_n_clusters(made(3, 8), n_splits=1).n_samples == 8
        with pytest.raises(ValueError, match=r"7 samples are too few.*at least 8"):
            choose_n_clusters(made(3, 7))
        with pytest.raises(ValueError, match="5 samples are too few"):
            choose_n_clusters(made(3, 60), max_samples=5)


class TestComputation:
    def test_the_same_seed_gives_the_same_table_whatever_the_threads(self):
        views = made()
        assert chosen(views, n_splits=3) == chosen(views, n_splits=3, n_jobs=2)
        assert chosen(views).table != chosen(views, random_state=1).table

    @pytest.mark.parametrize(
        "estimator",
        [MultiViewSpectral(2), RMKMC(2), MMC(2, indicator="discrete", max_iter=2)],
        ids=lambda estimator: type(estimator).__name__,
    )
    def test_any_estimator_clusters_the_halves(self, estimator):
        choice = chosen(made(), 4, estimator=estimator, n_splits=1)
        assert choice.n_clusters == 3
        assert estimator.n_clusters == 2

    def test_the_default_estimator_is_mmc(self):
        assert chosen(made()) == chosen(made(), estimator=MMC(7))

    def test_scaling_by_the_name_of_the_view(self):
        first, second = made()
        views = as_views({"a": first, "b": second})
        choice = chosen(views, estimator=MMC(2, normalize={"a": "columns", "b": "rows"}))
        assert choice.n_clusters == 3

    def test_missing_views(self):
        views = made()
        present = np.ones((150, 2), dtype=bool)
        present[::5, 0] = False
        assert chosen(as_views(list(views), present=present)).n_clusters == 3

    def test_memory_mapped_views(self, tmp_path):
        mapped = []
        for v, view in enumerate(made()):
            np.save(tmp_path / f"{v}.npy", view)
            mapped.append(np.load(tmp_path / f"{v}.npy", mmap_mode="r"))
        assert chosen(mapped) == chosen(made())

    def test_sparse_views(self):
        assert chosen(made(density=0.9)).n_clusters == 3

    def test_tensors(self):
        torch = pytest.importorskip("torch")
        choice = chosen([torch.from_numpy(np.asarray(view)) for view in made()])
        assert choice.n_clusters == 3

    def test_dask_arrays(self):
        array = pytest.importorskip("dask.array")
        views = [array.from_array(view, chunks=(40, -1)) for view in made()]
        assert chosen(views) == chosen(made())

    def test_progress_is_shown_on_request(self, capsys):
        chosen(made(), 3, verbose=1)
        assert "2/2" in capsys.readouterr().err
        chosen(made(), 3)
        assert capsys.readouterr().err == ""

    def test_an_error_in_a_thread_ends_the_work(self, monkeypatch):
        monkeypatch.setattr(MultiViewSpectral, "fit", lambda *args: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            chosen(made(), estimator=MultiViewSpectral(2), n_jobs=2)

    def test_an_interrupt_ends_the_splits_at_work(self, monkeypatch):
        fits = []
        fit = MultiViewSpectral.fit

        def slow_fit(self, views):
            fits.append(1)
            time.sleep(0.02)
            return fit(self, views)

        class Interrupted(ProgressBar):
            def step(self, *args):
                raise KeyboardInterrupt

        monkeypatch.setattr(MultiViewSpectral, "fit", slow_fit)
        monkeypatch.setattr("manyview.choice.ProgressBar", Interrupted)  # after the first split
        with pytest.raises(KeyboardInterrupt):
            chosen(made(3, 60), estimator=MultiViewSpectral(2), n_splits=3, n_jobs=2)
        assert 10 <= len(fits) < 26  # of 30


class TestResult:
    choice = StableClusters(5, 2, table([0.9, 0.4, 0.6, 0.95, 0.8]), n_samples=99, n_splits=1)

    def test_text(self):
        lines = repr(self.choice).splitlines()
        assert lines[0] == "5 clusters (halves agree by .95); coarser groups: 2 (.90)"
        assert lines[2].split() == ["K", *Stability._fields[1:]]
        last = [line.split()[-1] for line in lines[3:8]]
        assert (last[0], last[3]) == ("runner-up", "recommended")
        assert all(cell.startswith(".") for cell in (last[1], last[2], last[4]))
        assert lines[-1] == "1 split of 99 samples"

    def test_html(self):
        html = self.choice._repr_html_()
        assert html.count("<tr") == 6
        assert html.count("bold") == 2
        assert "recommended" in html

    def test_frame(self):
        pytest.importorskip("pandas")
        frame = self.choice.to_frame()
        assert frame.index.tolist() == [2, 3, 4, 5, 6]
        assert frame.loc[5, "agreement"] == 0.95
        assert list(frame.columns) == list(Stability._fields[1:])

    def test_frame_without_pandas(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(ModuleNotFoundError, match=r"manyview\[app\]"):
            self.choice.to_frame()

    def test_finer_groups(self):
        assert "finer groups: 5" in replace(self.choice, n_clusters=2, runner_up=5).summary

    def test_plot_returns_axes(self):
        plt = pytest.importorskip("matplotlib.pyplot")
        ax = self.choice.plot()
        assert ax.get_title() == "5 clusters"
        plt.close(ax.figure)
