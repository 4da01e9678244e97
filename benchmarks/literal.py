"""A literal transcription of the algorithm of the paper, with errors corrected.

In its favour, conjugate gradients start at the current factor instead of zero and stop after 500
steps.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg

Matrix = npt.NDArray[np.float64]

SMOOTHING = 1e-20


class Literal:
    """The transcription and its state.

    Parameters
    ----------
    views : list of array
        Views with unit rows.
    factors : list of ndarray
        Initial view factors, bias last.
    clusters, indicator : ndarray
        Initial cluster factor and indicator.
    gamma : float
        Weight of the l2,1 penalty.
    """

    def __init__(
        self,
        views: list[Any],
        factors: list[Matrix],
        clusters: Matrix,
        indicator: Matrix,
        gamma: float,
    ) -> None:
        ones = np.ones((indicator.shape[0], 1))
        self.Z = [
            sp.hstack([X, ones], format="csr") if sp.issparse(X) else np.hstack([X, ones])
            for X in views
        ]
        self.W = [W.copy() for W in factors]
        self.A, self.F, self.gamma = clusters.copy(), indicator.copy(), gamma

    def objective(self) -> float:
        size = sum(np.linalg.norm(W, axis=1).sum() for W in (*self.W, self.A))
        return float(np.sum((self._embedding() @ self.A.T - self.F) ** 2) + self.gamma * size)

    def iterate(self) -> None:
        for v in range(len(self.W)):
            self._view_factor(v)
        P = self._embedding()
        weights = self.gamma * np.diag(_weights(self.A))
        self.A = scipy.linalg.solve_sylvester(weights, P.T @ P, self.F.T @ P)
        U, _, Vt = np.linalg.svd(P @ self.A.T, full_matrices=False)
        self.F = U @ Vt

    def run(self, iterations: int) -> float:
        """Iterate and return the seconds."""
        begin = time.perf_counter()
        for _ in range(iterations):
            self.iterate()
        return time.perf_counter() - begin

    def _embedding(self, without: int | None = None) -> Matrix:
        P = np.ones((self.F.shape[0], self.A.shape[1]))
        for v, (Z, W) in enumerate(zip(self.Z, self.W, strict=True)):
            if v != without:
                P = P * (Z @ W)
        return P

    def _view_factor(self, v: int) -> None:
        Z, B, shape = self.Z[v], self._embedding(without=v), self.W[v].shape
        C = self.A.T @ self.A
        p = self.gamma * _weights(self.W[v])[:, None]

        def product(vector: Matrix) -> Matrix:
            W = vector.reshape(shape)
            return np.asarray(Z.T @ (B * ((B * (Z @ W)) @ C)) + p * W).ravel()

        operator = scipy.sparse.linalg.LinearOperator((np.prod(shape),) * 2, matvec=product)
        right = (Z.T @ (B * (self.F @ self.A))).ravel()
        solution, _ = scipy.sparse.linalg.cg(
            operator, right, x0=self.W[v].ravel(), rtol=1e-6, maxiter=500
        )
        self.W[v] = solution.reshape(shape)


def _weights(factor: Matrix) -> Matrix:
    return np.asarray(0.5 / np.sqrt(np.sum(factor**2, axis=1) + SMOOTHING))
