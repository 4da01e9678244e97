import io
import stat
import tarfile
import zipfile

import pytest

from manyview.datasets.unpack import unpack


def zipped(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)


def tarred(path, members):
    with tarfile.open(path, "w:gz") as file:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))


@pytest.fixture(params=[("set.zip", zipped), ("set.tar.gz", tarred), ("set.TGZ", tarred)])
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
    zipped(archive, {info: "/etc/passwd"})
    with pytest.raises(ValueError, match="member 'link' is a link or a device"):
        unpack(archive, tmp_path / "out")


def test_too_much_of_it(pack, tmp_path):
    archive = pack({"zeros": bytes(10**6), "more": b""})
    with pytest.raises(ValueError, match="2 members of 1000000 bytes; expected at most"):
        unpack(archive, tmp_path / "out", most_bytes=10**5)
    with pytest.raises(ValueError, match="2 members of 1000000 bytes; expected at most 1 and"):
        unpack(archive, tmp_path / "out", most_members=1)


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
