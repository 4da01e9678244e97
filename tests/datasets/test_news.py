import shutil
from pathlib import Path

import numpy as np
import pytest

from manyview.datasets import load_3sources, load_cnn, load_fox, read_views, write_views
from manyview.datasets.files import data_folders
from manyview.datasets.news import NEWS

DOCUMENTS = {"bbc": ["001", "002", "004"], "guardian": ["002", "001"], "reuters": ["001", "002"]}


@pytest.fixture
def raw(tmp_path):
    """The published form in small: two stories are in all three sources."""
    folder = tmp_path / "3sources_raw"
    folder.mkdir()
    for source, documents in DOCUMENTS.items():
        entries = [f"{1 + int(d) % 2} {n + 1} {int(d)}.0000" for n, d in enumerate(documents)]
        head = "%%MatrixMarket matrix coordinate real general"
        lines = [head, f"2 {len(documents)} {len(entries)}", *entries]
        (folder / f"3sources_{source}.mtx").write_text("\n".join(lines) + "\n")
        (folder / f"3sources_{source}.terms").write_text("even\nodd\n")
        (folder / f"3sources_{source}.docs").write_text("\n".join(documents) + "\n")
    (folder / "3sources.disjoint.clist").write_text("tech, 002\nbusiness, 001,004\n")
    return folder


@pytest.fixture(autouse=True)
def no_other_folders(monkeypatch, tmp_path):
    for name in ("MANYVIEW_DATA", *(f"MANYVIEW_{s}_URL" for s in ("3SOURCES", "FOX", "CNN"))):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MANYVIEW_CACHE", str(tmp_path / "cache"))


def test_the_published_form_gives_the_stories_that_all_sources_report(raw, tmp_path):
    data = load_3sources(data_dir=tmp_path)
    assert data.name == "3sources"
    assert data.sample_ids.tolist() == ["001", "002"]
    assert data.views.names == ("bbc", "guardian", "reuters")
    assert data.views.present is None
    for array in data.views:
        assert array.toarray().tolist() == [[0, 1], [2, 0]]
    assert [names.tolist() for names in data.views.feature_names] == [["even", "odd"]] * 3
    assert data.class_names[data.y].tolist() == ["business", "tech"]


@pytest.mark.parametrize("place", ["3sources", "3sources/top", "3sources_raw/a/b"])
def test_where_the_archive_may_lie(raw, tmp_path, place):
    target = tmp_path / "data" / place
    target.parent.mkdir(parents=True)
    shutil.move(raw, target)
    assert load_3sources(data_dir=tmp_path / "data").views.n_samples == 2


def test_the_order_of_the_folders(raw, tmp_path, monkeypatch):
    def native(folder, n_samples):
        folder.mkdir()
        write_views(folder / "3sources.npz", [np.eye(n_samples)])

    native(tmp_path / "cache", 5)
    assert load_3sources().views.n_samples == 5
    native(tmp_path / "shared", 6)
    monkeypatch.setenv("MANYVIEW_DATA", str(tmp_path / "shared"))
    assert load_3sources().views.n_samples == 6
    assert load_3sources(data_dir=tmp_path).views.n_samples == 2
    monkeypatch.setenv("MANYVIEW_DATA", str(tmp_path / "nowhere"))
    assert load_3sources().views.n_samples == 5


@pytest.mark.parametrize("loader", [load_fox, load_cnn])
@pytest.mark.parametrize("form", ["{}.npz", "{}.mat", "{}/{}.mat", "{}/views/{}.npz"])
def test_forms_that_the_general_readers_know(tmp_path, loader, form):
    name = loader.__name__.removeprefix("load_")
    path = tmp_path / form.format(name, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_views(path, {"image": np.eye(4, 3), "text": np.eye(4)}, [0, 1, 0, 1])
    data = loader(data_dir=tmp_path)
    assert data.name == name
    assert data.views.n_features == [3, 4]


def test_a_folder_of_tables(tmp_path):
    (tmp_path / "fox").mkdir()
    (tmp_path / "fox" / "text.csv").write_text("id,x\na,1\nb,2\n")
    assert load_fox(data_dir=tmp_path).sample_ids.tolist() == ["a", "b"]


@pytest.mark.parametrize("name", NEWS)
def test_nothing_found_says_where_it_looked_and_where_data_come_from(tmp_path, monkeypatch, name):
    monkeypatch.setenv("MANYVIEW_DATA", str(tmp_path / "shared"))
    with pytest.raises(FileNotFoundError) as caught:
        NEWS[name]()
    message = str(caught.value)
    assert f"{tmp_path / 'shared'} and {tmp_path / 'cache'}" in message
    assert f"{name}.npz" in message
    assert f"MANYVIEW_DATA={tmp_path / 'shared'} is not a folder" in message
    assert f"MANYVIEW_{name.upper()}_URL" in message
    assert ("Dublin" if name == "3sources" else "Qian") in message
    assert not (tmp_path / "cache").exists()
    monkeypatch.setenv("MANYVIEW_DATA", "")
    with pytest.raises(FileNotFoundError, match=r"MANYVIEW_DATA, .*, is not set"):
        NEWS[name]()


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("3sources_reuters.terms", "even\n", r"3sources_reuters\.mtx has shape \(2, 2\); expected"),
        ("3sources_reuters.terms", None, r"3sources_reuters\.terms is missing"),
        ("3sources_reuters.mtx", None, r"3sources_reuters\.mtx is missing"),
        ("3sources_reuters.mtx", "words", "3sources_reuters.mtx: not a readable Matrix Market"),
        ("3sources_reuters.docs", "001\n001\n", r"3sources_reuters\.docs: id '001' is in row 1"),
        ("3sources.disjoint.clist", "tech, 001\n", "3sources.disjoint.clist has no label .*'002'"),
        ("3sources.disjoint.clist", "a, 001,002\nb, 001\n", "story '001' is in 'a' and in 'b'"),
    ],
)
def test_damage_to_the_archive_is_reported(raw, tmp_path, file, content, message):
    if content is None:
        (raw / file).unlink()
    else:
        (raw / file).write_text(content)
    with pytest.raises(ValueError, match=message) as caught:
        load_3sources(data_dir=tmp_path)
    assert str(caught.value).startswith(f"{raw}: ")


@pytest.mark.parametrize(
    ("platform", "variable", "expected"),
    [
        ("linux", "XDG_CACHE_HOME", "given/manyview"),
        ("win32", "LOCALAPPDATA", "given/manyview"),
        ("linux", None, "home/.cache/manyview"),
        ("darwin", None, "home/Library/Caches/manyview"),
        ("win32", None, "home/AppData/Local/manyview"),
    ],
)
def test_the_cache_is_the_users(monkeypatch, platform, variable, expected):
    for name in ("MANYVIEW_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setattr(Path, "home", lambda: Path("home"))
    if variable:
        monkeypatch.setenv(variable, "given")
    assert data_folders() == [Path(expected)]


@pytest.mark.data
def test_the_real_archive_is_the_native_file(data_dir, tmp_path):
    (tmp_path / "3sources_raw").symlink_to(data_dir / "3sources_raw")
    parsed, native = load_3sources(data_dir=tmp_path), read_views(data_dir / "3sources.npz")
    assert parsed.views.n_samples == 169
    assert parsed.views.names == native.views.names
    assert parsed.class_names.tolist() == native.class_names.tolist()
    assert parsed.y.tolist() == native.y.tolist()
    assert parsed.sample_ids.tolist() == native.sample_ids.tolist()
    for a, b in zip(parsed.views, native.views, strict=True):
        assert a.dtype == b.dtype
        assert (a != b).nnz == 0
    for a, b in zip(parsed.views.feature_names, native.views.feature_names, strict=True):
        assert a.tolist() == b.tolist()


@pytest.mark.data
def test_the_real_archive_with_all_stories(data_dir):
    from manyview.datasets.news import read_three_sources

    parsed = read_three_sources(data_dir / "3sources_raw", samples="all")
    native = read_views(data_dir / "3sources_all416_incomplete.npz")
    np.testing.assert_array_equal(parsed.views.present, native.views.present)
    assert parsed.y.tolist() == native.y.tolist()
    assert all((a != b).nnz == 0 for a, b in zip(parsed.views, native.views, strict=True))


@pytest.mark.data
@pytest.mark.parametrize(("name", "n_samples"), [("3sources", 169), ("fox", 1523), ("cnn", 2107)])
def test_the_real_native_files(data_dir, name, n_samples):
    data = NEWS[name](data_dir=data_dir)
    assert data.name == name
    assert data.views.n_samples == len(data.y) == len(data.sample_ids) == n_samples
