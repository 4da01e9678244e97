"""Figure of the README: clusters that appear only in products across views.

Run from the root of the project: ``.venv/bin/python docs/pictures/interaction.py``.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from sklearn.cluster import KMeans

from manyview import MMC
from manyview.datasets import make_views
from manyview.metrics import clustering_accuracy

COLOURS = np.array(["#0072b2", "#e69f00"])


def main() -> None:
    """Fit, draw and save."""
    views, y = make_views(600, 2, (6, 6), structure="interaction", random_state=0)
    model = MMC(n_clusters=2, random_state=0).fit(views)
    figure, axes = plt.subplots(1, 4, figsize=(12, 3.4), layout="constrained")
    names = ["view 1 alone", "view 2 alone", "concatenated views"]
    for ax, name, X in zip(axes, names, (*views, np.hstack(views.arrays)), strict=False):
        labels = KMeans(2, n_init=10, random_state=0).fit_predict(X)
        _scatter(ax, _principal(X), y)
        ax.set_title(f"{name}\nk-means ACC {clustering_accuracy(y, labels):.2f}")
    _scatter(axes[3], model.transform(views), y)
    axes[3].set_title(f"products across views\nMMC ACC {clustering_accuracy(y, model.labels_):.2f}")
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=120)


def _principal(X: np.ndarray) -> np.ndarray:
    centred = X - X.mean(axis=0)
    return centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T


def _scatter(ax: Axes, points: np.ndarray, y: np.ndarray) -> None:
    ax.scatter(*points.T, s=9, c=COLOURS[y], alpha=0.7, linewidths=0)
    ax.set(xticks=[], yticks=[])


if __name__ == "__main__":
    main()
