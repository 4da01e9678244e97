import hashlib
import io
import stat
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from manyview.datasets import load_fox, read_views, write_views
from manyview.datasets.fetch import fetch, unpack


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        content = self.server.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.server.asked.append(self.path)
        cut = self.path.startswith("/half")
        self.wfile.write(content[: len(content) // 2] if cut else content)

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        made.files, made.asked = {}, []
        made.url = f"http://127.0.0.1:{made.server_port}"
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture
def native(tmp_path_factory):
    path = tmp_path_factory.mktemp("native") / "fox.npz"
    write_views(path, {"image": np.eye(4, 3), "text": np.eye(4)}, ["a", "b", "a", "b"])
    return path.read_bytes()


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def zipped(members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def tarred(members):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            if content is None:
                info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
            info.size = len(content or b"")
            archive.addfile(info, io.BytesIO(content or b""))
    return file.getvalue()


@pytest.mark.parametrize("form", ["fox.npz", "fox.zip", "fox.tar.gz", "news.tgz"])
def test_what_was_downloaded_is_found_the_next_time(server, native, tmp_path, form):
    pack = {"npz": bytes, "zip": zipped, "gz": tarred, "tgz": tarred}[form.rsplit(".", 1)[1]]
    content = native if pack is bytes else pack({"news/fox.npz": native})
    server.files[f"/{form}"] = content
    folder = tmp_path / "cache" / "deep"
    options = {"url": f"{server.url}/{form}", "sha256": sha256(content).upper()}
    for _ in range(2):
        data = load_fox(data_dir=folder, **options, verbose=False)
        assert data.name == "fox"
        assert data.views.names == ("image", "text")
    assert server.asked == [f"/{form}"]
    assert [entry.name for entry in folder.iterdir()] == ["fox.npz" if pack is bytes else "fox"]


def test_addresses_from_the_environment(server, native, tmp_path, monkeypatch):
    server.files["/set.npz"] = native
    monkeypatch.delenv("MANYVIEW_DATA", raising=False)
    monkeypatch.setenv("MANYVIEW_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MANYVIEW_FOX_URL", f"{server.url}/set.npz")
    with pytest.raises(ValueError, match=r"sha256=None for .*; expected the 64 hexadecimal digits"):
        load_fox()
    monkeypatch.setenv("MANYVIEW_FOX_SHA256", sha256(native))
    assert load_fox(verbose=False).views.n_samples == 4
    assert (tmp_path / "cache" / "fox.npz").read_bytes() == native


def test_progress_goes_to_standard_error(server, native, tmp_path, capsys):
    content = zipped({"fox.npz": native, "padding": bytes(300_000)})
    server.files["/fox.zip"] = content
    load_fox(data_dir=tmp_path, url=f"{server.url}/fox.zip", sha256=sha256(content))
    captured = capsys.readouterr()
    assert "fox.zip [####" in captured.err
    assert captured.out == ""


BAD_ARCHIVES = {
    "/slip.zip": (zipped({"../evil.npz": b"x"}), "leads out of the folder"),
    "/slip.tar.gz": (tarred({"../evil.npz": b"x"}), "leads out of the folder"),
    "/link.tar.gz": (tarred({"link": None}), "is a link or a device"),
    "/none.zip": (b"no archive", "cannot be unpacked"),
    "/other.zip": (zipped({"notes.txt": b"x"}), "expected .csv, .tsv or .parquet files"),
    "/other.npz": (b"no npz", "not a readable .npz archive"),
}


@pytest.mark.parametrize("path", BAD_ARCHIVES)
@pytest.mark.parametrize("is_new", [True, False])
def test_bad_content_leaves_nothing_behind(server, tmp_path, path, is_new):
    content, message = BAD_ARCHIVES[path]
    server.files[path] = content
    folder = tmp_path / "cache"
    if not is_new:
        folder.mkdir()
        (folder / "older").write_text("x")
    with pytest.raises(ValueError, match=message):
        load_fox(data_dir=folder, url=server.url + path, sha256=sha256(content), verbose=False)
    left = sorted(entry.name for entry in tmp_path.rglob("*"))
    assert left == ([] if is_new else ["cache", "older"])


@pytest.mark.parametrize(
    ("path", "checksum", "error", "message"),
    [
        ("/fox.npz", "0" * 64, ValueError, "fox.npz: SHA256 hash of downloaded file"),
        ("/half.npz", None, OSError, "half.npz could not be downloaded"),
        ("/gone.npz", None, OSError, "gone.npz could not be downloaded .*404"),
    ],
)
def test_a_failed_download_leaves_nothing_behind(
    server, native, tmp_path, path, checksum, error, message
):
    server.files |= {"/fox.npz": native, "/half.npz": native}
    with pytest.raises(error, match=message):
        load_fox(
            data_dir=tmp_path / "cache",
            url=server.url + path,
            sha256=checksum or sha256(native),
            verbose=False,
        )
    assert not list(tmp_path.iterdir())


def test_no_server(tmp_path):
    with pytest.raises(OSError, match="could not be downloaded"):
        load_fox(data_dir=tmp_path, url="http://127.0.0.1:1/fox.npz", sha256="0" * 64)
    assert not list(tmp_path.iterdir())


def test_a_download_without_end_is_cut(server, tmp_path):
    content = bytes(300_000)
    server.files["/fox.npz"] = content
    with pytest.raises(ValueError, match="300000 bytes; expected at most 1000"):
        fetch(
            f"{server.url}/fox.npz",
            sha256(content),
            tmp_path,
            "fox",
            read_views,
            verbose=False,
            most_bytes=1000,
        )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("file:///etc/passwd.npz", "expected an address that starts with http"),
        ("ftp://example.org/set.npz", "expected an address that starts with http"),
        ("set.npz", "expected an address that starts with http"),
        ("https://example.org/set.exe", r"set\.exe.*\.h5mu"),
    ],
)
def test_addresses_that_are_rejected(tmp_path, url, message):
    with pytest.raises(ValueError, match=message):
        load_fox(data_dir=tmp_path, url=url, sha256="0" * 64)


@pytest.mark.parametrize("checksum", [None, "abc", "g" * 64])
def test_nothing_unverified(tmp_path, checksum):
    with pytest.raises(ValueError, match=r"sha256=.*checksum"):
        load_fox(data_dir=tmp_path, url="https://example.org/set.npz", sha256=checksum)


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pooch", None)
    with pytest.raises(ImportError, match=r"downloading fox needs pooch: pip install 'manyview"):
        load_fox(data_dir=tmp_path, url="https://example.org/set.npz", sha256="0" * 64)


def zipped_unpack(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)


def tarred_unpack(path, members):
    with tarfile.open(path, "w:gz") as file:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))


@pytest.fixture(
    params=[("set.zip", zipped_unpack), ("set.tar.gz", tarred_unpack), ("set.TGZ", tarred_unpack)]
)
def pack(request, tmp_path):
    name, write = request.param

    def packed(members):
        write(tmp_path / name, members)
        return tmp_path / name

    return packed


def test_members_come_out_as_they_were(pack, tmp_path):
    unpack(pack({"top/a.txt": b"one", "b.txt": b"two"}), tmp_path / "out")
    assert (tmp_path / "out/top/a.txt").read_bytes() == b"one"
    assert (tmp_path / "out/b.txt").read_bytes() == b"two"


@pytest.mark.parametrize(
    "name", ["../evil", "/evil", "a/../../evil", "a/..", "..\\evil", "C:\\evil", "C:evil"]
)
def test_names_that_lead_out_of_the_folder(pack, tmp_path, name):
    archive = pack({"good": b"1", name: b"2"})
    with pytest.raises(ValueError, match="leads out of the folder; nothing was unpacked"):
        unpack(archive, tmp_path / "out")
    assert list(tmp_path.iterdir()) == [archive]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_in_tar(tmp_path, kind):
    archive = tmp_path / "set.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        info = tarfile.TarInfo("link")
        info.type, info.linkname = kind, "/etc/passwd"
        file.addfile(info)
    with pytest.raises(ValueError, match="member 'link' is a link or a device"):
        unpack(archive, tmp_path / "out")
    assert list(tmp_path.iterdir()) == [archive]


def test_links_in_zip(tmp_path):
    archive = tmp_path / "set.zip"
    info = zipfile.ZipInfo("link")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    zipped_unpack(archive, {info: "/etc/passwd"})
    with pytest.raises(ValueError, match="member 'link' is a link or a device"):
        unpack(archive, tmp_path / "out")


def test_too_much_of_it(pack, tmp_path):
    archive = pack({"zeros": bytes(10**6), "more": b""})
    with pytest.raises(ValueError, match=r"set\..* at most .* 100000 bytes"):
        unpack(archive, tmp_path / "out", most_bytes=10**5)
    with pytest.raises(ValueError, match=r"set\..* at most 1 members"):
        unpack(archive, tmp_path / "out", most_members=1)


def test_a_zip_file_that_understates_its_size_unpacks_no_more_than_it_states(tmp_path):
    archive, size = tmp_path / "set.zip", 10**6
    zipped_unpack(archive, {"zeros": bytes(size)})
    content = archive.read_bytes()
    stated = size.to_bytes(4, "little")
    assert content.count(stated) == 2
    archive.write_bytes(content.replace(stated, (10).to_bytes(4, "little")))
    with pytest.raises(ValueError, match=r"set\.zip: cannot be unpacked"):
        unpack(archive, tmp_path / "out", most_bytes=1000)
    assert (tmp_path / "out" / "zeros").stat().st_size <= 10


@pytest.mark.parametrize("name", ["set.zip", "set.tar.gz"])
@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04", b"\x1f\x8b\x08\x00"])
def test_what_is_no_archive(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{name}: cannot be unpacked"):
        unpack(tmp_path / name, tmp_path / "out")


def test_a_truncated_archive(pack, tmp_path):
    archive = pack({"a": bytes(range(256)) * 50})
    content = archive.read_bytes()
    archive.write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match="cannot be unpacked"):
        unpack(archive, tmp_path / "out")
