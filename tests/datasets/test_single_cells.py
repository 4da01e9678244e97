import gzip
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.sparse as sp

from manyview.datasets import Dataset, read_views

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
        (["X", "obs", "var"], "an AnnData file"),
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
