"""What predicts samples that were not there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manyview._typing import Matrix
from manyview.engine import Engine, Scaling
from manyview.mmc.model import Factors
from manyview.mmc.readout import Readout, predict_samples

__all__ = ["Predictor"]


@dataclass(frozen=True)
class Predictor:
    """What a fit keeps for samples to come.

    Attributes
    ----------
    factors : Factors
        The features that are left, fitted anew; NumPy arrays.
    readout : Readout
        How a prediction becomes a label.
    mean_rows : list of ndarray of shape (n_features + 1,)
        Mean of each view's rows as fit scaled them, for samples that lack the view.
    normalize : {"rows", "columns"} or None
        How rows are scaled.
    scalings : list of Scaling
        How the columns of each view are scaled.
    is_zero : bool
        Whether the model went to zero, so that no feature speaks for a cluster.
    """

    factors: Factors
    readout: Readout
    mean_rows: list[Matrix]
    normalize: str | None
    scalings: list[Scaling]
    is_zero: bool

    def predict(self, engine: Engine, *, lacking: bool) -> None:
        """Put prediction and labels of every sample of the engine into its blocks.

        Parameters
        ----------
        engine : Engine
            The samples, scaled as ``normalize`` and ``scalings`` say.
        lacking : bool
            Whether some of them lack a view.
        """
        # the wider of the precisions of fit and of these views
        dtype = np.result_type(engine.dtype, self.factors.clusters.dtype)
        factors = Factors(
            tuple(factor.astype(dtype, copy=False) for factor in self.factors.views),
            self.factors.clusters.astype(dtype, copy=False),
        )
        predict_samples(engine, factors, self.readout, self.mean_rows if lacking else None)
