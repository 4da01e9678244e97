"""Reliability of memberships: ``python -m benchmarks.reliability SETS...``.

A sample counts as right if its class is the most common one in its cluster. Data sets have equal
weight, however many samples they have.
"""

from __future__ import annotations

import argparse
import warnings
from itertools import pairwise
from time import perf_counter

import numpy as np
import numpy.typing as npt

from manyview import MMC
from manyview.datasets.files import find_dataset
from manyview.metrics import purity

EDGES = (0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.01)
HELD_OUT = 0.3

Labels = npt.NDArray[np.intp]
Numbers = npt.NDArray[np.float64]
Rights = npt.NDArray[np.bool_]


def right(y: Labels, labels: Labels, training_y: Labels, training_labels: Labels) -> Rights:
    """Return whether the class of each sample is that of most training samples of its cluster."""
    counts = np.zeros((training_labels.max() + 1, training_y.max() + 1))
    np.add.at(counts, (training_labels, training_y), 1)
    return np.asarray(counts.argmax(axis=1)[labels] == y)


def reliability_table(found: list[tuple[Numbers, Rights]]) -> list[str]:
    """Return the rows of a table, given the confidences and successes of each data set."""
    confidence, success = map(np.concatenate, zip(*found, strict=True))
    weight = np.concatenate([np.full(len(part), 1.0 / len(part)) for part, _ in found])
    rows = ["| confidence | samples | mean confidence | right |", "|---|---:|---:|---:|"]
    error = 0.0
    for low, high in pairwise(EDGES):
        there = (confidence >= low) & (confidence < high)
        if not there.any():
            continue
        mean, part = (np.average(x[there], weights=weight[there]) for x in (confidence, success))
        error += weight[there].sum() / weight.sum() * abs(mean - part)
        shown = f"{low:.2f} to {min(high, 1.0):.2f}"
        rows.append(f"| {shown} | {there.sum():,} | {mean:.2f} | {part:.2f} |")
    return [*rows, "", f"mean difference: {error:.3f}"]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="Measure the reliability of memberships.")
    parser.add_argument("sets", nargs="+", help="data sets, in MANYVIEW_DATA or as files")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    of_all: list[tuple[Numbers, Rights]] = []
    of_others: list[tuple[Numbers, Rights]] = []
    print("| data set | purity | mean confidence | AUC | fit, s | memberships, s |")
    print("|---|---:|---:|---:|---:|---:|")
    for name in arguments.sets:
        dataset = find_dataset(name)
        y = np.unique(np.asarray(dataset.y), return_inverse=True)[1]
        k = int(y.max()) + 1
        begin = perf_counter()
        model = MMC(k, random_state=0).fit(dataset.views)
        between = perf_counter()
        confidence, end = model.confidence_, perf_counter()
        success = right(y, model.labels_, y, model.labels_)
        of_all.append((confidence, success))
        figures = (purity(y, model.labels_), confidence.mean(), auc(success, confidence))
        shown = " | ".join(f"{figure:.2f}" for figure in figures)
        times = f"{between - begin:.1f} | {end - between:.1f}"
        print(f"| {dataset.name} | {shown} | {times} |", flush=True)
        order = np.random.default_rng(0).permutation(y.size)
        others, training = np.split(order, [int(HELD_OUT * y.size)])
        model = MMC(k, random_state=0)
        model.fit(dataset.views.take(training))
        membership = model.predict_proba(dataset.views.take(others))
        success = right(y[others], membership.argmax(axis=1), y[training], model.labels_)
        of_others.append((membership.max(axis=1), success))
    for title, found in (("confidence_", of_all), ("predict_proba", of_others)):
        print(f"\n{title}\n")
        print("\n".join(reliability_table(found)))


def auc(success: Rights, confidence: Numbers) -> float:
    """Return how often a right sample has more confidence than a wrong one.

    Examples
    --------
    >>> auc(np.array([True, True, False]), np.array([0.9, 0.5, 0.6]))
    0.5
    """
    of_right, wrong = confidence[success], np.sort(confidence[~success])
    if not of_right.size or not wrong.size:
        return float("nan")
    below = np.searchsorted(wrong, of_right, "left") + np.searchsorted(wrong, of_right, "right")
    return float(below.mean() / (2.0 * wrong.size))


if __name__ == "__main__":
    main()
