"""Results in AnnData and MuData objects. Those of scanpy and muon are tested where they are."""

import re

import numpy as np
import pytest
import scipy.sparse as sp

from manyview import MMC, as_views, scverse
from manyview.datasets import make_views, read_views, write_views
from manyview.metrics import clustering_accuracy

from .cli.command import run

anndata = pytest.importorskip("anndata")
mudata = pytest.importorskip("mudata")
pd = pytest.importorskip("pandas")
# of a change in mudata 0.4, whenever an object is made
pytestmark = pytest.mark.filterwarnings("ignore:From 0.4:FutureWarning")

(RNA, PROTEIN), Y = make_views(160, 3, (30, 8), random_state=0)
RNA, PROTEIN = RNA - RNA.min(), PROTEIN - PROTEIN.min()
NAMES = [f"cell{n}" for n in range(160)]


def cells(array, kept=slice(None), kind="gene", **parts):
    variables = pd.DataFrame(index=[f"{kind}{d}" for d in range(array.shape[1])])
    made = anndata.AnnData(array, obs=pd.DataFrame(index=NAMES), var=variables, **parts)
    return made[kept].copy()


@pytest.fixture
def mdata():
    rna = cells(RNA, slice(0, 150), layers={"doubled": 2 * RNA}, obsm={"X_pca": RNA[:, :4]})
    return mudata.MuData({"rna": rna, "protein": cells(PROTEIN, slice(20, 160), "protein")})


@pytest.fixture
def adata():
    protein = pd.DataFrame(PROTEIN, NAMES, [f"CD{d}" for d in range(8)])
    return cells(sp.csr_matrix(RNA), obsm={"X_pca": RNA[:, :4], "protein": protein})


def test_all_results_of_a_fit_are_added(mdata):
    assert scverse.mmc(mdata, 3) is None
    model = MMC(3, random_state=0).fit(mdata)
    assert mdata.obs["mmc"].dtype == pd.CategoricalDtype(["0", "1", "2"])
    assert mdata.obs["mmc"].astype(int).tolist() == model.labels_.tolist()
    np.testing.assert_array_equal(mdata.obsm["mmc_membership"], model.membership_)
    np.testing.assert_array_equal(mdata.obs["mmc_confidence"], model.confidence_)
    affinity = mdata.obsp["mmc_affinity"]
    assert abs(affinity - affinity.T).max() == 0
    same = Y[:, None] == Y
    assert affinity.multiply(same).sum() > 0.8 * affinity.sum()
    found = mdata.uns["mmc"]
    assert found["n_clusters"] == 3
    assert found["params"]["indicator"] == "leave-one-out"
    assert found["views"]["normalize"].to_dict() == model.normalize_
    np.testing.assert_allclose(found["views"]["added"], model.view_weights_[-1])
    explained = {entry.features for order in (1, 2) for entry in model.explain(order)}
    listed = found["combinations"][["view_1", "feature_1", "view_2", "feature_2"]]
    pairs = {((a, b), (c, d)) if c else ((a, b),) for a, b, c, d in listed.to_numpy().tolist()}
    assert pairs == explained


def equal(one, other):
    """Whether two results are equal, whatever they are stored as."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if sp.issparse(one):
        return abs(one - other).max() == 0
    if isinstance(one, pd.DataFrame):
        pd.testing.assert_frame_equal(one, other)
        return True
    return np.array_equal(one, other)


@pytest.mark.parametrize("kind", ["h5mu", "h5ad"])
def test_results_survive_a_file(mdata, adata, tmp_path, kind):
    data, views = (mdata, None) if kind == "h5mu" else (adata, ["X", "protein"])
    scverse.mmc(data, 3, views=views, normalize={"protein": "rows"}, key_added="found")
    path = tmp_path / f"cells.{kind}"
    getattr(data, f"write_{kind}")(path)
    again = (mudata.read_h5mu if kind == "h5mu" else anndata.read_h5ad)(path)
    assert again.obs["found"].equals(data.obs["found"])
    assert equal(again.obsm["found_membership"], data.obsm["found_membership"])
    assert equal(again.obsp["found_affinity"], data.obsp["found_affinity"])
    assert equal(again.uns["found"], data.uns["found"])


def test_representations_of_an_anndata_object(adata):
    views = {"X": "X", "pca": "obsm/X_pca", "surface": "protein"}
    copied = scverse.mmc(adata, "auto", views=views, copy=True)
    assert "mmc" not in adata.obs
    assert "mmc" not in adata.uns
    assert copied.uns["mmc"]["views"]["address"].to_dict() == views
    assert copied.uns["mmc"]["n_clusters"] == 3
    assert clustering_accuracy(Y, copied.obs["mmc"].astype(int)) > 0.95
    features = copied.uns["mmc"]["combinations"]
    assert set(features["feature_1"][features["view_1"] == "surface"]) <= set(
        adata.obsm["protein"].columns
    )


@pytest.mark.parametrize(
    ("address", "same"),
    [
        ("rna:X", lambda rna: rna.X),
        ("rna:layers/doubled", lambda rna: rna.layers["doubled"]),
        ("rna:obsm/X_pca", lambda rna: rna.obsm["X_pca"]),
        ("rna", lambda rna: rna.X[:, :12]),
        ("rna:layers/doubled[some]", lambda rna: rna.layers["doubled"][:, 5:]),
    ],
)
def test_addresses_in_a_modality(mdata, address, same, tmp_path):
    rna = mdata["rna"]
    rna.var["highly_variable"] = np.arange(30) < 12
    rna.var["some"] = np.arange(30) >= 5
    mdata.write_h5mu(tmp_path / "cells.h5mu")
    views = {"rna": address, "protein": "protein"}
    scverse.mmc(mdata, 3, views=views)
    whole = np.zeros((160, same(rna).shape[1]))
    whole[:150] = same(rna)
    stored = read_views(tmp_path / "cells.h5mu", views=views)
    np.testing.assert_array_equal(stored.views["rna"], whole)
    labels = MMC(3, random_state=0).fit(stored.views).labels_
    assert mdata.obs["mmc"].astype(int).tolist() == labels.tolist()


def test_cells_without_any_of_the_views_have_no_cluster(mdata):
    with pytest.warns(UserWarning, match="20 cells have none of the views"):
        scverse.mmc(mdata, 3, views=["protein"])
    outside = np.arange(160) < 20
    assert mdata.obs["mmc"].isna().tolist() == outside.tolist()
    assert np.isnan(mdata.obsm["mmc_membership"]).all(axis=1).tolist() == outside.tolist()
    linked = mdata.obsp["mmc_affinity"].sum(axis=1).A1 > 0
    assert linked.tolist() == (~outside).tolist()


def test_affinities_of_very_many_cells_are_left_out(adata, monkeypatch):
    monkeypatch.setattr(scverse, "_MOST_COMPARED", 100)
    scverse.mmc(adata, 3, views=["X", "protein"])
    assert "mmc_affinity" not in adata.obsp
    assert "160 cells" in adata.uns["mmc"]["affinity"]


@pytest.mark.parametrize(
    ("views", "named"),
    [
        ({"a": "atac"}, ["atac", "'rna'", "'protein'"]),
        ({"a": "rna:layers/counts"}, ["'rna'", "'counts'", "'doubled'"]),
        ({"a": "rna:obsm/X_umap"}, ["'rna'", "'X_umap'", "'X_pca'"]),
        ({"a": "obsm/X_mofa"}, ["'X_mofa'", "'X_all'"]),
        ({"a": "rna:X[absent]"}, ["'rna'", "'absent'"]),
        ({"a": "rna:raw/X"}, ["rna:raw/X", "layers/NAME"]),
        ({"a": "rna:obsm/X_pca[absent]"}, ["rna:obsm/X_pca[absent]"]),
        (["rna:layers/doubled", "protein:layers/doubled"], ["equal names"]),
    ],
)
def test_what_is_not_there(mdata, views, named):
    mdata.obsm["X_all"] = np.ones((160, 2))
    with pytest.raises(ValueError, match=re.escape(named[0])) as caught:
        scverse.mmc(mdata, 3, views=views)
    assert all(name in str(caught.value) for name in named)
    assert "mmc" not in mdata.obs


def test_views_of_anndata_have_to_be_named(adata):
    with pytest.raises(ValueError, match=r"'X_pca', 'protein'"):
        scverse.mmc(adata, 3)


def test_other_data(tmp_path, adata):
    with pytest.raises(TypeError, match="received DataFrame"):
        scverse.mmc(pd.DataFrame(RNA), 3)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    with pytest.raises(TypeError, match="to_memory"):
        scverse.mmc(backed, 3, views=["X"])
    backed.file.close()


# Files


@pytest.mark.parametrize("kind", ["h5mu", "h5ad"])
def test_the_command_writes_a_copy_with_the_results(mdata, adata, tmp_path, kind):
    data, views = (mdata, None) if kind == "h5mu" else (adata, {"all": "X", "surface": "protein"})
    data.obs["batch"] = pd.Categorical(["a", "b"] * 80)
    source, out = tmp_path / f"cells.{kind}", tmp_path / f"out.{kind}"
    getattr(data, f"write_{kind}")(source)
    before = source.read_bytes()
    given = [f"--view={name}={address}" for name, address in (views or {}).items()]
    arguments = ["fit", str(source), "-k", "3", "--out", str(out), "--quiet", *given]
    assert run(*arguments).exit_code == 0
    assert source.read_bytes() == before
    scverse.mmc(data, 3, views=views)
    again = (mudata.read_h5mu if kind == "h5mu" else anndata.read_h5ad)(out)
    assert again.obs[["batch", "mmc", "mmc_confidence"]].equals(
        data.obs[["batch", "mmc", "mmc_confidence"]]
    )
    assert equal(again.obsp["mmc_affinity"], data.obsp["mmc_affinity"])
    assert equal(again.uns["mmc"]["combinations"], data.uns["mmc"]["combinations"])
    # existing files are kept, and results replaced
    assert run(*arguments).exit_code == 2
    assert run("fit", str(out), "-k", "2", "--out", str(out), "--force", *given).exit_code == 2
    newer = tmp_path / f"newer.{kind}"
    assert run("fit", str(out), "-k", "2", "--out", str(newer), "--quiet", *given).exit_code == 0
    again = (mudata.read_h5mu if kind == "h5mu" else anndata.read_h5ad)(newer)
    assert again.obs["mmc"].cat.categories.tolist() == ["0", "1"]
    assert again.obs.columns.tolist().count("mmc") == 1


def test_other_data_become_a_mudata_file(tmp_path):
    source, out = tmp_path / "some.npz", tmp_path / "some.h5mu"
    present = np.ones((160, 2), dtype=bool)
    present[:9, 0] = False
    views = as_views({"rna": sp.csr_array(RNA), "protein": PROTEIN}, present=present)
    write_views(source, views, Y)
    assert run("fit", source, "-k", 3, "--out", out, "--quiet").exit_code == 0
    data = mudata.read_h5mu(out)
    assert data["rna"].n_obs == 151
    data = data[[str(n) for n in range(160)]]
    assert data.obs["class"].astype(int).tolist() == Y.tolist()
    assert (
        data.obs["mmc"].astype(int).tolist() == MMC(3, random_state=0).fit_predict(views).tolist()
    )
    assert run("fit", source, "-k", 3, "--out", tmp_path / "some.h5ad").exit_code == 2


def test_a_failure_leaves_no_file(mdata, tmp_path, monkeypatch):
    mdata.write_h5mu(tmp_path / "cells.h5mu")

    def fail(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr(scverse, "_add_results", fail)
    out = tmp_path / "out.h5mu"
    assert run("fit", str(tmp_path / "cells.h5mu"), "-k", "3", "--out", str(out)).exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["cells.h5mu"]


# scanpy and muon


@pytest.mark.filterwarnings("ignore")
def test_scanpy_uses_the_affinities(adata):
    scanpy = pytest.importorskip("scanpy")
    pytest.importorskip("igraph")
    scverse.mmc(adata, 3, views=["X", "protein"])
    scanpy.tl.leiden(adata, obsp="mmc_affinity", flavor="igraph", n_iterations=2, resolution=0.3)
    assert clustering_accuracy(Y, adata.obs["leiden"].astype(int)) > 0.9
    scanpy.tl.rank_genes_groups(adata, "mmc", method="wilcoxon")
    assert adata.uns["rank_genes_groups"]["names"].dtype.names == ("0", "1", "2")


@pytest.mark.filterwarnings("ignore")
def test_the_results_of_muon_are_views(mdata):
    muon = pytest.importorskip("muon")
    scanpy = pytest.importorskip("scanpy")
    muon.pp.intersect_obs(mdata)
    for modality in mdata.mod.values():
        scanpy.pp.pca(modality, n_comps=5)
    views = {"rna": "rna:obsm/X_pca", "protein": "protein:obsm/X_pca"}
    scverse.mmc(mdata, 3, views=views)
    assert clustering_accuracy(Y[20:150], mdata.obs["mmc"].astype(int)) > 0.9
