"""The benchmark commands and the parts that run without an estimator."""

import sys
from collections import Counter

import numpy as np
import pytest

from benchmarks import __main__ as everything
from benchmarks import cluster, packages, solver, versus_literal
from manyview.datasets import make_views, read_views

COMMANDS = [everything, cluster]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_names_the_parts(command, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--help"])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "[PART ...]" in shown
    assert "[]" not in shown
    assert all(part in shown for part in command.PARTS)


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_part_is_rejected(command, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmarks", "haste"])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 2
    assert "no such part: haste" in capsys.readouterr().err


class TestWithoutAnEstimator:
    """Measurements with their own iterations, on a small dataset."""

    def test_the_objective_of_the_transcription_is_reached(self):
        views, _ = make_views(120, 3, (10, 8), random_state=0)
        found = versus_literal._measured("made", list(views), 3)
        assert found.figure > 0.0  # 0 if it is never reached

    def test_a_variant_of_the_solver_lowers_the_objective(self):
        views, y = make_views(120, 3, (10, 8), random_state=0)
        values, products, _ = zip(
            *solver._path(views, y, 3, *solver.VARIANTS[solver.DEFAULT], 5), strict=True
        )
        assert (np.diff(values) <= 0.0).all()
        assert (np.diff(products) > 0).all()


class TestPackages:
    def test_reads_names_words_and_kinds(self, tmp_path):
        path = tmp_path / "some.py"
        path.write_text('"""Says hello."""\nfor name in names:  # to all\n    print(name)\n')
        source = packages.read(path, shortest=10)
        assert source.names == "name names print name"
        assert source.words == '"""Says hello.""" # to all'
        assert (source.kinds["for"], source.kinds["("], source.kinds["NAME"]) == (1, 1, 4)

    def test_short_files_and_invalid_python_are_left_out(self, tmp_path):
        path = tmp_path / "some.py"
        path.write_text("x = 1\n")
        assert packages.read(path) is None
        path = tmp_path / "other.py"
        path.write_text("x = (\n" + 2000 * "#")
        assert packages.read(path) is None

    def test_names_of_packages_are_removed_but_not_longer_words(self):
        source = packages.Source("np_io io.open function", "Pandas: the option of IO", Counter())
        found = packages.without(["pandas.io", "scipy"], source)
        assert found.names.split() == ["np_", ".open", "function"]
        assert found.words.split() == [":", "the", "option", "of"]

    def test_writes_views_with_the_packages_as_classes(self, tmp_path):
        path = tmp_path / "set.npz"
        packages.make(["numpy.lib", "numpy.polynomial", "no_such_package"], 8, path, fewest=5)
        dataset = read_views(path)
        assert list(dataset.views.names) == ["names", "words", "style"]
        assert list(dataset.class_names) == ["numpy.lib", "numpy.polynomial"]
        assert min(np.bincount(dataset.y)) >= 5
        assert not any("numpy" in name.lower() for name in dataset.views.feature_names[0])

    def test_packages_that_are_not_installed_are_left_out(self, tmp_path):
        said = packages.make(["no_such_package", "nor_this"], 5, tmp_path / "set.npz")
        assert said.endswith("left out")
        assert not list(tmp_path.iterdir())
