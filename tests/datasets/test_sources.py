import gzip
import zipfile

import pytest

from manyview.datasets import read_views
from manyview.datasets import sources as sources_module
from manyview.datasets.sources import Source

TEXT = "id,apple,pear\na,1,2\nb,3,4\n"
IMAGE = "id,red\nb,30\na,10\n"


def archive(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in members.items():
            file.writestr(name.replace("__", "/"), text)
    return path


@pytest.mark.parametrize("name", ["text.csv.gz", "text.tsv.gz", "text.txt.gz"])
def test_a_compressed_table(tmp_path, name):
    with gzip.open(tmp_path / name, "wt") as file:
        file.write(TEXT.replace(",", "\t") if "csv" not in name else TEXT)
    data = read_views(tmp_path / name)
    assert data.name == "text"
    assert data.views["text"].tolist() == [[1, 2], [3, 4]]


def test_an_archive_of_tables_is_a_folder(tmp_path):
    files = {"set__text.csv": TEXT, "set__image.csv": IMAGE, "labels.csv": "id,y\na,u\nb,w\n"}
    junk = {"__MACOSX__._text.csv": "junk", "set__.hidden.csv": "junk", "README.md": "words"}
    data = read_views(archive(tmp_path / "news.zip", **files, **junk))
    assert data.name == "news"
    assert data.views.names == ("image", "text")
    assert data.views["text"].tolist() == [[3, 4], [1, 2]]
    assert data.class_names[data.y].tolist() == ["w", "u"]


def test_an_archive_of_one_table_is_a_table(tmp_path):
    path = archive(tmp_path / "text.csv.zip", **{"any.csv": TEXT})
    data = read_views(path, views={"a": "apple", "p": "pear"})
    assert data.name == "text"
    assert data.views.names == ("a", "p")


def test_a_compressed_table_in_a_folder_is_a_view(tmp_path):
    archive(tmp_path / "text.csv.zip", **{"text.csv": TEXT})
    (tmp_path / "image.csv").write_text(IMAGE)
    assert read_views(tmp_path).views.names == ("image", "text")
    archive(tmp_path / "more.csv.zip", **{"a.csv": TEXT, "b.csv": TEXT})
    with pytest.raises(ValueError, match=r"more\.csv\.zip holds 2 files; expected one table"):
        read_views(tmp_path)


def test_two_tables_of_one_name(tmp_path):
    (tmp_path / "text.csv").write_text(TEXT)
    with gzip.open(tmp_path / "text.csv.gz", "wt") as file:
        file.write(TEXT)
    with pytest.raises(ValueError, match="holds 2 tables named 'text'"):
        read_views(tmp_path)


@pytest.mark.parametrize("kind", ["gz", "zip", "xlsx"])
def test_what_expands_without_bound_is_rejected(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(sources_module, "_ALWAYS_ACCEPTED", 1000)
    text = "id,x\n" + "".join(f"{n},0\n" for n in range(10)) + "0," * 0 + " " * 2_000_000
    path = tmp_path / f"t.{'csv.gz' if kind == 'gz' else kind}"
    if kind == "gz":
        with gzip.open(path, "wt") as file:
            file.write(text)
    else:
        archive(path, **{"t.csv": text})
    with pytest.raises(ValueError, match="expands to more than 200 times its size"):
        read_views(path)


@pytest.mark.parametrize("name", ["text.csv.gz", "text.zip", "text.csv.xz", "text.csv.bz2"])
def test_damaged_archives_are_rejected(tmp_path, name):
    path = tmp_path / name
    if name.endswith("gz"):
        content = gzip.compress(TEXT.encode())[:-12]
    else:
        content = b"no archive, but long enough to look like one"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"{name}: "):
        read_views(path)


def test_an_archive_without_tables(tmp_path):
    path = archive(tmp_path / "news.zip", **{"a.doc": "words"})
    with pytest.raises(ValueError, match=r"the archive holds 'a\.doc'; expected tables: \.csv"):
        read_views(path)


def test_the_name_of_a_member_leads_nowhere(tmp_path):
    path = archive(tmp_path / "news.zip", **{"..__..__text.csv": TEXT})
    assert Source(path, "../../text.csv").name == "text.csv"
    assert read_views(path).views.n_features == [2]
    assert list(tmp_path.iterdir()) == [path]
