import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from manyview.metrics import clustering_accuracy
from manyview.report.contingency import contingency

labellings = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), min_size=1, max_size=40)


@given(labellings)
def test_the_diagonal_is_what_accuracy_counts(pairs):
    y, labels = map(np.array, zip(*pairs, strict=True))
    table = contingency(y, labels)
    assert table.counts.sum() == len(y)
    matched = table.counts.diagonal()[: table.n_matched].sum()
    assert matched / len(y) == clustering_accuracy(y, labels)


@given(labellings)
def test_every_cell_counts_its_class_and_cluster(pairs):
    y, labels = map(np.array, zip(*pairs, strict=True))
    table = contingency(y, labels)
    for row, of in enumerate(table.classes):
        for column, cluster in enumerate(table.clusters):
            assert table.counts[row, column] == np.sum((y == of) & (labels == cluster))


def test_a_cluster_is_not_matched_to_a_class_of_which_it_has_no_sample():
    table = contingency([0, 0, 0, 0, 1], [0, 0, 0, 1, 0])
    assert table.n_matched == 1
    assert table.counts.tolist() == [[3, 1], [1, 0]]
