"""The methods that MMC is compared with, one module per method."""

from manyview.baselines.amgl import AMGL
from manyview.baselines.coreg import CoRegSC
from manyview.baselines.gmc import GMC
from manyview.baselines.kctd import KCTD
from manyview.baselines.lmvsc import LMVSC
from manyview.baselines.multinmf import MultiNMF
from manyview.baselines.nemo import NEMO
from manyview.baselines.opmc import OPMC
from manyview.baselines.rmkmc import RMKMC
from manyview.baselines.scmv3dt import SCMV3DT
from manyview.baselines.sec import SEC
from manyview.baselines.snf import SNF

__all__ = [
    "AMGL",
    "GMC",
    "KCTD",
    "LMVSC",
    "NEMO",
    "OPMC",
    "RMKMC",
    "SCMV3DT",
    "SEC",
    "SNF",
    "CoRegSC",
    "MultiNMF",
]
