import numpy as np


def indicator_of(labels, n_clusters):
    """Return Y (Y'Y)^(-1/2) for one-hot Y."""
    members = np.eye(n_clusters)[labels]
    return members / np.sqrt(members.sum(axis=0))
