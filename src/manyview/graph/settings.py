"""Tuning constants of the affinity graph and its spectral clustering."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["ALL_ORDERS", "DEFAULTS", "FAR_PRODUCT", "NEAR_PRODUCT", "GraphOf", "GraphSettings"]


class GraphOf(NamedTuple):
    """What an affinity graph is the sum of.

    ``product`` is the weight of the product of all views, ``views`` that of the mean over the
    single views, and ``sizes`` are the positions of the neighbourhood sizes.
    """

    product: float
    views: float
    sizes: tuple[int, ...] = (0, 1)


ALL_ORDERS = GraphOf(product=1.0, views=2.0)
FAR_PRODUCT = GraphOf(product=1.0, views=0.0, sizes=(0,))
NEAR_PRODUCT = GraphOf(product=1.0, views=0.0, sizes=(1,))


@dataclass(frozen=True)
class GraphSettings:
    """Tuning constants of the affinity graph and its spectral clustering.

    Those that shape the graph and the choice of its neighbourhood size were chosen by the NMI of
    the resulting labels on real data sets with known classes. For those that are marked "by
    convention" no comparison with other values is recorded.
    """

    # Cosines of single views.
    spread_rows: int = 1000
    """Rows among which the spread of a view's cosines is measured; by convention."""
    winsorise_at: float = 4.0
    """Standard deviations above the mean from which a cosine counts less. Three score alike, but
    change the labels of more data sets."""
    excess_weight: float = 0.2
    """Weight of the part of a cosine above that; chosen together with `winsorise_at`."""
    informative: float = 0.25
    """Coherence from which a view keeps its full weight; nearly all views of real data have more,
    and noise has none."""
    least_informative: float = 0.05
    """Lower limit of that threshold where all views have less; noise stays below it."""

    distance: bool = True
    """Whether dense standardised views are compared by distance. The angle of a sample at the
    centre of standardised data says nothing, so a group there is not found by cosines."""
    mostly_zeros: float = 0.5
    """Part of zeros from which a view is never standardised by ``normalize="auto"``; words and
    links would lose up to sixty points of NMI."""
    one_feature: float = 0.9
    """Part of a view's variance in one feature, with rows of unit length, from which angles say
    little but its sign: such a view is then standardised."""
    scaling_samples: int = 500
    """Samples by which the scaling is chosen; a thousand choose the same."""
    scaling_clusters: int = 50
    """Most clusters by which the scaling is chosen; by convention."""
    scaling_landmarks: int = 250
    """Landmarks of the regressions on these samples; by convention."""

    # Neighbourhoods.
    cluster_part: float = 1 / 2
    """Neighbours of a sample in the exact graph, as a part of an average cluster. A quarter and a
    whole cluster are about one point of NMI worse."""
    fewest_neighbours: int = 5
    """Neighbours of a sample, however small the clusters; by convention."""
    most_neighbours: int = 100
    """Neighbours of a sample in the far graph, however large the clusters. From 50 to 200 mean NMI
    differs by less than a tenth of a point; more cost time and memory."""
    sizes: tuple[float, ...] = (1.0, 1 / 16)
    """Neighbourhood sizes, far and near, relative to `cluster_part`. The small one finds clusters
    that are finer than half of an average cluster."""
    graphs: tuple[GraphOf, ...] = (ALL_ORDERS, FAR_PRODUCT, NEAR_PRODUCT)
    """Graphs whose clusters are candidates for initial labels."""

    # Samples that are compared with each other.
    n_compared: int = 5000
    """Most samples that are compared with each other, for up to 250 clusters; regressions extend
    to the others what is found by these."""
    compared_per_cluster: int = 20
    """Such samples for each of more clusters, up to `most_compared` in all."""
    most_compared: int = 10_000
    """Limit of their number however many the clusters; time grows with its square."""

    # Regressions and votes.
    n_landmarks: int = 1000
    """Landmarks of the regressions, or five per cluster."""
    extending_landmarks: int = 500
    """Landmarks, or five per cluster, where regressions extend to other samples."""
    extending_power: int = 2
    """Power of the kernels there. With many samples in few dimensions a view's own kernel is too
    smooth: the square gains two points of NMI on sets of 10,000 to 70,000 samples."""
    ridges: tuple[float, ...] = tuple(10.0 ** (0.75 * power - 3.0) for power in range(9))
    """Ridges that are compared, relative to the mean of the kernel's diagonal."""
    votes: float = 0.125
    """Weight w of the votes relative to the regressions where both have the same error. A quarter
    of it costs .6 points of mean NMI, four times as much 1.2."""
    rounds: int = 5
    """Most rounds; five are as good as ten, and better for many samples."""
    unchanged: float = 1e-3
    """Part of the labels that a last round changes, at most; by convention."""
    least_explained: float = 0.05
    """Lower limit of 1 - e, so that predictions of noise do not outvote the graphs."""
    least_error: float = 0.02
    """Lower limit of the error of the votes; by convention."""
    clearly: float = 0.8
    """Unclearness of another candidate or scaling, at most, relative to that of the default one.
    Values from .75 to .85 choose nearly the same."""
    hardly_unexplained: float = 0.02
    """Added to the unexplained part of an embedding: below that, differences mean nothing."""

    # Outliers.
    outlier_samples: int = 2000
    """Samples among which neighbours are found for outlier scores; by convention."""
    outlier_neighbours: int = 10
    """Neighbours from which the mean distance is taken; 5 and 20 find the same outliers."""
    least_distance: float = 0.01
    """Lower limit of such a distance, relative to the mean, which duplicates need; by
    convention."""
    least_deviation: float = 0.01
    """Lower limit of the standard deviation of its logarithm in a cluster; by convention."""

    # k-means.
    embedding_restarts: tuple[int, int] = (3, 10)
    """Fewest and most restarts of k-means on the embedding; 300 / K lie between. By convention."""
    kmeans_rows: int = 10_000
    """Rows on which k-means starts; Lloyd's iterations over all rows follow. By convention."""
    kmeans_max_iter: int = 100
    """Most iterations over all rows; by convention."""
    kmeans_tol: float = 1e-6
    """Relative decrease of the cost below which these stop; by convention."""

    def most_in_graph(self, n_clusters: int) -> int:
        """Return the most samples that are compared with each other."""
        by_cluster = min(self.compared_per_cluster * n_clusters, self.most_compared)
        return max(self.n_compared, by_cluster, 2 * n_clusters)


DEFAULTS = GraphSettings()
