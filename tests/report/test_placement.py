import numpy as np
import pytest

from manyview.report.placement import places, shares


def _certain(sizes):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    return np.eye(len(sizes))[labels] / np.sqrt(sizes)[labels][:, None], labels


def test_certain_samples_belong_to_their_cluster_alone():
    prediction, labels = _certain((5, 20, 3))
    np.testing.assert_allclose(shares(prediction, labels), np.eye(3)[labels], atol=1e-12)


def test_shares_do_not_change_when_the_columns_are_rotated():
    rng = np.random.default_rng(0)
    prediction, labels = _certain((10, 10, 10))
    prediction = prediction + 0.05 * rng.standard_normal(prediction.shape)
    rotation, _ = np.linalg.qr(rng.standard_normal((3, 3)))
    np.testing.assert_allclose(
        shares(prediction, labels), shares(prediction @ rotation, labels), atol=1e-9
    )


def test_a_sample_for_which_nothing_is_predicted_stands_with_its_cluster():
    np.testing.assert_array_equal(shares(np.zeros((3, 2)), [0, 1, 1]), np.eye(2)[[0, 1, 1]])


@pytest.mark.parametrize("count", [2, 3, 6, 15])
def test_certain_samples_are_nearest_to_their_own_cluster(count):
    prediction, labels = _certain((30,) * count)
    samples, anchors, _ = places(prediction, labels)
    distances = np.linalg.norm(samples[:, None] - anchors[None], axis=2)
    np.testing.assert_array_equal(distances.argmin(axis=1), labels)


def test_no_two_samples_share_a_place():
    prediction, labels = _certain((200, 50))
    samples, _, _ = places(prediction, labels)
    assert len(np.unique(samples.round(6), axis=0)) == len(samples)


def test_a_sample_between_two_clusters_stands_between_their_places():
    prediction, labels = _certain((40, 40, 40, 40))
    prediction[0] = 0.5 * prediction[0] + 0.5 * prediction[45]
    samples, anchors, room = places(prediction, labels)
    middle = (anchors[0] + anchors[1]) / 2
    assert np.linalg.norm(samples[0] - middle) <= room + 0.1


def test_clusters_that_share_samples_are_neighbours():
    prediction, labels = _certain((20,) * 6)
    prediction[:20, 4] += 0.5 * prediction[0, 0]
    _, anchors, _ = places(prediction, labels)
    others = np.linalg.norm(anchors - anchors[0], axis=1)
    assert others[4] <= np.sort(others)[1] + 1e-9


def test_one_cluster_and_numbers_with_gaps_have_places():
    samples, anchors, _ = places(np.ones((4, 1)), [7, 7, 7, 7])
    assert samples.shape == (4, 2)
    assert anchors.tolist() == [[0, 0]]
    assert places(np.eye(3)[[0, 2, 2]], [0, 2, 2])[1].shape == (2, 2)
