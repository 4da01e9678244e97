"""The table of the paper: He et al., ICDM 2018, ACC and NMI as fractions.

Its normaliser of NMI, its preprocessing and its number of k-means restarts are not stated; its
baselines are tuned as their papers say, with labels.
"""

from __future__ import annotations

__all__ = ["PUBLISHED", "published_for"]

_SAMPLES = {"fox": 1523, "cnn": 2107, "3sources": 169}

PUBLISHED: dict[tuple[str, str], tuple[float, float]] = {
    (method, data): (acc / 100, nmi / 100)
    for method, figures in {
        "SEC": ((43.73, 8.87), (25.15, 4.62), (47.13, 20.43)),
        "CoRegSC": ((54.74, 24.37), (27.66, 7.73), (56.05, 52.44)),
        "AMGL": ((42.03, 3.52), (23.46, 2.99), (37.57, 11.13)),
        "RMKMC": ((61.92, 31.51), (21.16, 2.47), (44.47, 26.04)),
        "MultiNMF": ((76.93, 67.10), (40.14, 29.67), (50.78, 46.21)),
        "KCTD": ((46.24, 20.79), (27.56, 8.95), (41.93, 34.68)),
        "SCMV3DT": ((74.73, 58.90), (32.32, 26.23), (56.70, 47.36)),
        "MMC-F": ((71.15, 52.77), (56.60, 43.92), (51.86, 31.14)),
        "MMC": ((79.62, 71.39), (57.88, 47.30), (60.58, 52.83)),
    }.items()
    for data, (acc, nmi) in zip(("fox", "cnn", "3sources"), figures, strict=True)
}


def published_for(method: str, data: str, n_samples: int = 0) -> tuple[float, float] | None:
    """Return ACC and NMI of the paper, or None where it has none.

    Parameters
    ----------
    method, data : str
        Names.
    n_samples : int
        Of the data, which may have the name of one of the paper's sets and be another; 0 where it
        is not known.

    Returns
    -------
    tuple of float, or None

    Examples
    --------
    >>> published_for("MMC", "fox", 1523)
    (0.7962, 0.7139)
    >>> published_for("MMC", "fox", 40) is None
    True
    """
    if n_samples and n_samples != _SAMPLES.get(data):
        return None
    return PUBLISHED.get((method, data))
