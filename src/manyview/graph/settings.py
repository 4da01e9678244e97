"""Tuning constants of the affinity graph and its spectral clustering."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DEFAULTS", "GraphSettings"]


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

    distance: bool = False
    """Whether dense standardised views are compared by distance. The angle of a sample at the
    centre of standardised data says nothing, so a group there is not found by cosines."""

    mostly_zeros: float = 0.5
    """Part of zeros from which a view is always compared by angle; standardised, words and links
    lose up to sixty points of NMI."""
    dominant: float = 0.8
    """Share of one feature in the squared length of the rows from which a view is always
    standardised; tables in different units have .8 to 1, other real views mostly below .4."""
    columns_clearer: float = 0.9
    """Unexplained variance of clusters of standardised features, at most, relative to that of unit
    rows. Where ratios are .9 to 1, standardising changes little or loses."""
    scaling_samples: int = 1000
    """Samples by which the scaling of a view is chosen, or ten per cluster; by convention."""

    # Neighbourhoods.
    cluster_part: float = 1 / 2
    """Neighbours of a sample in the exact graph, as a part of an average cluster. A quarter and a
    whole cluster are about one point of NMI worse."""
    fewest_neighbours: int = 5
    """Neighbours of a sample, however small the clusters; by convention."""
    exact_sizes: tuple[float, ...] = (1.0, 1 / 16)
    """Neighbourhood sizes that the exact graph chooses from, relative to `cluster_part`. The small
    one finds clusters that are finer than half of an average cluster."""
    landmark_sizes: tuple[tuple[float, bool], ...] = ((1.0, True), (1 / 32, False))
    """Neighbourhood sizes with landmarks, relative to the landmarks of an average cluster, and
    whether features are scaled half-way to unit variance. Noisy data, such as texts, need many
    landmarks with scaled features, fine clusters need few."""

    # Exact graph or landmarks.
    exact_limit: int = 4000
    """Largest number of samples that are all compared with each other; time grows with its
    square."""
    n_landmarks: int = 1000
    """Landmarks beyond that limit, for up to 50 clusters."""
    landmarks_per_cluster: int = 20
    """Landmarks for each of more clusters, up to `exact_limit` in all. Fewer miss clusters; 30
    gain little and triple the time."""
    judged_per_landmark: float = 2.0
    """Samples for each landmark by which the neighbourhood size is chosen; by convention."""
    embedded_per_landmark: float = 10.0
    """Samples for each landmark from which eigenvectors are computed. Ten score as all samples
    do; two vary too much with the random seed."""
    kept_landmarks: int = 32
    """Nearest landmarks that are stored with each sample; more are searched for again, as they
    could take more memory than the views. By convention."""

    # Choice between neighbourhood sizes.
    clearer: float = 0.85
    """Unexplained variance of clearer clusters, at most, relative to that of the others. Ratios of
    0.4 to 0.7 were seen where the small neighbourhoods are better, above 0.9 where they are not."""
    odds_tolerated: float = 1.15
    """Relative odds that a link of the first graph leaves its cluster. Above this, the clusters
    have to be clearer still, by the fourth power of the excess."""
    odds_rejected: float = 2.0
    """Relative odds from which clusters are rejected; near-copies of few samples reach 2.7."""

    # k-means.
    embedding_restarts: tuple[int, int] = (10, 30)
    """Fewest and most restarts of k-means on the embedding; 300 / K lie between. Ten do for most
    data."""
    kmeans_rows: int = 10_000
    """Rows on which k-means starts; Lloyd's iterations over all rows follow. By convention."""
    kmeans_max_iter: int = 100
    """Most iterations over all rows; by convention."""
    kmeans_tol: float = 1e-6
    """Relative decrease of the cost below which these stop; by convention."""


DEFAULTS = GraphSettings()
