"""What the methods share whose embedding has no random part: labels by k-means on its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from manyview._typing import Matrix
from manyview.base import MultiViewClusterer
from manyview.linalg.partition import Labels, cluster_rows

__all__ = ["EmbeddingClusterer"]


class EmbeddingClusterer(MultiViewClusterer):
    """Base of the methods that cluster the rows of an embedding which no seed changes.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The embedding.
    """

    n_init: int
    embedding_: Matrix

    def relabelled(self, random_state: Any) -> Labels:
        """Return the labels that a fit with another seed would give.

        The embedding is the same for every seed, but for rounding; only its clustering is done
        anew, so that repeats cost little.

        Parameters
        ----------
        random_state : int, RandomState instance or None
            Seed.

        Returns
        -------
        ndarray of shape (n_samples,)
            Cluster of each sample.
        """
        check_is_fitted(self, "labels_")
        return self._assigned(self.embedding_, _generators(random_state)[1])

    def _generators(self) -> tuple[np.random.Generator, np.random.Generator]:
        """Return the sources of random numbers of the eigensolver and of the labels."""
        return _generators(self.random_state)

    def _assigned(self, embedding: Matrix, rng: np.random.Generator) -> Labels:
        """Return labels from an embedding."""
        return cluster_rows(embedding, self.n_clusters, rng, n_init=self.n_init)[0]


def _generators(random_state: Any) -> tuple[np.random.Generator, np.random.Generator]:
    seed = check_random_state(random_state).randint(2**31 - 1)
    solver, labels = np.random.default_rng(seed).spawn(2)
    return solver, labels
