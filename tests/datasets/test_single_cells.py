import gzip
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.sparse as sp

from manyview import MMC
from manyview.datasets import Dataset, make_views, read_views

RNA = (["a", "b", "c"], ["g1", "g2"], np.arange(6.0).reshape(3, 2))
PROTEIN = (["c", "a", "b"], ["p1"], np.array([[30.0], [10.0], [20.0]]))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "set.h5mu"


@pytest.fixture
def written_by_mudata(tmp_path):
    """See files/README.md."""
    packed = Path(__file__).parent / "files" / "mudata_0.3.h5mu.gz"
    path = tmp_path / "cells.h5mu"
    path.write_bytes(gzip.decompress(packed.read_bytes()))
    return path


def test_a_file_that_mudata_wrote(written_by_mudata):
    data = read_views(written_by_mudata)
    assert data.views.names == ("rna", "protein")
    assert data.name == "cells"
    assert data.sample_ids.tolist() == [f"cell{i}" for i in range(6)]
    assert data.views.present.tolist() == [[True, i in (1, 2, 3, 4)] for i in range(5)] + [
        [False, True]
    ]
    assert [names.tolist() for names in data.views.feature_names] == [
        ["gene0", "gene1", "gene2", "gene3"],
        ["CD3", "CD4", "CD8"],
    ]
    rna = np.vstack([np.arange(20).reshape(5, 4), np.zeros((1, 4))])
    protein = np.arange(15).reshape(5, 3)
    assert sp.issparse(data.views["rna"])
    np.testing.assert_array_equal(data.views["rna"].toarray(), rna)
    np.testing.assert_array_equal(
        data.views["protein"], np.vstack([np.zeros((1, 3)), protein[1:], protein[:1]])
    )
    assert data.views["protein"].dtype == np.float32
    assert data.class_names[data.y].tolist() == ["B", "T", "B", "T", "T", "B"]


@pytest.mark.parametrize(
    ("labels", "classes"),
    [("donor", list("121211")), ("day", ["mon", "tue"] * 3), ("label", list("BTBTTB"))],
)
def test_columns_of_every_kind_give_classes(written_by_mudata, labels, classes):
    data = read_views(written_by_mudata, labels=labels)
    assert data.class_names[data.y].tolist() == classes


@pytest.mark.parametrize("labels", ["cell_type", "rna:cell_type"])
def test_classes_of_one_modality_need_its_samples_only(written_by_mudata, labels):
    with pytest.raises(ValueError, match=r"has no label for 1 of 6 samples \('cell5'\)"):
        read_views(written_by_mudata, labels=labels)
    data = read_views(written_by_mudata, labels=labels, samples="common")
    assert data.views.present is None
    assert data.sample_ids.tolist() == ["cell1", "cell2", "cell3", "cell4"]
    assert data.class_names[data.y].tolist() == ["T", "B", "T", "T"]


def test_samples_are_joined_by_name(path, write_h5mu):
    write_h5mu(path, {"rna": RNA, "protein": PROTEIN})
    data = read_views(path)
    assert data.views.present is None
    assert data.views["protein"].ravel().tolist() == [10, 20, 30]
    assert data.y is None


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_array])
def test_sparse_modalities(path, write_h5mu, kind):
    write_h5mu(path, {"rna": (*RNA[:2], kind(RNA[2])), "protein": PROTEIN})
    array = read_views(path).views["rna"]
    assert array.format == "csr"
    np.testing.assert_array_equal(array.toarray(), RNA[2])


def test_classes_that_no_one_asked_for_are_left_out_with_a_warning_where_some_are_missing(
    path, write_h5mu
):
    write_h5mu(path, {"rna": RNA}, columns={"cell_type": ([0, -1, 1], ["x", "y"])})
    with pytest.warns(UserWarning, match=r"'cell_type' .* no label for 1 of 3 samples \('b'\)"):
        assert read_views(path).y is None
    with pytest.raises(ValueError, match="'cell_type' of obs"):
        read_views(path, labels="cell_type")


def test_old_files_keep_categories_elsewhere_and_name_the_format_otherwise(path, write_h5mu):
    write_h5mu(path, {"rna": RNA, "protein": PROTEIN})
    with h5py.File(path, "r+") as file:
        obs = file["obs"]
        obs["__categories/kind"] = np.array(["x", "y"], dtype=h5py.string_dtype())
        obs["kind"] = np.array([1, 0, 1], dtype="i1")
        obs["kind"].attrs["categories"] = obs["__categories/kind"].ref
        group = file["mod/rna"]
        del group["X"]
        group.create_group("X").attrs.update({"h5sparse_format": "csr", "h5sparse_shape": (3, 2)})
        for part in ("data", "indices", "indptr"):
            group["X"][part] = getattr(sp.csr_array(RNA[2]), part)
    data = read_views(path, labels="kind")
    assert data.class_names[data.y].tolist() == ["y", "x", "y"]
    np.testing.assert_array_equal(data.views["rna"].toarray(), RNA[2])


def changed(**changes):
    return {"rna": RNA, "protein": PROTEIN} | changes


@pytest.mark.parametrize(
    ("modalities", "options", "message"),
    [
        ({}, {}, "'/mod' holds no modalities"),
        (changed(rna=(["a", "a", "b"], *RNA[1:])), {}, "'rna': id 'a' is in row 1 and in row 2"),
        (changed(rna=(*RNA[:2], np.eye(3))), {}, r"modality 'rna': X has shape \(3, 3\)"),
        (changed(rna=(*RNA[:2], np.array([b"a"]))), {}, "modality 'rna': '/mod/rna/X' holds"),
        (changed(), {"obs": ["a", "b"]}, "modality 'rna' has 1 samples"),
        (changed(rna=(["x", "y", "z"], *RNA[1:])), {}, "no id occurs in any two of modality 'rna'"),
        (changed(), {"axis": 1}, "the modalities share variables; expected them to share samples"),
    ],
)
def test_modalities_that_do_not_fit(path, write_h5mu, modalities, options, message):
    write_h5mu(path, modalities, **options)
    with pytest.raises(ValueError, match=message) as caught:
        read_views(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_a_column_that_is_not_there_lists_those_that_are(path, write_h5mu):
    write_h5mu(path, {"rna": RNA}, columns={"donor": [1, 2, 1]})
    with pytest.raises(ValueError, match=r"labels='kind' is not a column of obs; found .*'donor'"):
        read_views(path, labels="kind")


def test_a_modality_without_numbers(path, write_h5mu):
    write_h5mu(path, {"rna": RNA, "protein": PROTEIN})
    with h5py.File(path, "r+") as file:
        del file["mod/rna/X"]
    with pytest.raises(ValueError, match="modality 'rna': '/mod/rna/X' is missing; found 'obs'"):
        read_views(path)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (["weights"], "not a MuData file; .*'weights'"),
        (["X", "obs", "var"], r"an AnnData file.*\.h5ad"),
    ],
)
def test_other_hdf5_files(path, groups, message):
    with h5py.File(path, "w") as file:
        for group in groups:
            file.create_group(group)
    with pytest.raises(ValueError, match=message):
        read_views(path)


@pytest.mark.parametrize("content", [b"", b"no HDF5 at all", b"\x89HDF\r\n\x1a\n" + bytes(900)])
def test_what_is_no_hdf5_file(path, content):
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"set\.h5mu: not a readable MuData file"):
        read_views(path)


def test_sequences_in_place_of_strings(path, write_h5mu):
    write_h5mu(path, {"rna": RNA})
    with h5py.File(path, "r+") as file:
        del file["obs"].attrs["_index"]
        sequence = np.empty(1, dtype=object)
        sequence[0] = np.array([1, 2], dtype="i4")
        file["obs"].attrs.create("_index", sequence, (1,), h5py.vlen_dtype("i4"))
    with pytest.raises(ValueError, match="attribute _index' has an unsupported type"):
        read_views(path)


def test_a_heap_without_an_end(path, write_h5mu):
    write_h5mu(path, {"rna": RNA})
    content = bytearray(path.read_bytes())
    at = content.index(b"GCOL") + 16
    content[at : at + 16] = bytes(16)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"set\.h5mu: the heap at byte \d+ is damaged"):
        read_views(path)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_truncation_is_reported(path, write_h5mu):
    write_h5mu(path, {"rna": RNA, "protein": (*PROTEIN[:2], sp.csr_array(PROTEIN[2]))})
    content = path.read_bytes()
    assert isinstance(read_views(path), Dataset)
    for end in range(0, len(content), len(content) // 100):
        path.write_bytes(content[:end])
        with pytest.raises(ValueError, match=r"set\.h5mu: "):
            read_views(path)


def test_a_missing_extra_is_named(path, write_h5mu, monkeypatch):
    write_h5mu(path, {"rna": RNA})
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    with pytest.raises(ImportError, match=r"MuData file needs h5py: pip install 'manyview\[io\]'"):
        read_views(path)


# Addresses


def test_highly_variable_features_of_a_modality(path, write_h5mu):
    write_h5mu(path, {"rna": RNA, "protein": PROTEIN})
    with h5py.File(path, "r+") as file:
        file["mod/rna/var/highly_variable"] = np.array([False, True])
    data = read_views(path)
    assert data.views["rna"].tolist() == [[1], [3], [5]]
    assert data.views.feature_names[0].tolist() == ["g2"]
    assert any("1 of 2 variables" in note for note in data.notes)
    assert read_views(path, views={"rna": "rna:X"}).views["rna"].tolist() == RNA[2].tolist()


def test_prediction_reads_the_features_of_the_fit(path, write_h5mu):
    write_h5mu(path, {"rna": RNA, "protein": PROTEIN})
    with h5py.File(path, "r+") as file:
        file["mod/rna/var/highly_variable"] = np.array([False, True])
    like = {"rna": np.array(["g1"]), "protein": None}
    assert read_views(path, like=like).views["rna"].tolist() == [[0], [2], [4]]


def test_cells_without_the_chosen_views_are_left_out(path, write_h5mu):
    write_h5mu(path, {"rna": RNA, "protein": (["a", "d"], ["p1"], np.ones((2, 1)))})
    data = read_views(path, views={"rna": "rna"})
    assert data.sample_ids.tolist() == ["a", "b", "c"]
    assert any("1 cells have none" in note for note in data.notes)


# AnnData


@pytest.fixture
def annotated(tmp_path, write_h5ad):
    """A file, with its matrix X."""
    path, x = tmp_path / "cells.h5ad", np.arange(12.0).reshape(4, 3)
    write_h5ad(
        path,
        x,
        layers={"counts": sp.csr_array(x)},
        obsm={"X_pca": x[:, :2] + 1, "protein": {"CD3": [1.0, 2, 3, 4], "CD4": [5, 6, 7, 8]}},
        obs={"cell_type": ([0, 1, 1, 0], ["B", "T"]), "donor": [1, 1, 2, 2]},
        var={"good": [True, False, True]},
    )
    return path, x


def test_x_is_the_view_of_an_anndata_file(annotated):
    path, x = annotated
    data = read_views(path)
    assert data.views.names == ("X",)
    np.testing.assert_array_equal(data.views["X"], x)
    assert data.class_names[data.y].tolist() == ["B", "T", "T", "B"]
    assert read_views(path, labels="donor").class_names.tolist() == ["1", "2"]
    assert all(name in data.notes[-1] for name in ("'X_pca'", "'protein'", "'counts'"))


def test_layers_and_representations_are_views(annotated):
    path, x = annotated
    views = {"good": "X[good]", "counts": "layers/counts", "pca": "X_pca", "p": ["obsm/protein"]}
    data = read_views(path, views=views)
    assert data.views.names == tuple(views)
    np.testing.assert_array_equal(data.views["good"], x[:, [0, 2]])
    np.testing.assert_array_equal(data.views["counts"].toarray(), x)
    np.testing.assert_array_equal(data.views["pca"], x[:, :2] + 1)
    assert data.views["p"].tolist() == [[1, 5], [2, 6], [3, 7], [4, 8]]
    names = [None if names is None else names.tolist() for names in data.views.feature_names]
    assert names == [["g0", "g2"], ["g0", "g1", "g2"], None, ["CD3", "CD4"]]


@pytest.mark.parametrize(
    ("views", "message"),
    [
        ({"a": "layers/raw"}, "no layers 'raw'.*'counts'"),
        ({"a": "X_umap"}, "no obsm 'X_umap'.*'X_pca', 'protein'"),
        ({"a": "X[bad]"}, "no column 'bad'"),
        ({"a": "varm/PCs"}, "'varm/PCs' is no address"),
        ({"a": ["X", "X_pca"]}, "'a'.*one address"),
    ],
)
def test_addresses_that_lead_nowhere(annotated, views, message):
    with pytest.raises(ValueError, match=message) as caught:
        read_views(annotated[0], views=views)
    assert str(caught.value).startswith(f"{annotated[0]}: ")


def test_a_mudata_file_of_the_wrong_name(tmp_path, write_h5mu):
    write_h5mu(tmp_path / "cells.h5ad", {"rna": RNA})
    with pytest.raises(ValueError, match=r"MuData file.*\.h5mu"):
        read_views(tmp_path / "cells.h5ad")


def test_arrays_that_the_file_does_not_hold(annotated):
    path, _ = annotated
    with h5py.File(path, "r+") as file:
        del file["X"]
        file.create_dataset("X", (2**40, 3), "f4", chunks=(2**10, 3))
    with pytest.raises(ValueError, match="'/X' expands from 0 to"):
        read_views(path)


# 10x Genomics

COUNTS = np.array([[1, 0, 2, 5], [0, 3, 0, 6], [4, 0, 0, 7]])
KINDS = ["Gene Expression", "Gene Expression", "Antibody Capture", "Gene Expression"]


@pytest.fixture
def tenx(tmp_path, write_tenx):
    write_tenx(tmp_path / "filtered.h5", COUNTS, ["CD3E", "TBCE", "CD3", "TBCE"], KINDS)
    return tmp_path / "filtered.h5"


def test_feature_types_are_views(tenx):
    data = read_views(tenx)
    assert data.views.names == ("Gene Expression", "Antibody Capture")
    assert data.sample_ids.tolist() == ["AC0-1", "AC1-1", "AC2-1"]
    np.testing.assert_array_equal(data.views.arrays[0].toarray(), COUNTS[:, [0, 1, 3]])
    np.testing.assert_array_equal(data.views.arrays[1].toarray(), COUNTS[:, [2]])
    genes, proteins = data.views.feature_names
    assert genes.tolist() == ["CD3E", "TBCE (ENSG1)", "TBCE (ENSG3)"]
    assert proteins.tolist() == ["CD3"]


def test_feature_types_by_other_names(tenx):
    data = read_views(tenx, views={"adt": "Antibody Capture"})
    assert data.views.names == ("adt",)
    with pytest.raises(ValueError, match="'Peaks'; found 'Gene Expression', 'Antibody Capture'"):
        read_views(tenx, views={"atac": "Peaks"})


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("shape", np.array([4, 2]), r"shape \[4, 2\], 4 features and 3 barcodes"),
        ("indices", np.array([9, 0, 2, 1, 3, 3, 0]), "not a valid sparse matrix"),
        ("barcodes", np.array([b"a", b"a", b"b"]), "id 'a' is in row 1 and in row 2"),
        ("features/name", None, "'/matrix/features/name' is missing"),
    ],
)
def test_a_damaged_matrix(tenx, part, value, message):
    with h5py.File(tenx, "r+") as file:
        del file["matrix"][part]
        if value is not None:
            file["matrix"][part] = value
    with pytest.raises(ValueError, match=message):
        read_views(tenx)


def test_a_file_without_a_matrix(tmp_path):
    with h5py.File(tmp_path / "old.h5", "w") as file:
        file.create_group("GRCh38")
    with pytest.raises(ValueError, match="expected a group 'matrix', found 'GRCh38'"):
        read_views(tmp_path / "old.h5")


def test_counts_are_fitted(tmp_path, write_tenx):
    (genes, proteins), _ = make_views(90, 3, (20, 6), random_state=0)
    counts = np.random.default_rng(0).poisson(np.exp(np.hstack([genes, proteins]) / 2))
    kinds = ["Gene Expression"] * 20 + ["Antibody Capture"] * 6
    write_tenx(tmp_path / "cells.h5", counts, [f"f{d}" for d in range(26)], kinds)
    data = read_views(tmp_path / "cells.h5")
    assert MMC(3, random_state=0).fit(data.views).labels_.shape == (90,)
